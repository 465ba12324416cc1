"""Which methods take part, and what each may know when it is fitted on a suite."""

import copy
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from wildcal.calibrators import (
    CALIBRATORS,
    DENSITY_METHODS,
    PAPER_METHODS,
    EnergyScaling,
    make_calibrator,
)
from wildcal.core.arrays import OOD_LABEL, FloatArray, Logits
from wildcal.core.blocks import joined
from wildcal.core.bound import Bound
from wildcal.core.calibrator import Calibrator
from wildcal.core.errors import CalibrationWarning
from wildcal.core.rows import Rows
from wildcal.evaluation.environments import EnvironmentRows
from wildcal.evaluation.protocol.tuning import Tuning, rank_of
from wildcal.evaluation.protocol.windows import window_numbers
from wildcal.io.suite import SuiteSplit

WITHOUT_OOD = "energy-no-ood"
"""The energy method fitted on validation rows alone, "Ours w/o" in the paper."""
_ON_ALL: Final = "-all"
ON_ALL: Final = {
    name + _ON_ALL: name
    for name, kind in CALIBRATORS.items()
    if name != "identity" and "environment" not in kind.reads
}
"""Methods fitted on the clean and the shifted tuning rows pooled: ts-all, energy-all and so on."""
ON_PERTURBED: Final = {
    all_name.removesuffix(_ON_ALL) + "-p": name for all_name, name in ON_ALL.items()
}
"""Methods fitted on validation rows clean and under ever more noise, pooled: ts-p, ets-p ..."""
SUITE_METHODS: Final = (WITHOUT_OOD, *ON_ALL, *ON_PERTURBED, *DENSITY_METHODS)
"""The methods that need the tuning splits of a suite, beside those of `wildcal.CALIBRATORS`."""


@dataclass(frozen=True, slots=True)
class Method:
    """A method that takes part: an unfitted calibrator under the name that tables show."""

    name: str
    calibrator: Calibrator
    sees_ood: bool = True
    """Whether it gets the out-of-distribution tuning rows, if it can use them."""
    sees_shifted: bool = False
    """Whether it gets the shifted tuning rows; a method that reads environments always does."""
    sees_perturbed: bool = False
    """Whether it gets the tuning rows under noise."""
    window: int | None = None
    """How many test rows share a context, where the method reads one; None for a whole split."""

    def __post_init__(self) -> None:
        if self.window is not None and self.window < 1:
            raise ValueError(f"window must be at least 1 row, got {self.window}.")

    @property
    def uses_shifted(self) -> bool:
        """Whether its fit changes where there are shifted tuning rows."""
        return self.sees_shifted or "environment" in self.calibrator.reads

    @property
    def uses_ood(self) -> bool:
        """Whether its fit changes where there are out-of-distribution rows."""
        return self.sees_ood and self.calibrator.accepts_ood


@dataclass(frozen=True, slots=True)
class FittedMethod:
    """A method after its fit on one suite."""

    name: str
    calibrator: Calibrator
    used: str
    """The information it used, in words."""
    seconds: float
    window: int | None = None
    """How many test rows share a context; None for a whole split."""

    @property
    def reads_window(self) -> bool:
        """Whether the rows around a row change what is said of it."""
        return "window" in self.calibrator.reads

    def bind(self, splits: Sequence[SuiteSplit], logits: Logits | None = None) -> Bound:
        """Return what the method says of the rows of some splits, one after the other.

        `logits` are those of the splits, where the caller has joined them already.
        """
        if logits is None:
            logits = joined([split.logits for split in splits])
        return self.calibrator.bind(
            Rows(
                logits,
                distances=self.distances(splits),
                window=window_numbers([s.rows for s in splits], self.window)
                if self.reads_window
                else None,
            )
        )

    def distances(self, splits: Sequence[SuiteSplit]) -> FloatArray | None:
        """Return the distances of the rows to training rows, if the method reads them."""
        if "distances" not in self.calibrator.reads:
            return None
        rank = rank_of(self.calibrator)
        return np.concatenate([split.densities(rank).astype(np.float64) for split in splits])


def choose_methods(names: Sequence[str] | None = None) -> list[Method]:
    """Return methods by their names, by default those of the paper's first table.

    The names are those of `wildcal.CALIBRATORS`, "energy-no-ood", names with "-all": methods
    fitted on all rows that `context` is fitted on, which makes them its fair rivals; names with
    "-p": methods fitted on validation rows under noise too; and "dac", "dac+ets" and so on, which
    read the distances to training rows.

    >>> [method.uses_shifted for method in choose_methods(["ts", "ts-all", "context"])]
    [False, True, True]
    """
    chosen = []
    for name in PAPER_METHODS if names is None else names:
        if name == WITHOUT_OOD:
            chosen.append(Method(name, EnergyScaling(), sees_ood=False))
        elif name in ON_ALL:
            chosen.append(Method(name, CALIBRATORS[ON_ALL[name]](), sees_shifted=True))
        elif name in ON_PERTURBED:
            chosen.append(Method(name, CALIBRATORS[ON_PERTURBED[name]](), sees_perturbed=True))
        else:
            chosen.append(Method(name, make_calibrator(name)))
    return chosen


def fit_method(method: Method, tuning: Tuning) -> FittedMethod:
    """Return a fitted copy of a method."""
    calibrator = copy.deepcopy(method.calibrator)
    shifted = method.uses_shifted and len(tuning.shifted) > 0
    if method.sees_perturbed and not tuning.perturbed:
        raise ValueError(
            "the suite has no validation rows under noise; `wildcal extract --perturb` adds them."
        )
    rows = tuning.rows(ood=method.uses_ood, shifted=shifted, perturbed=method.sees_perturbed)
    more: dict[str, Any] = {}
    if shifted and "environment" in calibrator.reads:
        more["environment"] = rows.environment
    elif shifted:
        more["sample_weight"] = rows.weights()
    elif method.sees_perturbed:
        more["sample_weight"] = _equal_levels(rows)
    if "distances" in calibrator.reads:
        more["distances"] = tuning.distances(
            rank_of(calibrator), ood=method.uses_ood, shifted=shifted
        )
    start = time.perf_counter()
    with warnings.catch_warnings():  # they are kept in the calibrator's summary
        warnings.simplefilter("ignore", CalibrationWarning)
        calibrator.fit(rows.logits, rows.y, **more)
    seconds = time.perf_counter() - start
    return FittedMethod(
        method.name, calibrator, _used(method, tuning, calibrator), seconds, method.window
    )


def _equal_levels(rows: EnvironmentRows) -> FloatArray:
    """Return row weights with which every level of noise counts as much as the clean rows."""
    sizes = np.bincount(rows.environment)
    weight = (sizes[0] / sizes)[rows.environment]
    return np.where(rows.y == OOD_LABEL, 1.0, weight)


def _used(method: Method, tuning: Tuning, calibrator: Calibrator) -> str:
    """Return in words what a method knew, what all methods know first."""
    if calibrator.name == "identity":
        return "nothing"
    words = [f"{len(tuning.y):,} labels"]
    if method.uses_ood and tuning.n_ood:
        words.append(f"{tuning.n_ood:,} rows of {tuning.ood}")
    if method.sees_perturbed:
        words.append(f"noise at {len(tuning.perturbed)} levels")
    if "distances" in calibrator.reads:
        words.append(f"distances to training images in {tuning.n_layers} layers")
    if method.uses_shifted:
        words.append(_shifted_words([split.rows for split in tuning.shifted]))
    if "window" in calibrator.reads:
        window = f"windows of {method.window:,} test rows" if method.window else "test window"
        learnt = calibrator.uses_window
        words.append(f"unlabelled {window}" if learnt else "so energy scaling without a context")
    return ", ".join(words)


def _shifted_words(sizes: list[int]) -> str:
    if not sizes:
        return "no shifted sets"
    if len(set(sizes)) == 1:
        return f"{len(sizes)} shifted sets of {sizes[0]:,} labels"
    return f"{len(sizes)} shifted sets with {sum(sizes):,} labels"
