"""Which methods take part, and what each may know when it is fitted on a suite."""

import copy
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wildcal.calibrators import CALIBRATORS, PAPER_METHODS, EnergyScaling
from wildcal.core.arrays import OOD_LABEL, Labels, Logits
from wildcal.core.calibrator import Calibrator
from wildcal.core.errors import CalibrationWarning, FileFormatError
from wildcal.io.suite import Suite

WITHOUT_OOD = "energy-no-ood"
"""The energy method fitted on validation rows alone, "Ours w/o" in the paper."""


@dataclass(frozen=True, slots=True)
class Method:
    """A method that takes part: an unfitted calibrator under the name that tables show."""

    name: str
    calibrator: Calibrator
    sees_ood: bool = True
    """Whether it gets the out-of-distribution tuning rows, if it can use them."""

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
    """The information its fit used, in words."""
    seconds: float


@dataclass(frozen=True, slots=True)
class Tuning:
    """What methods are fitted on: validation rows, and rows of one out-of-distribution set."""

    logits: Logits
    y: Labels
    ood_logits: Logits
    ood: str | None
    """Name of the set; None where there is none."""
    ood_trouble: str = ""
    """Why its rows cannot be used; empty where they can."""


def choose_methods(names: Sequence[str] | None = None) -> list[Method]:
    """Return methods by their names, by default those of the paper's first table.

    The names are those of `wildcal.CALIBRATORS` and "energy-no-ood".
    """
    chosen = []
    for name in PAPER_METHODS if names is None else names:
        if name == WITHOUT_OOD:
            chosen.append(Method(name, EnergyScaling(), sees_ood=False))
        elif name in CALIBRATORS:
            chosen.append(Method(name, CALIBRATORS[name]()))
        else:
            raise ValueError(f"there is no method {name!r}; `wildcal methods` lists them.")
    return chosen


def paper_ood_rows(n_classes: int) -> int:
    """Return how many out-of-distribution rows the paper tunes with: more for more classes."""
    return 100 if n_classes <= 10 else 400 if n_classes <= 100 else 3500


def ood_set(split_name: str) -> str:
    """Return the name of the set a semantic split was drawn from: svhn of svhn-tune."""
    return split_name.removesuffix("-tune").removesuffix("-test")


def read_tuning(suite: Suite, ood: str | None, ood_rows: int | None) -> Tuning:
    """Return the rows that methods are fitted on, their content compared with the hashes.

    Damaged validation rows are an error. Damaged out-of-distribution rows are named in the result,
    because most methods do without them.

    Parameters
    ----------
    ood
        Name of the out-of-distribution set to tune with; by default the suite's first.
    ood_rows
        How many of its rows, from the first on; by default as many as the paper takes.
    """
    clean = suite.tune("none")
    if not clean:
        raise ValueError(f"{suite.path} has no clean rows to tune on (role tune, shift none).")
    for split in clean:
        split.verify()
    logits = np.concatenate([split.logits for split in clean])
    y = np.concatenate([split.y for split in clean])
    sets = {ood_set(split.name): split for split in suite.tune("semantic")}
    if ood is not None and ood not in sets:
        raise ValueError(
            f"{suite.path} has no tuning rows of {ood!r}; it has {', '.join(sets) or 'none'}."
        )
    nothing = np.empty((0, suite.n_classes), logits.dtype)
    if not sets:
        return Tuning(logits, y, nothing, None)
    name = next(iter(sets)) if ood is None else ood
    n = paper_ood_rows(suite.n_classes) if ood_rows is None else ood_rows
    try:
        sets[name].verify()
    except FileFormatError as error:
        return Tuning(logits, y, nothing, name, str(error))
    return Tuning(logits, y, sets[name].logits[:n], name)


def fit_method(method: Method, tuning: Tuning) -> FittedMethod:
    """Return a fitted copy of a method."""
    if method.uses_ood and tuning.ood_trouble:  # without these rows it would be another method
        raise ValueError(tuning.ood_trouble)
    calibrator = copy.deepcopy(method.calibrator)
    strangers = method.uses_ood and len(tuning.ood_logits) > 0
    logits, y = tuning.logits, tuning.y
    if strangers:
        logits = np.concatenate([logits, tuning.ood_logits])
        y = np.concatenate([y, np.full(len(tuning.ood_logits), OOD_LABEL)])
    start = time.perf_counter()
    with warnings.catch_warnings():  # they are kept in the calibrator's summary
        warnings.simplefilter("ignore", CalibrationWarning)
        calibrator.fit(logits, y)
    seconds = time.perf_counter() - start
    used = "nothing" if calibrator.name == "identity" else f"{len(tuning.y):,} labels"
    if strangers:
        used += f", {len(tuning.ood_logits):,} rows of {tuning.ood}"
    return FittedMethod(method.name, calibrator, used, seconds)
