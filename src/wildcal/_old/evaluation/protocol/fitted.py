"""Methods fitted on the tuning rows of a suite, and bound to its test splits."""

import copy
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wildcal._old.core.arrays import FloatArray, Logits
from wildcal._old.core.blocks import joined
from wildcal._old.core.bound import Bound
from wildcal._old.core.calibrator import Calibrator
from wildcal._old.core.errors import CalibrationWarning
from wildcal._old.core.rows import Rows
from wildcal._old.evaluation.knew import Knew, Lack
from wildcal._old.evaluation.methods import Method
from wildcal._old.evaluation.protocol.tuning import Tuning, rank_of
from wildcal._old.evaluation.protocol.windows import window_numbers
from wildcal._old.io.suite import SuiteSplit


@dataclass(frozen=True, slots=True)
class FittedMethod:
    """A method after its fit on one suite."""

    name: str
    calibrator: Calibrator
    knew: Knew
    """The information it used."""
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
        return np.concatenate([split.distances(rank).astype(np.float64) for split in splits])


def fit_method(method: Method, tuning: Tuning) -> FittedMethod:
    """Return a fitted copy of a method."""
    calibrator = copy.deepcopy(method.calibrator)
    seen = frozenset(method.rows or ("clean",))
    if not tuning.shifted:
        seen -= {"shifted"}
    rows = tuning.rows(seen)
    more: dict[str, Any] = {}
    if "shifted" in seen and "environment" in calibrator.reads:
        more["environment"] = rows.environment
    if "shifted" in seen and "environment" not in calibrator.reads - calibrator.can_do_without:
        more["sample_weight"] = rows.weights()
    if "distances" in calibrator.reads:
        more["distances"] = tuning.distances(rank_of(calibrator), seen)
    start = time.perf_counter()
    with warnings.catch_warnings():  # they are kept in the calibrator's summary
        warnings.simplefilter("ignore", CalibrationWarning)
        calibrator.fit(rows.logits, rows.y, **more)
    seconds = time.perf_counter() - start
    calibrator.fit_ = replace(calibrator.fit_, method=str(method))
    layers = more["distances"].shape[1] if "distances" in more else 0
    knew = _knew(method, tuning, calibrator, layers)
    return FittedMethod(method.name, calibrator, knew, seconds, method.window)


def _knew(method: Method, tuning: Tuning, calibrator: Calibrator, layers: int) -> Knew:
    if not method.rows:
        return Knew()
    shifted = tuple(s.rows for s in tuning.shifted) if method.sees("shifted") else ()
    lacked: list[Lack] = ["shifted"] if method.sees("shifted") and not shifted else []
    window: Any = None
    if "window" in calibrator.reads:
        window = method.window or "whole"
    ood = tuning.n_ood if method.sees("ood") else 0
    return Knew(
        labels=len(tuning.y) if method.sees("clean") else 0,
        ood=ood,
        ood_set=tuning.ood if ood else None,
        layers=layers,
        shifted=shifted,
        window=window,
        lacked=tuple(lacked),
    )
