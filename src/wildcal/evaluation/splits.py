"""The calibration samples of a suite, in the parts that methods are fitted on."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal.core.exceptions import InputError
from wildcal.core.validation import check_number
from wildcal.io.suite import Split, Suite


def paper_n_ood(n_classes: int) -> int:
    """Return how many OOD samples the paper calibrates with: 100, 400 or 3,500."""
    return 100 if n_classes <= 10 else 400 if n_classes <= 100 else 3500


def ood_set(split_name: str) -> str:
    """Return the set that an OOD split is from.

    Examples
    --------
    >>> ood_set("svhn-calibration")
    'svhn'
    """
    return split_name.removesuffix("-calibration").removesuffix("-test")


@dataclass(frozen=True)
class CalibrationData:
    """The calibration samples of a suite. Made by `read_calibration`."""

    suite: Suite
    source: tuple[Split, ...]
    shifted: tuple[Split, ...]
    ood: Split | None
    n_ood: int
    """How many samples of the OOD split are used, the first ones."""

    @property
    def ood_set(self) -> str | None:
        """The name of the OOD set, None without one."""
        return None if self.ood is None else ood_set(self.ood.name)

    def fit_arguments(self, data: Collection[str], *, knn_distances: bool) -> dict[str, Any]:
        """Return X, y, domain, and distances of the samples of some kinds, see `methods.DATA`."""
        kinds = {"source": self.source, "shifted": self.shifted}
        parts = [(s, s.n_samples) for kind in kinds if kind in data for s in kinds[kind]]
        if "ood" in data and self.ood is not None:
            parts.append((self.ood, self.n_ood))
        for split, _ in parts:
            split.verify()
        found: dict[str, Any] = {
            "X": np.concatenate([split.logits[:n] for split, n in parts]),
            "y": np.concatenate([split.y[:n] for split, n in parts]),
            "input": self.suite.input,
        }
        if "shifted" in data and self.shifted and "source" in data:
            names = [split.domain or "ood" for split, _ in parts]
            found["domain"] = np.repeat(names, [n for _, n in parts])
        if knn_distances:
            found["knn_distances"] = np.concatenate([distances(split)[:n] for split, n in parts])
        return found


def distances(split: Split) -> NDArray[Any]:
    """Return the distances of a split to training samples, or raise."""
    found = split.knn_distances
    if found is None:
        raise InputError(
            f"suite must have k-NN distances, got none in split {split.name}. Extract it with"
            " features.",
            "suites",
        )
    return found


def read_calibration(
    suite: Suite, *, ood: str | None = None, n_ood: int | None = None
) -> CalibrationData:
    """Return the calibration samples of a suite.

    Parameters
    ----------
    suite
        A suite.
    ood, n_ood
        Name of the OOD set, by default the first, and how many of its samples, by default
        `paper_n_ood`.
    """
    if n_ood is not None:
        check_number("n_ood", n_ood, 0, 1e9, whole=True)
    source = tuple(split for split in suite.calibration if split.is_source)
    if not source:
        raise InputError(f"suite must have source calibration splits, got {suite.path}.", "suites")
    shifted = tuple(split for split in suite.calibration if split.is_shifted)
    sets = {ood_set(split.name): split for split in suite.calibration if split.is_ood}
    if ood is not None and ood not in sets:
        raise InputError(f"ood must be one of {', '.join(sets) or 'none'}, got {ood!r}.", "ood")
    n = paper_n_ood(suite.n_classes) if n_ood is None else n_ood
    if not sets or n == 0:
        return CalibrationData(suite, source, shifted, None, 0)
    chosen = sets[ood or next(iter(sets))]
    return CalibrationData(suite, source, shifted, chosen, min(n, chosen.n_samples))


def splits_to_test(suite: Suite, used_ood_set: str | None) -> list[Split]:
    """Return the splits to test on, the source first.

    The OOD set that methods were fitted on is left out, unless it is the only one.
    """
    sets = {ood_set(split.name) for split in suite.test if split.is_ood}
    wanted = sets - {used_ood_set} or sets
    chosen = [s for s in suite.test if not s.is_ood or ood_set(s.name) in wanted]
    return sorted(chosen, key=lambda split: not split.is_source)
