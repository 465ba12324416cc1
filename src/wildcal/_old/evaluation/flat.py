"""Metrics of rows past memory: one walk that keeps sums, and no number for each row.

Rank metrics (AUROC, AURC, KS and the like) are exact: they are computed from the distinct
confidences and how often each was right, which is all that a sorted list of rows would say.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wildcal._old.calibrators.distinct_scores import DistinctScores, Runs, merged, whole
from wildcal._old.core.arrays import OOD_LABEL, FloatArray, Labels, Proba, working_dtype
from wildcal._old.core.block import Block
from wildcal._old.core.blocks import map_blocks, running
from wildcal._old.core.bound import Bound
from wildcal._old.core.rows import Rows
from wildcal._old.evaluation.estimate import Estimate
from wildcal._old.evaluation.views import Evaluation
from wildcal._old.metrics import TopLabelAccumulator
from wildcal._old.metrics.accumulator import Accumulator
from wildcal._old.metrics.kde import KdeAccumulator, share_rows
from wildcal._old.metrics.noise import NoiseFloor
from wildcal._old.metrics.registry import Metric
from wildcal._old.metrics.seen import Counts, Seen


@dataclass(slots=True)
class Tally:
    """What a walk keeps of one method on some rows; tallies of neighbors are put together."""

    top: TopLabelAccumulator
    floor: NoiseFloor | None
    kde: KdeAccumulator | None
    scores: Runs | None
    others: Runs | None
    """Of rows of no class."""
    n_others: int
    others_sum: float
    sums: dict[str, Accumulator] = field(default_factory=dict)
    means: dict[str, float] = field(default_factory=dict)
    """Sums of numbers for each row, whose mean is the metric."""

    def merge(self, other: "Tally") -> "Tally":
        """Return the tally of both, the scores aside."""
        self.top.merge(other.top)
        for mine, theirs in ((self.floor, other.floor), (self.kde, other.kde)):
            if mine is not None:
                mine.merge(theirs)  # type: ignore[arg-type]
        for name, more in other.sums.items():
            self.sums[name].merge(more)
        for name, value in other.means.items():
            self.means[name] += value
        self.n_others += other.n_others
        self.others_sum += other.others_sum
        return self


@running
def put_together(parts: Sequence[list[Tally]]) -> list[Tally]:
    """Return the tallies of all parts, one for each method, in the order of the rows."""
    found = []
    for mine in zip(*parts, strict=True):
        whole = mine[0]
        for part in mine[1:]:
            whole.merge(part)
        for name in ("scores", "others"):
            if getattr(whole, name) is not None:
                setattr(whole, name, merged([getattr(part, name) for part in mine]))
        found.append(whole)
    return found


def tally(
    rows: Rows, bounds: Sequence[Bound], metrics: Sequence[Metric], n_bins: int
) -> list[Tally]:
    """Return what each method, bound to the rows, shows of them; one walk for each kind of logits.

    All methods that see the logits as they are share one.
    """
    y = rows.labels
    found: dict[int, Tally] = {}
    plain = [i for i, bound in enumerate(bounds) if bound.logits is rows.logits]
    rest = [[i] for i in range(len(bounds)) if i not in plain]
    for numbers in [plain, *rest] if plain else rest:
        mine = [bounds[i] for i in numbers]

        def look(block: Block, mine: Sequence[Bound] = mine) -> list[Tally]:
            return [_of_block(block, bound, y[block.rows], metrics, n_bins) for bound in mine]

        made = map_blocks(mine[0].logits, look, put_together)
        found |= dict(zip(numbers, made, strict=True))
    return [found[i] for i in range(len(bounds))]


def _of_block(
    block: Block, bound: Bound, y: Labels, metrics: Sequence[Metric], n_bins: int
) -> Tally:
    kinds = {metric.flat for metric in metrics}
    dtype = working_dtype(bound.logits.dtype)
    # In the precision of `confidence`, so that a report and a deployed calibrator agree.
    top = (bound.confidence(block), block.pred()) if bound.top is None else bound.top(block)
    said, pred = np.minimum(np.asarray(top[0], dtype).astype(np.float64), 1.0), top[1]
    known = y != OOD_LABEL
    correct, confidence, strange = (pred == y)[known], said[known], said[~known]
    tally = Tally(
        TopLabelAccumulator(n_bins).update(correct, confidence),
        NoiseFloor(n_bins).update(confidence) if any(m.floored for m in metrics) else None,
        None,
        (DistinctScores.of_rows(confidence, correct, None),) if "scores" in kinds else None,
        _unlabeled(strange) if "scores" in kinds else None,
        len(strange),
        float(strange.sum()),
    )
    if any(m.needs == "proba" and m.flat for m in metrics):
        proba = np.empty(block.original.shape, dtype)
        bound.fill(block, proba)
        _look_at_proba(tally, metrics, y, proba, pred, n_bins)
    return tally


def _unlabeled(scores: FloatArray) -> Runs:
    return (DistinctScores.of_rows(scores, np.zeros(len(scores), np.bool_), None),)


def _look_at_proba(
    tally: Tally, metrics: Sequence[Metric], y: Labels, proba: Proba, pred: Labels, n_bins: int
) -> None:
    known = y != OOD_LABEL
    labels = y[known]
    mine, classes = (proba, pred) if known.all() else (proba[known], pred[known])
    for metric in metrics:
        if metric.flat == "sums":
            made: Any = metric.sums(proba.shape[1], n_bins)  # type: ignore[misc]
            tally.sums[metric.name] = made.update(y, proba)
        elif metric.flat == "kde":
            share = share_rows(labels, mine, classes)
            tally.kde = KdeAccumulator().update(classes == labels, share)
        elif metric.flat == "mean" and metric.rows is not None:
            tally.means[metric.name] = float(metric.rows(labels, mine, classes).sum())


def summarize_tally(
    tally: Tally, metrics: Sequence[Metric], n_bins: int, level: float
) -> Evaluation:
    """Return the metrics of what a walk kept; there are no intervals, since no row is kept."""
    n, floor = tally.top.n, float("nan") if tally.floor is None else tally.floor.value()
    seen = Seen(top=tally.top, floor=floor, sums=tally.sums)
    counts = _compressed(tally, seen)
    estimates = {}
    for metric in metrics:
        if metric.flat is None or (metric.needs == "ood" and not tally.n_others):
            continue
        value = _value(metric, tally, seen, counts)
        if not np.isnan(value):
            rows = tally.n_others if metric.needs == "ood" else n
            of_noise = floor if metric.name == "ece" else None
            estimates[metric.name] = Estimate(value, None, None, of_noise, rows, level)
    return Evaluation(
        n_rows=n,
        n_ood=tally.n_others,
        n_bins=n_bins,
        level=level,
        n_boot=0,
        estimates=estimates,
        reliability=tally.top.reliability(level=level),
    )


def _compressed(tally: Tally, seen: Seen) -> Counts:
    """Fill in rows, one for each distinct confidence and whether it was right; return how often."""
    if tally.scores is None or tally.others is None:
        return Counts(np.ones((0, 1)), np.ones((0, 1)))
    seen.confidence, seen.correct, known = whole(tally.scores).rows()
    seen.ood, _, others = whole(tally.others).rows()
    return Counts(known[:, None], others[:, None])


def _value(metric: Metric, tally: Tally, seen: Seen, counts: Counts) -> float:
    if metric.flat == "kde":
        return float("nan") if tally.kde is None else tally.kde.kde_ece()
    if metric.flat == "mean":
        if metric.needs == "ood":
            return tally.others_sum / tally.n_others
        return tally.means[metric.name] / tally.top.n
    if metric.flat == "scores":
        assert metric.drawn is not None  # a rank metric has one
        return float(metric.drawn([seen], counts)[0, 0])
    return metric.value(seen)
