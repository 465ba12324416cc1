"""One walk over logits for all methods: what metrics, resamples and pictures are made from."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.arrays import OOD_LABEL, BoolArray, FloatArray, Labels, Proba, working_dtype
from wildcal._old.core.block import Block
from wildcal._old.core.blocks import joined, map_blocks
from wildcal._old.core.bound import Bound
from wildcal._old.core.checks import check_confidence
from wildcal._old.core.rows import Rows
from wildcal._old.metrics import TopLabelAccumulator
from wildcal._old.metrics.accumulator import Accumulator
from wildcal._old.metrics.binning import bin_index
from wildcal._old.metrics.noise import ExpectedGaps
from wildcal._old.metrics.registry import Metric
from wildcal._old.metrics.seen import Look, Seen

Progress = Callable[[int], None]
"""Called with the number of rows that were just finished."""


@dataclass(frozen=True, slots=True)
class Walked:
    """What one walk over rows found; numbers of several methods have shape (methods, rows)."""

    y: Labels
    energy: FloatArray
    correct: BoolArray
    """Whether the class of the largest logit is the label; False for rows without a class."""
    right: BoolArray
    """Whether the class that a method predicts is the label."""
    confidence: FloatArray
    columns: dict[str, FloatArray]
    """A number for each row, of metrics that read them off the probabilities."""
    sums: list[dict[str, Accumulator]]
    """What adds up over rows, of each method."""
    temperature: list[FloatArray | None]
    """What each method divides the rows by, where it does and where it was asked for."""
    raw: FloatArray
    """The largest softmax probability, uncalibrated, where it was asked for; else empty."""

    def cut(self, rows: slice) -> "Walked":
        """Return some of the rows; the sums stay those of all."""
        return Walked(
            self.y[rows],
            self.energy[rows],
            self.correct[rows],
            self.right[:, rows],
            self.confidence[:, rows],
            {name: column[:, rows] for name, column in self.columns.items()},
            self.sums,
            [None if t is None else t[rows] for t in self.temperature],
            self.raw[rows],
        )

    def seen(self, n_bins: int, *, floors: bool) -> list[Seen]:
        """Return what metrics read of each method; rows of no class are told apart."""
        ((_, found),) = self.parts([len(self.y)], n_bins, floors=floors)
        return found

    def parts(
        self, sizes: Sequence[int], n_bins: int, *, floors: bool
    ) -> Iterator[tuple["Walked", list[Seen]]]:
        """Yield so many rows at a time, with what metrics read of each method on them."""
        known = self.y != OOD_LABEL
        inside: Any = slice(None) if known.all() else known
        part = np.repeat(np.arange(len(sizes)), sizes)[inside]
        right = self.right if known.all() else self.right[:, known]
        confidence = self.confidence if known.all() else self.confidence[:, known]
        tops, floor = binned(right, confidence, part, len(sizes), n_bins, floors)
        start = 0
        for s, size in enumerate(sizes):
            rows = slice(start, start + size)
            start += size
            piece = self.cut(rows)
            tables = [(mine[s], of[s]) for mine, of in zip(tops, floor, strict=True)]
            yield piece, piece.seen_of(known[rows], tables)

    def seen_of(
        self, known: BoolArray, tables: Sequence[tuple[TopLabelAccumulator, float]]
    ) -> list[Seen]:
        """Return what metrics read of each method on these rows, whose bins are known."""
        inside: Any = slice(None) if known.all() else known
        others: Any = slice(0, 0) if known.all() else ~known
        right, confidence = self.right[:, inside], self.confidence[:, inside]
        return [
            Seen(
                right[m],
                confidence[m],
                top,
                float(floor),
                {name: column[m][inside] for name, column in self.columns.items()},
                self.sums[m],
                self.confidence[m][others],
            )
            for m, (top, floor) in enumerate(tables)
        ]


def measure(
    rows: Rows,
    bounds: Sequence[Bound],
    metrics: Sequence[Metric] = (),
    *,
    n_bins: int = 15,
    pred: Labels | None = None,
    observe: bool = False,
    progress: Progress | None = None,
) -> Walked:
    """Return what the rows show of methods that were bound to them.

    All methods that see the logits as they are share one pass, in which energy, predicted class and
    exponentials are computed once. One that reads distances sees them scaled, and so takes a pass
    of its own. Probabilities exist a block at a time, and only if a metric reads them.

    Parameters
    ----------
    pred
        The predicted classes, where they are not those of the largest logits.
    observe
        Whether to keep temperatures and the uncalibrated confidence, which reports draw.
    progress
        Called with the number of rows of every block.
    """
    question = _Question(rows, metrics, n_bins, observe, progress)
    logits = rows.logits
    plain = [bound for bound in bounds if bound.logits is logits]
    shared, shared_sums = question.walk(logits, plain, pred, first=True)
    energy, chosen, *left = shared
    raw = _whole(left.pop(0)) if observe else np.empty(0)
    right: list[BoolArray] = []
    confidence: list[FloatArray] = []
    columns: dict[str, list[FloatArray]] = {metric.name: [] for metric in question.readers}
    sums: list[dict[str, Accumulator]] = []
    temperature: list[FloatArray | None] = []
    for bound in bounds:
        if bound.logits is logits:
            mine, its_sums = left, shared_sums.pop(0)
        else:
            found, (its_sums,) = question.walk(bound.logits, [bound], chosen, first=False)
            mine = list(found)
        confidence.append(_whole(mine.pop(0)))
        right.append((chosen if bound.top is None else mine.pop(0)) == rows.labels)
        divides = observe and bound.temperature is not None
        temperature.append(mine.pop(0).astype(np.float64) if divides else None)
        for name in columns:
            columns[name].append(mine.pop(0))
        sums.append(its_sums)
    return Walked(
        rows.labels,
        energy,
        chosen == rows.labels,
        np.stack(right) if right else np.empty((0, len(rows)), np.bool_),
        np.stack(confidence) if confidence else np.empty((0, len(rows))),
        {name: np.stack(found) for name, found in columns.items() if found},
        sums,
        temperature,
        raw,
    )


def _whole(confidence: NDArray[Any]) -> FloatArray:
    """Return confidences in float64, what rounding left above 1 cut off."""
    return np.minimum(confidence.astype(np.float64), 1.0)


@dataclass(frozen=True, slots=True)
class _Question:
    """What is asked of every method, block by block."""

    rows: Rows
    metrics: Sequence[Metric]
    n_bins: int
    observe: bool
    progress: Progress | None

    @property
    def readers(self) -> list[Metric]:
        """The metrics that are read off each row."""
        return [metric for metric in self.metrics if metric.rows is not None]

    @property
    def _dtype(self) -> Any:
        # In the precision of `confidence`, so that a report and a deployed calibrator agree.
        return working_dtype(self.rows.logits.dtype)

    def walk(
        self, source: Any, bounds: Sequence[Bound], known: Labels | None, *, first: bool
    ) -> tuple[Any, list[Any]]:
        """Return columns and sums of some methods; on the first walk what all share comes first."""

        def look(block: Block) -> tuple[tuple[NDArray[Any], ...], list[Any]]:
            chosen = block.pred() if known is None else known[block.rows]
            common: list[Any] = [block.energy(), chosen] if first else []
            if first and self.observe:
                common.append(np.asarray(block.confidence(np.ones(block.n)), self._dtype))
            asked = [self._ask(bound, block, chosen) for bound in bounds]
            if self.progress is not None and first:
                self.progress(block.n)
            return (*common, *(c for found, _ in asked for c in found)), [s for _, s in asked]

        parts = map_blocks(source, look)
        return joined([columns for columns, _ in parts]), [
            _merged([sums[m] for _, sums in parts]) for m in range(len(bounds))
        ]

    def _ask(
        self, bound: Bound, block: Block, pred: Labels
    ) -> tuple[list[Any], dict[str, Accumulator]]:
        confidence, own = (bound.confidence(block), None) if bound.top is None else bound.top(block)
        found: list[Any] = [np.asarray(confidence, self._dtype)]
        if own is not None:
            found.append(own)
            pred = own
        if self.observe and bound.temperature is not None:
            found.append(np.asarray(bound.temperature(block), self._dtype))
        sums: dict[str, Accumulator] = {}
        if any(m.rows is not None or m.sums is not None for m in self.metrics):
            proba = np.empty(block.original.shape, self._dtype)
            bound.fill(block, proba)
            labels = self.rows.labels[block.rows]
            known = np.maximum(labels, 0)
            found += [m.rows(known, proba, pred) for m in self.metrics if m.rows is not None]
            for metric in self.metrics:
                if metric.sums is not None:
                    made: Any = metric.sums(self.rows.n_classes, self.n_bins)
                    sums[metric.name] = made.update(labels, proba)
        return found, sums


def ask_again(bound: Bound, y: Labels) -> Callable[[Look], list[Any]]:
    """Return what calls a function with the probabilities of the rows with a class, in pieces."""
    known = y != OOD_LABEL
    before = np.concatenate([[0], np.cumsum(known)])

    def run(look: Look) -> list[Any]:
        def work(block: Block) -> Any:
            proba = np.empty(block.original.shape, working_dtype(bound.logits.dtype))
            bound.fill(block, proba)
            mine = known[block.rows]
            place = slice(before[block.rows.start], before[block.rows.stop])
            return look(y[block.rows][mine], proba if mine.all() else proba[mine], place)

        return map_blocks(bound.logits, work)

    return run


def binned(
    right: BoolArray,
    confidence: FloatArray,
    part: NDArray[np.intp],
    n_parts: int,
    n_bins: int,
    floors: bool,
) -> tuple[list[list[TopLabelAccumulator]], FloatArray]:
    """Return the sums per bin of each method on each part of the rows, and the noise floors.

    `right` and `confidence` have a row for each method. Rows of part 0 come first, then those of
    part 1. The numbers are those of `TopLabelAccumulator.update` and of `noise_floor` (NaN unless
    `floors`); all parts at once, so that short ones share the calls of NumPy.
    """
    rows = np.bincount(part, minlength=n_parts)
    floor = np.full((len(confidence), n_parts), np.nan)
    if not confidence.size:
        return [[TopLabelAccumulator(n_bins) for _ in rows] for _ in confidence], floor
    offset, size, ends = part * n_bins, n_parts * n_bins, np.cumsum(rows)
    tops: list[list[TopLabelAccumulator]] = []
    gaps = ExpectedGaps(size)
    for mine, correct in zip(confidence, right, strict=True):
        p = check_confidence(mine)
        index = bin_index(p, n_bins) + offset
        both = np.bincount(2 * index + correct, minlength=2 * size).reshape(n_parts, n_bins, 2)
        count, sums = both.sum(axis=2), np.bincount(index, p, size).reshape(n_parts, n_bins)
        if floors:
            gaps.add(p, index)
        gap = p - correct
        tops.append([])
        for s, (start, end) in enumerate(zip(ends - rows, ends, strict=True)):
            top = TopLabelAccumulator(n_bins)
            top.count, top.correct_sum, top.confidence_sum = count[s], both[s, :, 1], sums[s]
            top.squared_error = np.asarray(np.einsum("i,i", gap[start:end], gap[start:end]))
            tops[-1].append(top)
    if floors:
        expected = gaps.values().reshape(len(confidence), n_parts, n_bins).sum(axis=2)
        np.divide(expected, rows, out=floor, where=rows > 0)
    return tops, floor


def _merged(parts: Sequence[dict[str, Any]]) -> dict[str, Accumulator]:
    """Return the sums of all blocks, added in the order of the rows."""
    whole = parts[0]
    for part in parts[1:]:
        for name, more in part.items():
            whole[name].merge(more)
    return whole


def bound_given(proba: Proba, pred: Labels) -> Bound:
    """Return a method that says what was given, so that arrays are measured as methods are."""

    def fill(block: Block, out: Proba) -> None:
        out[:] = proba[block.rows]

    def confidence(block: Block) -> FloatArray:
        mine = proba[block.rows]
        top = np.take_along_axis(mine, pred[block.rows, None], axis=1)[:, 0]
        return np.asarray(top, np.float64)

    return Bound(proba, fill, confidence)
