"""What the fits of this room have in common: clean rows, their temperature, whole weights."""

from typing import Any

import numpy as np

from wildcal._old.calibrators.temperature import (
    DEFAULT_BOUNDS,
    TemperatureFit,
    bound_notes,
    fit_temperature,
)
from wildcal._old.core.calibrator import FitSummary
from wildcal._old.core.objective import mean_loss
from wildcal._old.core.rows import Rows


def clean_rows(rows: Rows) -> Rows:
    """Return the rows of environment 0, or all where there are no environments."""
    return rows if rows.environment is None else rows[rows.environment == 0]


def scaled(rows: Rows, bounds: tuple[float, float] = DEFAULT_BOUNDS) -> TemperatureFit:
    """Return temperature scaling of some rows."""
    logits, y, weight = rows.tuning()
    return fit_temperature(logits, y, weight=weight, bounds=bounds)


def summary(rows: Rows, fit: TemperatureFit, notes: tuple[str, ...] = ()) -> FitSummary:
    """Return what temperature scaling of the clean rows did, and notes."""
    logits, y, weight = rows.tuning()
    return FitSummary(
        loss="nll",
        loss_before=mean_loss(logits, y, weight, 1.0, "nll"),
        loss_after=fit.solution.value,
        iterations=fit.solution.iterations,
        converged=fit.solution.converged,
        notes=(*bound_notes(fit), *notes),
    )


def counted(rows: Rows, name: str) -> Rows:
    """Return rows without weights, each standing there as often as its weight says.

    What counts rows, as thresholds and transport do, reads no other weights.
    """
    if rows.weight is None:
        return rows
    times = np.round(rows.weight)
    if (times != rows.weight).any():
        raise ValueError(
            f"sample_weight must be whole numbers for {name}, which counts rows, got"
            f" {float(rows.weight[times != rows.weight][0]):.6g}. Leave the weights out."
        )
    numbers: Any = np.repeat(np.arange(len(rows)), times.astype(np.int64))
    chosen = rows[numbers]
    return Rows(chosen.logits, chosen.y, environment=chosen.environment)
