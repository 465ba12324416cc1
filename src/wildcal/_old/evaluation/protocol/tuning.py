"""What methods are fitted on: the tuning splits of a suite, in the parts that methods may see."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from wildcal._old.core.arrays import OOD_LABEL, FloatArray, Labels, Logits
from wildcal._old.core.calibrator import Calibrator
from wildcal._old.core.checks import check_count
from wildcal._old.core.errors import FileFormatError
from wildcal._old.evaluation.environments import Choice, EnvironmentRows, everything
from wildcal._old.io.suite import Suite, SuiteSplit


@dataclass(frozen=True)
class Tuning:
    """Validation rows, the same under shift, and one out-of-distribution set."""

    clean: tuple[SuiteSplit, ...]
    ood_split: SuiteSplit | None = None
    """The out-of-distribution split; None where there is none."""
    ood_rows: int = 0
    """How many of its rows are taken, from the first on."""
    ood: str | None = None
    """Name of the set it is drawn from."""
    ood_trouble: str = ""
    """Why its rows cannot be used; empty where they can."""
    shifted: tuple[SuiteSplit, ...] = ()
    """Validation rows under shift; most methods leave them alone."""

    @cached_property
    def y(self) -> Labels:
        """The labels of the clean rows."""
        return np.concatenate([split.y for split in self.clean])

    @cached_property
    def _logits(self) -> Logits:
        return np.concatenate([split.logits for split in self.clean])

    @property
    def n_ood(self) -> int:
        """How many out-of-distribution rows there are."""
        return 0 if self.ood_split is None or self.ood_trouble else self.ood_rows

    def rows(self, kinds: Collection[str]) -> EnvironmentRows:
        """Return the rows of some kinds, each split but the clean ones an environment.

        Damaged rows are an error: without them, a method would be another one.
        """
        others = self._others(kinds)
        if "ood" in kinds and self.ood_trouble:
            raise FileFormatError(self.ood_trouble)
        parts = [(split.logits, split.y) for split in others]
        if "ood" in kinds and self.ood_split is not None and self.n_ood:
            logits = self.ood_split.logits[: self.n_ood]
            parts.append((logits, np.full(len(logits), OOD_LABEL)))
        numbers = list(range(1, 1 + len(parts)))
        if "clean" in kinds:
            parts, numbers = [(self._logits, self.y), *parts], [0, *numbers]
        if len(parts) == 1:  # for most methods, which should not each have a copy
            ((logits, y),) = parts
            return EnvironmentRows(logits, y, np.full(len(y), numbers[0]))
        return EnvironmentRows(
            np.concatenate([logits for logits, _ in parts]),
            np.concatenate([y for _, y in parts]),
            np.concatenate([np.full(len(y), i) for i, (_, y) in zip(numbers, parts, strict=True)]),
        )

    def distances(self, rank: int | None, kinds: Collection[str]) -> FloatArray:
        """Return the distances of the same rows to their neighbors of a rank."""
        clean = self.clean if "clean" in kinds else ()
        parts = [s.distances(rank) for s in (*clean, *self._others(kinds))]
        if "ood" in kinds and self.ood_split is not None and self.n_ood:
            parts.append(self.ood_split.distances(rank)[: self.n_ood])
        return np.concatenate(parts)

    def _others(self, kinds: Collection[str]) -> Sequence[SuiteSplit]:
        chosen = self.shifted if "shifted" in kinds else ()
        for split in chosen:
            self._verify(split)
        return chosen

    @cached_property
    def _verified(self) -> set[str]:
        return set()

    def _verify(self, split: SuiteSplit) -> None:
        """Compare the content with its hash, once for all methods."""
        if split.name not in self._verified:
            split.verify()
            self._verified.add(split.name)


def rank_of(calibrator: Calibrator) -> int | None:
    """Return which neighbor's distances to read; None for the last that a suite has, the k-th."""
    return 1 if calibrator.get_params(deep=False).get("neighbor") == "first" else None


def paper_ood_rows(n_classes: int) -> int:
    """Return how many out-of-distribution rows the paper tunes with: more for more classes."""
    return 100 if n_classes <= 10 else 400 if n_classes <= 100 else 3500


def ood_set(split_name: str) -> str:
    """Return the name of the set a semantic split was drawn from: svhn of svhn-tune."""
    return split_name.removesuffix("-tune").removesuffix("-test")


def sets_to_test(suite: Suite, tuned: str | None) -> set[str]:
    """Return the sets of other classes to test on: all but the tuned one, or that if it is alone.

    Of a set that is alone other rows are tested than were tuned on.
    """
    sets = {ood_set(split.name) for split in suite.tests("semantic")}
    return sets - {tuned} or sets


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
    sets = {ood_set(split.name): split for split in suite.tune("semantic")}
    if ood is not None and ood not in sets:
        raise ValueError(
            f"{suite.path} has no tuning rows of {ood!r}; it has {', '.join(sets) or 'none'}."
        )
    tuning = Tuning(
        tuple(clean),
        shifted=tuple(split for split in suite.tune("covariate") if only(split)),
    )
    if not sets:
        return tuning
    name = next(iter(sets)) if ood is None else ood
    n = paper_ood_rows(suite.n_classes) if ood_rows is None else ood_rows
    split, trouble = sets[name], ""
    try:
        split.verify()
    except FileFormatError as error:
        trouble = str(error)
    n = min(n, split.rows)
    return replace(tuning, ood_split=split, ood_rows=n, ood=name, ood_trouble=trouble)
