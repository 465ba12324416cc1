"""Which methods take part, and what each may know when it is fitted on a suite."""

import copy
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from wildcal.calibrators import CALIBRATORS, PAPER_METHODS, ContextScaling, EnergyScaling
from wildcal.core.arrays import OOD_LABEL, Labels, Logits
from wildcal.core.calibrator import Calibrator
from wildcal.core.checks import check_count
from wildcal.core.errors import CalibrationWarning, FileFormatError
from wildcal.evaluation.environments import Choice, EnvironmentRows, everything
from wildcal.io.suite import Suite, SuiteSplit

WITHOUT_OOD = "energy-no-ood"
"""The energy method fitted on validation rows alone, "Ours w/o" in the paper."""
_ON_ALL: Final = "-all"
ON_ALL: Final = {
    name + _ON_ALL: name
    for name, kind in CALIBRATORS.items()
    if name != "identity" and not kind.accepts_environments
}
"""Methods fitted on the clean and the shifted tuning rows pooled: ts-all, energy-all and so on."""
SUITE_METHODS: Final = (WITHOUT_OOD, *ON_ALL)
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
    window: int | None = None
    """How many test rows share a context, where the method reads one; None for a whole split."""

    def __post_init__(self) -> None:
        if self.window is not None and self.window < 1:
            raise ValueError(f"window must be at least 1 row, got {self.window}.")

    @property
    def uses_shifted(self) -> bool:
        """Whether its fit changes where there are shifted tuning rows."""
        return self.sees_shifted or self.calibrator.accepts_environments

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
    def in_context(self) -> ContextScaling | None:
        """The calibrator, if it reads the context of the test rows."""
        c = self.calibrator
        return c if isinstance(c, ContextScaling) and c.fallback_ is None else None


@dataclass(frozen=True)
class Tuning:
    """What methods are fitted on: validation rows, shifted ones, one out-of-distribution set."""

    logits: Logits
    y: Labels
    ood_logits: Logits
    ood: str | None
    """Name of the set; None where there is none."""
    ood_trouble: str = ""
    """Why its rows cannot be used; empty where they can."""
    shifted: tuple[SuiteSplit, ...] = ()
    """Validation rows under shift; most methods leave them alone."""

    def rows(self, *, ood: bool, shifted: bool) -> EnvironmentRows:
        """Return the clean rows, and the others as wanted, each split an environment.

        Damaged rows are an error: without them, a method would be another one.
        """
        if ood and self.ood_trouble:
            raise FileFormatError(self.ood_trouble)
        parts = [(self.logits, self.y), *(self._shifted_rows if shifted else ())]
        if ood and len(self.ood_logits):
            parts.append((self.ood_logits, np.full(len(self.ood_logits), OOD_LABEL)))
        if len(parts) == 1:  # for most methods, which should not each have a copy
            return EnvironmentRows(self.logits, self.y, np.zeros(len(self.y), np.int64))
        return EnvironmentRows(
            np.concatenate([logits for logits, _ in parts]),
            np.concatenate([y for _, y in parts]),
            np.concatenate([np.full(len(y), i) for i, (_, y) in enumerate(parts)]),
        )

    @cached_property
    def _shifted_rows(self) -> list[tuple[Logits, Labels]]:
        for split in self.shifted:
            split.verify()
        return [(split.logits, split.y) for split in self.shifted]


def choose_methods(names: Sequence[str] | None = None) -> list[Method]:
    """Return methods by their names, by default those of the paper's first table.

    The names are those of `wildcal.CALIBRATORS`, "energy-no-ood", and names with "-all": methods
    fitted on all rows that `context` is fitted on, which makes them its fair rivals.

    >>> [method.uses_shifted for method in choose_methods(["ts", "ts-all", "context"])]
    [False, True, True]
    """
    chosen = []
    for name in PAPER_METHODS if names is None else names:
        if name == WITHOUT_OOD:
            chosen.append(Method(name, EnergyScaling(), sees_ood=False))
        elif name in ON_ALL:
            chosen.append(Method(name, CALIBRATORS[ON_ALL[name]](), sees_shifted=True))
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


def read_tuning(
    suite: Suite, ood: str | None, ood_rows: int | None, only: Choice = everything
) -> Tuning:
    """Return the rows that methods are fitted on, their content compared with the hashes.

    Damaged validation rows are an error. Damaged out-of-distribution rows are named in the result,
    because most methods do without them; shifted rows are read when a method asks for them.

    Parameters
    ----------
    ood
        Name of the out-of-distribution set to tune with; by default the suite's first.
    ood_rows
        How many of its rows, from the first on; by default as many as the paper takes.
    only
        Which of the shifted tuning splits to take, by default all.
    """
    if ood_rows is not None:
        check_count("ood_rows", ood_rows, least=0)
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
    shifted = tuple(split for split in suite.tune("covariate") if only(split))
    if not sets:
        return Tuning(logits, y, nothing, None, shifted=shifted)
    name = next(iter(sets)) if ood is None else ood
    n = paper_ood_rows(suite.n_classes) if ood_rows is None else ood_rows
    try:
        sets[name].verify()
    except FileFormatError as error:
        return Tuning(logits, y, nothing, name, str(error), shifted)
    return Tuning(logits, y, sets[name].logits[:n], name, shifted=shifted)


def fit_method(method: Method, tuning: Tuning) -> FittedMethod:
    """Return a fitted copy of a method."""
    calibrator = copy.deepcopy(method.calibrator)
    shifted = method.uses_shifted and len(tuning.shifted) > 0
    rows = tuning.rows(ood=method.uses_ood, shifted=shifted)
    more: dict[str, Any] = {}
    if shifted and calibrator.accepts_environments:
        more["environment"] = rows.environment
    elif shifted:
        more["sample_weight"] = rows.weights()
    start = time.perf_counter()
    with warnings.catch_warnings():  # they are kept in the calibrator's summary
        warnings.simplefilter("ignore", CalibrationWarning)
        calibrator.fit(rows.logits, rows.y, **more)
    seconds = time.perf_counter() - start
    return FittedMethod(
        method.name, calibrator, _used(method, tuning, calibrator), seconds, method.window
    )


def _used(method: Method, tuning: Tuning, calibrator: Calibrator) -> str:
    """Return in words what a method knew, what all methods know first."""
    if calibrator.name == "identity":
        return "nothing"
    words = [f"{len(tuning.y):,} labels"]
    if method.uses_ood and len(tuning.ood_logits):
        words.append(f"{len(tuning.ood_logits):,} rows of {tuning.ood}")
    if method.uses_shifted:
        words.append(_shifted_words([split.rows for split in tuning.shifted]))
    if isinstance(calibrator, ContextScaling):
        window = f"windows of {method.window:,} test rows" if method.window else "test window"
        fell_back = calibrator.fallback_ is not None
        words.append("so energy scaling without a context" if fell_back else f"unlabelled {window}")
    return ", ".join(words)


def _shifted_words(sizes: list[int]) -> str:
    if not sizes:
        return "no shifted sets"
    if len(set(sizes)) == 1:
        return f"{len(sizes)} shifted sets of {sizes[0]:,} labels"
    return f"{len(sizes)} shifted sets with {sum(sizes):,} labels"
