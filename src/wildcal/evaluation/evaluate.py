"""Compute every metric in one pass over the predictions, in memory that does not grow with K."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from wildcal.core.arrays import OOD_LABEL, BoolArray, FloatArray, Labels, Proba, working_dtype
from wildcal.core.block import Block
from wildcal.core.blocks import added, map_blocks
from wildcal.core.calibrator import Calibrator
from wildcal.core.checks import (
    check_labels,
    check_pred,
    check_proba,
    check_some_known,
    row_slices,
)
from wildcal.core.rows import check_rows
from wildcal.core.softmax import predicted_class
from wildcal.evaluation.results import METRICS, Evaluation, Measure
from wildcal.metrics import (
    ClasswiseAccumulator,
    KdeAccumulator,
    TopLabelAccumulator,
    aupr_in,
    aupr_out,
    aurc,
    auroc,
    brier_per_sample,
    ece_interval,
    equal_mass_ece,
    fpr95,
    ks_error,
    mean_interval,
    nll_per_sample,
    noise_floor,
)

# Rows of probabilities that exist at the same time, as entries of the matrix.
_CHUNK_ELEMENTS = 1 << 20
# Resampling work is bounded: with many rows the interval is narrow and needs fewer replicates.
_MOST_DRAWS = 100_000_000
_FEWEST_REPLICATES = 100

Progress = Callable[[int], None]
"""Called with the number of rows that were just finished."""


def evaluate(
    y: ArrayLike,
    proba: ArrayLike,
    *,
    pred: ArrayLike | None = None,
    n_bins: int = 15,
    n_boot: int = 1000,
    level: float = 0.95,
) -> Evaluation:
    """Return all metrics of probabilities.

    Parameters
    ----------
    y
        Labels (n,); rows with -1 are out-of-distribution. They count for the ``ood_*`` metrics
        alone, with the confidence as score.
    proba
        Probabilities (n, K).
    pred
        Predicted classes of the raw logits, where they are known: rounding and ties in `proba` can
        change its argmax.
    n_bins
        Equal-width bins of ECE, MCE, SCE and the reliability curve.
    n_boot, level
        Bootstrap replicates and level of the intervals; 0 replicates for none. With more than
        100,000 rows fewer replicates are drawn (never below 100); the result says how many.

    Examples
    --------
    >>> import numpy as np
    >>> proba = np.array([[0.8, 0.2], [0.3, 0.7], [0.9, 0.1], [0.6, 0.4]])
    >>> evaluate([0, 1, 0, 1], proba)["accuracy"]
    0.75
    """
    array = check_proba(proba)
    labels = check_labels(y, *array.shape, accepts_ood=True)
    chosen = array.argmax(axis=1) if pred is None else check_pred(pred, *array.shape)
    check_some_known(labels)
    collected = _Collector(array.shape[1], n_bins)
    for rows in row_slices(array, _CHUNK_ELEMENTS):
        collected.add(labels[rows], array[rows], chosen[rows])
    return collected.finish(n_boot, level)


def evaluate_calibrator(
    calibrator: Calibrator,
    logits: ArrayLike,
    y: ArrayLike,
    *,
    n_bins: int = 15,
    n_boot: int = 1000,
    level: float = 0.95,
    window: bool = False,
    distances: ArrayLike | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Return all metrics of a fitted calibrator on logits, without holding its probabilities.

    Parameters as in `evaluate`; the predicted class is that of the raw logits. With `window`, a
    method that reads windows takes the labelled rows as one window and other classes as another;
    for the metrics that tell the two apart (ood_auroc and the like), all rows as one, or the
    context and not the row would tell them apart.
    """
    calibrator.check_is_fitted()
    rows = check_rows(logits, n_classes=calibrator.n_classes_, y=y, distances=distances)
    if window:
        if "window" not in calibrator.reads:
            raise ValueError(f"{calibrator.name} reads each row alone; leave window out.")
        rows = replace(rows, window=(rows.labels == OOD_LABEL).astype(np.int64))
    bound = calibrator.bind(rows)

    def look(block: Block) -> _Collector:
        out = np.empty(block.original.shape, working_dtype(block.original.dtype))
        bound.fill(block, out)
        pred = predicted_class(rows.logits[block.rows])
        seen = _Collector(rows.n_classes, n_bins).add(rows.labels[block.rows], out, pred)
        if progress is not None:
            progress(block.n)
        return seen

    collected: _Collector = map_blocks(bound.logits, look, added)
    detection = None
    if window and rows.n_ood:
        common = replace(rows, window=np.zeros(len(rows), np.int64))
        confidence = np.minimum(calibrator.bind(common).confidences().astype(np.float64), 1.0)
        known = rows.labels != OOD_LABEL
        detection = np.concatenate([confidence[known], confidence[~known]])
    return collected.finish(n_boot, level, detection)


class _Collector:
    """Sums for the streaming metrics, and per-row confidences for those that sort."""

    def __init__(self, n_classes: int, n_bins: int) -> None:
        self.n_bins = n_bins
        self.top = TopLabelAccumulator(n_bins)
        self.classwise = ClasswiseAccumulator(n_classes, n_bins)
        self.kde = KdeAccumulator()
        self.nll: list[FloatArray] = []
        self.brier: list[FloatArray] = []
        self.correct: list[BoolArray] = []
        self.confidence: list[FloatArray] = []
        self.ood: list[FloatArray] = []

    def __add__(self, other: "_Collector") -> "_Collector":
        for name in ("nll", "brier", "correct", "confidence", "ood"):
            getattr(self, name).extend(getattr(other, name))
        for name in ("top", "classwise", "kde"):
            getattr(self, name).merge(getattr(other, name))
        return self

    def add(self, y: Labels, proba: Proba, pred: Labels) -> "_Collector":
        inside = y != OOD_LABEL
        confidence = np.minimum(np.take_along_axis(proba, pred[:, None], axis=1)[:, 0], 1)
        confidence = confidence.astype(np.float64)
        if not inside.all():
            self.ood.append(confidence[~inside])
            y, proba, pred, confidence = y[inside], proba[inside], pred[inside], confidence[inside]
        if len(y) == 0:
            return self
        correct = pred == y
        self.correct.append(correct)
        self.confidence.append(confidence)
        self.top.update(correct, confidence)
        self.kde.update(y, proba, pred)
        self.classwise.update(y, proba)
        self.nll.append(nll_per_sample(y, proba))
        self.brier.append(brier_per_sample(y, proba))
        return self

    def finish(self, n_boot: int, level: float, detection: FloatArray | None = None) -> Evaluation:
        """Return the result; `detection` are other scores to tell known from other rows by."""
        correct, confidence = np.concatenate(self.correct), np.concatenate(self.confidence)
        ood = np.concatenate(self.ood) if self.ood else np.empty(0)
        ece, floor = self.top.ece(), noise_floor(confidence, n_bins=self.n_bins)
        means = {
            "accuracy": correct,
            "mean_confidence": confidence,
            "brier": np.concatenate(self.brier),
            "top_label_brier": np.square(confidence - correct),
            "nll": np.concatenate(self.nll),
            **({"ood_mean_confidence": ood} if len(ood) else {}),
        }
        values = {
            "ece": ece,
            "noise_floor": floor,
            "excess_ece": ece - floor,
            "mce": self.top.mce(),
            "sce": self.classwise.sce(),
            "equal_mass_ece": equal_mass_ece(correct, confidence, n_bins=self.n_bins),
            "kde_ece": self.kde.kde_ece(),
            "ks_error": ks_error(correct, confidence),
            "aurc": aurc(correct, confidence),
            **{name: float(per_row.mean()) for name, per_row in means.items()},
        }
        if correct.any() and not correct.all():  # there is something to tell apart
            values["misclassification_auroc"] = auroc(correct, confidence)
        if len(ood):
            is_id = np.arange(len(correct) + len(ood)) < len(correct)
            scores = np.concatenate([confidence, ood]) if detection is None else detection
            values |= {
                "ood_auroc": auroc(is_id, scores),
                "ood_aupr_in": aupr_in(is_id, scores),
                "ood_aupr_out": aupr_out(is_id, scores),
                "ood_fpr95": fpr95(is_id, scores),
            }
        if n_boot:
            n_boot = min(n_boot, max(_FEWEST_REPLICATES, _MOST_DRAWS // len(correct)))
        low_high = _intervals(correct, confidence, means, floor, self.n_bins, n_boot, level)
        measures = {
            name: Measure(values[name], *low_high.get(name, (None, None)))
            for name in METRICS
            if name in values
        }
        return Evaluation(
            n_rows=len(correct),
            n_ood=len(ood),
            n_bins=self.n_bins,
            level=level,
            n_boot=n_boot,
            measures=measures,
            reliability=self.top.reliability(level=level),
        )


def _intervals(
    correct: BoolArray,
    confidence: FloatArray,
    means: Mapping[str, BoolArray | FloatArray],
    floor: float,
    n_bins: int,
    n_boot: int,
    level: float,
) -> dict[str, tuple[float, float]]:
    if n_boot == 0:
        return {}
    found = {"ece": ece_interval(correct, confidence, n_bins=n_bins, n_boot=n_boot, level=level)}
    for name, per_row in means.items():
        found[name] = mean_interval(per_row, n_boot=n_boot, level=level)
    bounds = {name: (interval.low, interval.high) for name, interval in found.items()}
    # The floor depends on the confidences, which hardly move between resamples.
    return bounds | {"excess_ece": (bounds["ece"][0] - floor, bounds["ece"][1] - floor)}
