"""Compare estimators on the tuning splits of a suite: leave one kind of shift out, estimate it."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import numpy as np

from wildcal._old.accuracy.estimator import AccuracyEstimator
from wildcal._old.accuracy.means import Scaled
from wildcal._old.accuracy.registry import ESTIMATORS, make_estimator
from wildcal._old.accuracy.rows import Rows
from wildcal._old.core.arrays import FloatArray, Labels, Logits
from wildcal._old.core.errors import CalibrationWarning, WildcalError

if TYPE_CHECKING:  # reading suites is slow to import
    from wildcal._old.io.suite import Suite, SuiteSplit

SETTINGS: Final[Mapping[str, tuple[int | None, str]]] = {
    "whole": (None, "clean"),
    "512 rows": (512, "clean"),
    "128 rows": (128, "clean"),
    "32 rows": (32, "clean"),
    "256 rows, Dirichlet(1)": (256, "dirichlet-1"),
    "256 rows, Dirichlet(0.3)": (256, "dirichlet-0.3"),
    "256 rows, three classes": (256, "three"),
}
"""Windows that are drawn from each split: how many rows, and with which class mix."""

Progress = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Cell:
    """An estimate and the truth, for one window."""

    estimator: str
    setting: str
    split: str
    draw: int
    n: int
    value: float
    low: float
    high: float
    accuracy: float
    warned: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON values."""
        return asdict(self)


def compare_estimators(
    suite: "Suite",
    names: Sequence[str] | None = None,
    *,
    settings: Sequence[str] = tuple(SETTINGS),
    types: Sequence[str] | None = None,
    second: "Suite | None" = None,
    draws: int = 2,
    environments: bool = True,
    scaled: bool = True,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[Cell]:
    """Return the estimates of every estimator for windows of the suite's shifted tuning splits.

    Each type of shift is estimated by estimators that were fitted on the clean tuning rows and on
    the splits of all other types. The test splits of the suite are not read.

    Parameters
    ----------
    names
        Estimators, by default all; those that need a second network only where there is one.
    settings
        Names of `SETTINGS`.
    types
        The types of shift to take part, by default all of the suite.
    second
        The suite of another network with the same splits, for `gde`.
    draws
        Windows of each size that are drawn from a split.
    environments
        False to fit on the clean rows alone, for estimators that can do so.
    scaled
        False to leave out temperature scaling, where an estimator has it as an option.
    """
    chosen = list(names) if names is not None else _usable(second is not None, environments)
    for setting in settings:
        if setting not in SETTINGS:
            raise ValueError(f"there is no setting {setting!r}; there are {', '.join(SETTINGS)}.")
    with suite.opened():
        splits = [s for s in suite.tune("covariate") if types is None or s.corruption in types]
        kinds = list(dict.fromkeys(s.corruption for s in splits))
        if len(kinds) < 2:
            raise ValueError(
                f"{suite.path} must have shifted tuning splits of two types or more to leave one"
                f" out, got {len(kinds)}."
            )
        cells: list[Cell] = []
        for kind in kinds:
            others = [s for s in splits if s.corruption != kind] if environments else []
            rows = _rows(suite, others, second)
            windows = [w for s in splits if s.corruption == kind
                       for w in _windows(s, second, settings, draws, seed)]  # fmt: skip
            for name in chosen:
                if progress is not None:
                    progress(f"{name} without {kind}")
                cells += _read_all(_fit(name, rows, scaled), windows)
    return cells


def summarize(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """Return a record for each estimator and setting, over all splits and draws.

    `mae` is the mean of |estimate - accuracy|, `worst` the largest, `bias` the mean of estimate -
    accuracy, `spearman` the rank correlation of both, `coverage` how often the interval held the
    accuracy, `width` its mean width, and `warned` how often the class mix was doubted.
    """
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.setting, cell.estimator), []).append(cell)
    records = []
    for (setting, name), some in groups.items():
        value, accuracy = (
            np.array([getattr(c, key) for c in some]) for key in ("value", "accuracy")
        )
        off = value - accuracy
        held = [c.low <= c.accuracy <= c.high for c in some]
        records.append(
            {
                "setting": setting,
                "estimator": name,
                "windows": len(some),
                "mae": float(np.abs(off).mean()),
                "worst": float(np.abs(off).max()),
                "bias": float(off.mean()),
                "spearman": spearman(value, accuracy),
                "coverage": float(np.mean(held)),
                "width": float(np.mean([c.high - c.low for c in some])),
                "warned": float(np.mean([c.warned for c in some])),
            }
        )
    return records


def spearman(a: FloatArray, b: FloatArray) -> float:
    """Return the correlation of the ranks, ties sharing theirs; 0 where one side is constant.

    >>> round(spearman(np.array([1.0, 2.0, 3.0]), np.array([10.0, 30.0, 20.0])), 6)
    0.5
    """
    ranks = []
    for values in (a, b):
        _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
        rank = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
        ranks.append(rank - rank.mean())
    scale = float(np.sqrt((ranks[0] @ ranks[0]) * (ranks[1] @ ranks[1])))
    return float(ranks[0] @ ranks[1]) / scale if scale > 0 else 0.0


def draw_window(y: Labels, size: int | None, mix: str, rng: np.random.Generator) -> Labels:
    """Return the numbers of the rows of a window with a class mix, drawn from labeled rows.

    With the clean mix rows are drawn without replacement, else for each class as often as its share
    says, with replacement.
    """
    if size is None or (mix == "clean" and size >= len(y)):
        return np.arange(len(y))
    if mix == "clean":
        return np.sort(rng.permutation(len(y))[:size])
    classes = np.unique(y)
    if mix == "three":
        share = np.zeros(len(classes))
        share[rng.permutation(len(classes))[:3]] = 1.0
        share /= share.sum()
    else:
        share = rng.dirichlet(np.full(len(classes), float(mix.removeprefix("dirichlet-"))))
    wanted = rng.multinomial(size, share)
    drawn = [rng.choice(np.flatnonzero(y == k), c) for k, c in zip(classes, wanted, strict=True)]
    return np.sort(np.concatenate(drawn))


def _usable(second: bool, environments: bool) -> list[str]:
    return [name for name, kind in ESTIMATORS.items() if second or not kind.needs_second]


def _rows(suite: "Suite", shifted: "Sequence[SuiteSplit]", second: "Suite | None") -> Rows:
    splits = [*suite.tune("none"), *shifted]
    number = [np.full(s.rows, 0 if s.shift == "none" else i + 1) for i, s in enumerate(splits)]
    other = None
    if second is not None:
        other = np.concatenate([_same_rows(s, second) for s in splits])
    return Rows(
        np.concatenate([s.logits for s in splits]),
        np.concatenate([s.y for s in splits]),
        np.concatenate(number),
        other,
    )


def _same_rows(split: "SuiteSplit", second: "Suite") -> Logits:
    """Return what the second network says of the rows of a split, which must be the same rows."""
    other = second.split(split.name)
    if not np.array_equal(split.y, other.y):
        raise WildcalError(
            f"the split {split.name} of the second suite has other labels, so it holds other rows;"
            " the agreement of two networks is that on the same rows."
        )
    return other.logits


def _fit(name: str, rows: Rows, scaled: bool) -> AccuracyEstimator:
    estimator = make_estimator(name)
    if isinstance(estimator, Scaled):
        estimator.scaled = scaled
    second = rows.second if estimator.needs_second else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return estimator.fit(rows.logits, rows.y, rows.environment, second=second)


_Window = tuple[str, "SuiteSplit", int, Rows]


def _windows(
    split: "SuiteSplit", second: "Suite | None", settings: Sequence[str], draws: int, seed: int
) -> Iterator[_Window]:
    other = None if second is None else _same_rows(split, second)
    rows = Rows(split.logits, split.y, np.zeros(split.rows, np.int64), other)
    for setting in settings:
        size, mix = SETTINGS[setting]
        rng = np.random.default_rng([seed, crc32(f"{split.name} {setting}".encode())])
        for draw in range(1 if size is None or (mix == "clean" and size >= split.rows) else draws):
            yield setting, split, draw, rows.where(draw_window(rows.y, size, mix, rng))


def _read_all(estimator: AccuracyEstimator, windows: Sequence[_Window]) -> Iterator[Cell]:
    for setting, split, draw, rows in windows:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", CalibrationWarning)
            second = rows.second if estimator.needs_second else None
            found = estimator.estimate(rows.logits, second)
        yield Cell(
            estimator.name, setting, split.name, draw, found.n, found.value, found.low, found.high,
            rows.accuracy(), bool(caught),
        )  # fmt: skip
