"""Windows of all kinds with their accuracy, for context_belief.py and context_many.py.

A source is a file of context_changes.py, or the tuning splits of a shipped suite. Its cells are
the clean rows, and those of one kind of change at one strength.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from wildcal import ContextScaling
from wildcal.accuracy.rows import negative_entropy
from wildcal.accuracy.threshold import clean_threshold
from wildcal.calibrators.context.constants import SHIPPED
from wildcal.calibrators.context.gap import GapModel, WindowStatistics
from wildcal.calibrators.context.learn import Clean, Points
from wildcal.io.suite import Suite

VALIDATION = ("speckle_noise", "gaussian_blur", "spatter", "saturate")
CORRUPTIONS, OTHERS, CLEAN = "validation corruptions", "other changes", "clean"
WEIGHTS = {
    "whole": 3.0,
    "128 rows": 2.0,
    "32 rows": 2.0,
    "8 rows": 1.0,
    "Dirichlet(1)": 1.0,
    "Dirichlet(0.3)": 1.0,
    "few classes": 1.0,
    "half clean": 1.5,
    "stream, 1/6 clean": 2.0,
    "clean, 32 rows": 0.7,
    "clean, 128 rows": 0.7,
    "clean, 512 rows": 0.7,
    "clean, Dirichlet(0.5)": 1.0,
}
"""Of each regime in the fit."""
SIZES = {128: 3, 32: 6, 8: 4}
"""Rows of windows that are cut from a cell, and how many such windows."""
MIXES = {"Dirichlet(1)": 1.0, "Dirichlet(0.3)": 0.3, "few classes": None}
MIX_ROWS, MIX_WINDOWS = 256, 3
STREAM_ROWS, STREAM_WINDOWS = 512, 10
CLEAN_SIZES = {32: 40, 128: 20, 512: 20}
CLEAN_MIX, CLEAN_MIX_WINDOWS = 0.5, 30
WIDE = "stream of all kinds, 1/6 clean"
NARROW, NARROW_CLASSES = "three classes", 3
LEAST_ACCURATE = 0.3
"""Cells that are right less than this part as often as clean rows are past repair."""
FOLDS = 5
SAME = 0.98
"""Two files whose clean predictions agree so often are of one network."""


@dataclass(frozen=True, slots=True)
class Source:
    """Rows of one network, cell by cell."""

    name: str
    logits: np.ndarray
    y: np.ndarray
    cell: np.ndarray
    kinds: list[str]
    """Of each cell; the first is clean."""

    @classmethod
    def of(cls, name: str, cells: list[tuple[str, np.ndarray, np.ndarray]]) -> "Source":
        """Return cells, each a kind with logits and labels, as one source."""
        kinds, logits, y = zip(*cells, strict=True)
        cell = np.repeat(np.arange(len(cells)), [len(labels) for labels in y])
        return cls(name, np.concatenate(logits), np.concatenate(y), cell, list(kinds))

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return self.logits.shape[1]

    def rows(self, cell: int) -> np.ndarray:
        """Return the numbers of the rows of a cell."""
        return np.flatnonzero(self.cell == cell)

    def is_same_network(self, other: "Source") -> bool:
        """Return whether the network of another source gives nearly the same clean predictions."""
        mine, theirs = (s.logits[s.cell == 0].argmax(axis=1) for s in (self, other))
        return len(mine) == len(theirs) and bool(np.mean(mine == theirs) > SAME)


def read_changes(path: Path) -> Source:
    """Return the source in a file of context_changes.py."""
    with np.load(path) as file:
        names = [name for name in file.files if not name.startswith("y|")]
        names.sort(key=lambda name: name != "clean|0")
        cells = [(name.partition("|")[0], file[name], file[f"y|{name}"]) for name in names]
    return Source.of(path.stem, cells)


def read_tuning(name: str, suite: Suite) -> Source:
    """Return the tuning splits of a suite as a source."""
    splits = [*suite.tune("none"), *suite.tune("covariate")]
    return Source.of(name, [(s.corruption or CLEAN, s.logits, s.y) for s in splits])


def fold_of(kinds: set[str]) -> dict[str, int]:
    """Return which fold leaves a kind out: validation corruptions in two pairs, others in five.

    Pairs, so that a stream of what is left out still mixes.
    """
    others = sorted(kinds - {CLEAN, *VALIDATION})
    order = np.random.default_rng(0).permutation(len(others))
    folds = {others[i]: place % FOLDS for place, i in enumerate(order)}
    return folds | {kind: place % 2 for place, kind in enumerate(VALIDATION)}


@dataclass(frozen=True, slots=True)
class Window:
    """Some rows of a source."""

    regime: str
    shifts: str
    """Which changes are in it: those of validation, others, or none."""
    fold: int
    """Which fold leaves its kinds out."""
    rows: np.ndarray


def group(kind: str) -> str:
    """Return the kind of kind."""
    return CORRUPTIONS if kind in VALIDATION else OTHERS


def other_mix(
    rng: np.random.Generator, y: np.ndarray, k: int, strength: float | None
) -> np.ndarray:
    """Return positions of rows with another class mix; no strength: three in ten classes."""
    if strength is None:
        # Of a hundred, thirty: three would be rows of three predictions.
        chosen = rng.choice(k, 3 * k // 10, replace=False)
        prior = np.isin(np.arange(k), chosen).astype(float)
    else:
        prior = rng.dirichlet(np.full(k, strength))
    weight = (prior / np.maximum(np.bincount(y, minlength=k), 1))[y] + 1e-12
    return rng.choice(len(y), MIX_ROWS, p=weight / weight.sum())


def draw(source: Source, folds: dict[str, int], rng: np.random.Generator) -> Iterator[Window]:
    """Yield windows of every regime."""
    k, clean = source.n_classes, source.rows(0)
    for cell, kind in list(enumerate(source.kinds))[1:]:
        rows, where = source.rows(cell), (group(kind), folds[kind])
        yield Window("whole", *where, rows)
        for size, most in SIZES.items():
            order = rng.permutation(rows)
            for start in range(0, min(most, len(rows) // size) * size, size):
                yield Window(f"{size} rows", *where, order[start : start + size])
        for regime, strength in MIXES.items():
            for _ in range(MIX_WINDOWS):
                yield Window(regime, *where, rows[other_mix(rng, source.y[rows], k, strength)])
        half = min(len(rows), MIX_ROWS)
        parts = [rng.choice(of, half, replace=False) for of in (rows, clean)]
        yield Window("half clean", *where, np.concatenate(parts))
    yield from streams(source, folds, rng)
    # Of clean windows a fifth are left out at a time, whichever: they have no kind.
    for size, count in CLEAN_SIZES.items():
        for i in range(count):
            rows = rng.choice(clean, size, replace=False)
            yield Window(f"clean, {size} rows", CLEAN, i % FOLDS, rows)
    for i in range(CLEAN_MIX_WINDOWS):
        rows = clean[other_mix(rng, source.y[clean], k, CLEAN_MIX)]
        yield Window(f"clean, Dirichlet({CLEAN_MIX})", CLEAN, i % FOLDS, rows)


def wide_streams(source: Source, rng: np.random.Generator) -> Iterator[Window]:
    """Yield windows that mix all kinds with clean rows, but those that ruin a network.

    What each kind does to the classes cancels, far more than in a mixture of a few.
    """
    clean, n_clean = source.rows(0), STREAM_ROWS // 6
    right = source.logits.argmax(axis=1) == source.y
    for shifts in (CORRUPTIONS, OTHERS):
        mine = [
            cell
            for cell, kind in enumerate(source.kinds)
            if cell
            and group(kind) == shifts
            and right[source.rows(cell)].mean() > LEAST_ACCURATE * right[clean].mean()
        ]
        pool = np.flatnonzero(np.isin(source.cell, mine))
        for i in range(2 * STREAM_WINDOWS if mine else 0):
            parts = (
                rng.choice(pool, STREAM_ROWS - n_clean, replace=len(pool) < STREAM_ROWS),
                rng.choice(clean, n_clean, replace=False),
            )
            yield Window(WIDE, shifts, i % FOLDS, np.concatenate(parts))


def narrow_windows(
    source: Source, folds: dict[str, int], rng: np.random.Generator
) -> Iterator[Window]:
    """Yield windows of three classes, of which a cell may have few rows: they come repeatedly."""
    for cell, kind in list(enumerate(source.kinds))[1:]:
        rows = source.rows(cell)
        for _ in range(MIX_WINDOWS):
            chosen = rng.choice(source.n_classes, NARROW_CLASSES, replace=False)
            mine = rows[np.isin(source.y[rows], chosen)]
            if len(mine):
                yield Window(NARROW, group(kind), folds[kind], rng.choice(mine, MIX_ROWS))


def streams(source: Source, folds: dict[str, int], rng: np.random.Generator) -> Iterator[Window]:
    """Yield windows that mix all kinds of one fold with clean rows."""
    clean, n_clean = source.rows(0), STREAM_ROWS // 6
    for shifts in (CORRUPTIONS, OTHERS):
        for fold in range(FOLDS):
            mine = [
                cell
                for cell, kind in enumerate(source.kinds)
                if cell and group(kind) == shifts and folds[kind] == fold
            ]
            pool = np.flatnonzero(np.isin(source.cell, mine))
            for _ in range(STREAM_WINDOWS if mine else 0):
                parts = (
                    rng.choice(pool, STREAM_ROWS - n_clean, replace=len(pool) < STREAM_ROWS),
                    rng.choice(clean, n_clean, replace=False),
                )
                yield Window("stream, 1/6 clean", shifts, fold, np.concatenate(parts))


@dataclass(frozen=True, slots=True)
class Seen:
    """What windows say, and what is true of them."""

    statistics: WindowStatistics
    confidence: np.ndarray
    accuracy: np.ndarray
    """As expected from the classes in the window: that of the same cells, class by class."""
    thresholded: np.ndarray
    """The accuracy that `atc-ne` tells."""
    regime: np.ndarray
    shifts: np.ndarray
    fold: np.ndarray
    source: np.ndarray
    network: np.ndarray

    def where(self, some: np.ndarray) -> "Seen":
        """Return some of the windows."""
        inner = [getattr(self.statistics, f.name)[some] for f in fields(WindowStatistics)]
        outer = [getattr(self, f.name)[some] for f in fields(Seen)[1:]]
        return Seen(WindowStatistics(*inner), *outer)

    @classmethod
    def joined(cls, parts: list["Seen"]) -> "Seen":
        """Return the windows of several sources."""
        inner = [
            np.concatenate([getattr(part.statistics, f.name) for part in parts])
            for f in fields(WindowStatistics)
        ]
        outer = [
            np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Seen)[1:]
        ]
        return cls(WindowStatistics(*inner), *outer)


def look(
    source: Source, network: str, windows: list[Window], known: GapModel = SHIPPED[10]
) -> Seen:
    """Return what windows say to `ContextScaling`, fitted on clean rows, to a kind of model."""
    k, is_clean = source.n_classes, source.cell == 0
    fitted = ContextScaling().fit(source.logits[is_clean], source.y[is_clean])
    *sure, is_unsure = fitted.row_statistics(source.logits).features
    # Without a window all rows have one temperature, at which clean confidence is accuracy.
    temperature = float(fitted.temperature(source.logits[:1])[0])
    pred = source.logits.argmax(axis=1)
    right = (pred == source.y).astype(float)
    entropy = negative_entropy(source.logits, temperature)
    above = entropy >= clean_threshold(entropy[is_clean], int((1 - right[is_clean]).sum()))
    in_class = source.cell * k + source.y
    expected = np.bincount(in_class, right) / np.maximum(np.bincount(in_class), 1)

    def mean(values: np.ndarray, number: np.ndarray) -> np.ndarray:
        return np.bincount(number, values) / np.bincount(number)

    def points(rows: np.ndarray, number: np.ndarray, truth: np.ndarray) -> Points:
        n = np.bincount(number).astype(float)
        place, size = number * k + pred[rows], len(n) * k
        by_class = [
            np.bincount(place, values[rows], size).reshape(-1, k) / n[:, None]
            for values in (np.ones(len(pred)), sure[0], is_unsure)
        ]
        means = np.stack([mean(values[rows], number) for values in sure], axis=1)
        return Points(n, means, *by_class, mean(truth[rows], number), n)

    rows = np.concatenate([window.rows for window in windows])
    number = np.repeat(np.arange(len(windows)), [len(window.rows) for window in windows])
    clean_rows = np.flatnonzero(is_clean)
    point = points(clean_rows, np.zeros(len(clean_rows), int), right)
    clean = Clean(point, fitted.chance(), known, fitted.read_at_)
    found = points(rows, number, expected[in_class])
    return Seen(
        clean.statistics(found),
        found.means[:, 0],
        found.accuracy,
        mean(above[rows].astype(float), number),
        np.array([window.regime for window in windows]),
        np.array([window.shifts for window in windows]),
        np.array([window.fold for window in windows]),
        np.full(len(windows), source.name),
        np.full(len(windows), network),
    )
