"""Panels about one set of predictions: reliability, and temperature against energy."""

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from wildcal._old.core.calibrator import Calibrator
from wildcal._old.core.checks import check_logits
from wildcal._old.core.softmax import energy_and_pred
from wildcal._old.metrics import Reliability
from wildcal._old.report.model import Panel, Series

ACCURACY_BY_BIN: Final = "accuracy"
ROWS: Final = "rows"


def reliability_panel(table: Reliability) -> Panel:
    """Return mean confidence and accuracy of the bins that have rows, and the rows of all bins."""
    filled = table.count > 0
    columns = {
        name: tuple((100 * getattr(table, name)[filled]).tolist())
        for name in ("confidence", "accuracy", "low", "high")
    }
    accuracy = Series(
        ACCURACY_BY_BIN,
        columns["confidence"],
        columns["accuracy"],
        columns["low"],
        columns["high"],
    )
    # The last edge closes the last bin, with no rows of its own.
    edges, counts = (100 * table.edges).tolist(), [*map(float, table.count), 0.0]
    title = f"ECE {100 * table.ece:.1f} %, {table.n:,} rows"
    series = (accuracy, Series(ROWS, tuple(edges), tuple(counts)))
    return Panel(title, "confidence (%)", "accuracy (%)", series)


def temperature_panel(calibrator: Calibrator, logits: ArrayLike) -> Panel:
    """Return the temperature that each row is divided by, against its negative energy."""
    temperature = np.asarray(calibrator.temperature(logits), np.float64)
    energy, _ = energy_and_pred(check_logits(logits))
    order = np.argsort(-energy, kind="stable")
    x, y = -energy[order], temperature[order]
    points = Series("temperature", tuple(x.tolist()), tuple(y.tolist()))
    return Panel(calibrator.title, "negative energy", "temperature", (points,))
