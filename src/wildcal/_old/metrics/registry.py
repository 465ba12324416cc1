"""Every metric by name: how it is shown, what it needs, how it is computed and resampled.

An entry here is all it takes: `evaluate`, `compare`, the protocol on suites, reports and tables ask
this registry and no metric by name. `value` reads what one pass collected; `drawn` computes the
same on resampled rows, for several sets of as many rows at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from wildcal._old.core.arrays import BoolArray, FloatArray, Labels, Proba
from wildcal._old.metrics.accumulator import Accumulator
from wildcal._old.metrics.binary import (
    calibration_intercept,
    calibration_slope,
    drawn_line,
    signed_rows,
    spiegelhalter_z,
    unsigned,
)
from wildcal._old.metrics.classwise import ClasswiseAccumulator, weighted_part, weighted_sce
from wildcal._old.metrics.detection import aupr_in, aupr_out, auroc, fpr95
from wildcal._old.metrics.equal_mass import equal_mass_ece
from wildcal._old.metrics.interval import basic_interval, percentile_interval
from wildcal._old.metrics.kde import kde_ece, share_rows, weighted_kde_ece
from wildcal._old.metrics.ks import ks_error
from wildcal._old.metrics.proper import brier_rows, nll_rows
from wildcal._old.metrics.seen import Counts, Seen
from wildcal._old.metrics.selective import aurc
from wildcal._old.metrics.weighted import (
    weighted_aurc,
    weighted_auroc,
    weighted_ece,
    weighted_equal_mass,
    weighted_fpr95,
    weighted_ks,
    weighted_mce,
    weighted_means,
    weighted_precision,
)

Needs: TypeAlias = Literal["top", "proba", "ood"]
"""The predicted class and its confidence; all probabilities; rows of no class."""
Flat: TypeAlias = Literal["top", "sums", "mean", "kde", "scores"]
Drawn: TypeAlias = Callable[[Sequence[Seen], Counts], FloatArray]
"""The metric of resampled rows, shape (sets, replicates)."""
# Sets whose bins are summed by one sparse product.
_TOGETHER: Final = 128


@dataclass(frozen=True, slots=True)
class Metric:
    """How a metric is shown, computed and resampled."""

    name: str
    title: str
    better: Literal["lower", "higher"] | None
    value: Callable[[Seen], float]
    drawn: Drawn | None
    """None where there is no interval."""
    needs: Needs = "top"
    percent: bool = True
    rows: Callable[[Labels, Proba, Labels], FloatArray] | None = None
    """A number for each row of a block, of its label, probabilities and predicted class."""
    sums: Callable[[int, int], Accumulator] | None = None
    """What adds up over blocks, for so many classes and bins, where such numbers do not do."""
    biased: bool = True
    """Whether few rows make it larger, as they do a calibration error; a mean is not biased."""
    floored: bool = False
    """Whether it needs the noise floor."""

    costly: bool = False
    """Whether resampling sorts rows or reads their probabilities: with many rows, fewer
    replicates are drawn."""
    beyond_floor: bool = False
    """Whether the floor is subtracted, so that it may be negative."""
    classes: int | None = None
    """The number of classes it is for; None for any."""
    flat: Flat | None = "top"
    """What a walk over a source keeps for it: sums by bin, sums of its own, the sum of its numbers,
    or the distinct confidences, of which `drawn` is then the exact value; None where it would have
    to keep every row."""

    def interval(
        self, value: float, drawn: FloatArray, level: float, floor: float = 0.0
    ) -> tuple[float, float]:
        """Return the ends of the interval that resampled values give; `floor` is the noise's."""
        if not self.biased:
            found = percentile_interval(value, drawn, level)
            return found.low, found.high
        base = floor if self.beyond_floor else 0.0
        found = basic_interval(value + base, drawn + base, level, 0, 1)
        return min(found.low - base, value), max(found.high - base, value)


def mean_of(
    column: Callable[[Seen], FloatArray | BoolArray],
) -> tuple[Callable[[Seen], float], Drawn]:
    """Return value and resampling of a mean over the known rows."""

    def drawn(sets: Sequence[Seen], counts: Counts) -> FloatArray:
        return weighted_means([np.asarray(column(seen)) for seen in sets], counts.known)

    return lambda seen: float(np.asarray(column(seen)).mean()), drawn


def _each(function: Callable[[Seen, FloatArray], FloatArray]) -> Drawn:
    """Return a resampling that looks at one set after the other."""
    return lambda sets, counts: np.stack([function(seen, counts.known) for seen in sets])


def _ece(sets: Sequence[Seen], counts: Counts) -> FloatArray:
    parts = [sets[i : i + _TOGETHER] for i in range(0, len(sets), _TOGETHER)]
    return np.concatenate([
        weighted_ece([s.correct for s in p], [s.confidence for s in p], p[0].n_bins, counts.known)
        for p in parts
    ])  # fmt: skip


def _excess(sets: Sequence[Seen], counts: Counts) -> FloatArray:
    # The floor depends on the confidences, which hardly move between resamples.
    return np.asarray(_ece(sets, counts) - np.array([[seen.floor] for seen in sets]))


def _sce(seen: Seen, counts: FloatArray) -> FloatArray:
    if seen.again is None:
        raise ValueError("sce is resampled from probabilities, and these are not at hand.")
    parts = seen.again(lambda y, proba, rows: weighted_part(y, proba, seen.n_bins, counts[rows]))
    return weighted_sce(parts, seen.n_bins, counts)


def _right_or_wrong(seen: Seen) -> float:
    """Return how well confidence tells right from wrong; NaN where there is nothing to tell."""
    some = seen.correct.any() and not seen.correct.all()
    return auroc(seen.correct, seen.confidence) if some else float("nan")


def _detect(function: Callable[[BoolArray, FloatArray], float]) -> Callable[[Seen], float]:
    def value(seen: Seen) -> float:
        known, others = seen.told_apart
        is_id = np.arange(len(known) + len(others)) < len(known)
        return function(is_id, np.concatenate([known, others]))

    return value


def _detect_drawn(
    function: Callable[[BoolArray, FloatArray, FloatArray], FloatArray], *, ood: bool = False
) -> Drawn:
    """Return the resampling of a detection metric; either kind of rows is drawn from its own."""

    def drawn(sets: Sequence[Seen], counts: Counts) -> FloatArray:
        both = np.concatenate([counts.known, counts.ood])
        found = []
        for known, others in (seen.told_apart for seen in sets):
            is_id, scores = np.arange(len(both)) < len(known), np.concatenate([known, others])
            found.append(function(~is_id if ood else is_id, -scores if ood else scores, both))
        return np.stack(found)

    return drawn


def _positive_ece(sets: Sequence[Seen], counts: Counts) -> FloatArray:
    pairs = [unsigned(seen.columns["positive_ece"]) for seen in sets]
    return weighted_ece([y for y, _ in pairs], [p for _, p in pairs], sets[0].n_bins, counts.known)


def _one_sample(drawn: Drawn) -> Callable[[Seen], float]:
    """Return the value of a metric of which only the resampling is written: each row once."""
    return lambda seen: float(
        drawn([seen], Counts(np.ones((len(seen.correct), 1)), np.ones((0, 1))))[0, 0]
    )


def _of_others() -> tuple[Callable[[Seen], float], Drawn]:
    return lambda seen: float(seen.ood.mean()), lambda sets, counts: weighted_means(
        [seen.ood for seen in sets], counts.ood
    )


def _column(name: str) -> tuple[Callable[[Seen], float], Drawn]:
    return mean_of(lambda seen: seen.columns[name])


_ENTRIES: Final = (
    Metric(
        "accuracy", "accuracy", "higher", lambda s: s.top.accuracy(),
        mean_of(lambda s: s.correct)[1], biased=False,
    ),
    Metric(
        "mean_confidence", "mean confidence", None, lambda s: s.top.mean_confidence(),
        mean_of(lambda s: s.confidence)[1], biased=False,
    ),
    Metric("ece", "ECE", "lower", lambda s: s.top.ece(), _ece, floored=True),
    Metric("noise_floor", "  noise floor", None, lambda s: s.floor, None, floored=True),
    Metric(
        "excess_ece", "  excess ECE", "lower", lambda s: s.top.ece() - s.floor, _excess,
        floored=True, beyond_floor=True,
    ),
    Metric(
        "mce", "MCE", "lower", lambda s: s.top.mce(),
        _each(lambda s, c: weighted_mce(s.correct, s.confidence, s.n_bins, c)), costly=True,
    ),
    Metric(
        "sce", "SCE (classwise)", "lower", lambda s: s.sums["sce"].sce(),  # type: ignore[attr-defined]
        _each(_sce), needs="proba", sums=ClasswiseAccumulator, costly=True, flat="sums",
    ),
    Metric(
        "equal_mass_ece", "equal-mass ECE", "lower",
        lambda s: equal_mass_ece(s.correct, s.confidence, n_bins=s.n_bins),
        _each(lambda s, c: weighted_equal_mass(s.correct, s.confidence, s.n_bins, c)), costly=True,
        flat="scores",
    ),
    Metric(
        "kde_ece", "KDE-ECE", "lower", lambda s: kde_ece(s.correct, s.columns["kde_ece"]),
        _each(lambda s, c: weighted_kde_ece(s.correct, s.columns["kde_ece"], c)),
        needs="proba", rows=share_rows, costly=True, flat="kde",
    ),
    Metric(
        "ks_error", "KS error", "lower", lambda s: ks_error(s.correct, s.confidence),
        _each(lambda s, c: weighted_ks(s.correct, s.confidence, c)), costly=True, flat="scores",
    ),
    Metric(
        "brier", "Brier score", "lower", *_column("brier"), needs="proba", percent=False,
        rows=brier_rows, biased=False, flat="mean",
    ),
    Metric(
        "top_label_brier", "top-label Brier", "lower", lambda s: s.top.top_label_brier(),
        mean_of(lambda s: np.square(s.confidence - s.correct))[1], percent=False, biased=False,
    ),
    Metric(
        "nll", "NLL", "lower", *_column("nll"), needs="proba", percent=False, rows=nll_rows,
        biased=False, flat="mean",
    ),
    Metric(
        "positive_ece", "ECE of class 1", "lower", _one_sample(_positive_ece), _positive_ece,
        needs="proba", rows=signed_rows, classes=2, flat=None,
    ),
    Metric(
        "calibration_slope", "slope (1 is right)", None,
        lambda s: calibration_slope(s.columns["calibration_slope"]),
        _each(lambda s, c: drawn_line(s.columns["calibration_slope"], c, free=True)),
        needs="proba", rows=signed_rows, percent=False, biased=False, costly=True, classes=2,
        flat=None,
    ),
    Metric(
        "calibration_intercept", "intercept (0 is right)", None,
        lambda s: calibration_intercept(s.columns["calibration_intercept"]),
        _each(lambda s, c: drawn_line(s.columns["calibration_intercept"], c, free=False)),
        needs="proba", rows=signed_rows, percent=False, biased=False, costly=True, classes=2,
        flat=None,
    ),
    Metric(
        "spiegelhalter_z", "Spiegelhalter's z", None,
        lambda s: spiegelhalter_z(s.columns["spiegelhalter_z"]), None,
        needs="proba", rows=signed_rows, percent=False, classes=2, flat=None,
    ),
    Metric(
        "aurc", "AURC", "lower", lambda s: aurc(s.correct, s.confidence),
        _each(lambda s, c: weighted_aurc(s.correct, s.confidence, c)), costly=True, flat="scores",
    ),
    Metric(
        "misclassification_auroc", "AUROC right/wrong", "higher", _right_or_wrong,
        _each(lambda s, c: weighted_auroc(s.correct, s.confidence, c)), costly=True, flat="scores"),
    Metric("ood_mean_confidence", "OOD confidence", "lower", *_of_others(), needs="ood",
           biased=False, flat="mean"),
    Metric("ood_auroc", "AUROC ID/OOD", "higher", _detect(auroc), _detect_drawn(weighted_auroc),
           needs="ood", costly=True, flat="scores"),
    Metric("ood_aupr_in", "AUPR-in (ID positive)", "higher", _detect(aupr_in),
           _detect_drawn(weighted_precision), needs="ood", costly=True, flat="scores"),
    Metric("ood_aupr_out", "AUPR-out (OOD positive)", "higher", _detect(aupr_out),
           _detect_drawn(weighted_precision, ood=True), needs="ood", costly=True, flat="scores"),
    Metric("ood_fpr95", "FPR at 95 % TPR (ID positive)", "lower", _detect(fpr95),
           _detect_drawn(weighted_fpr95), needs="ood", costly=True, flat="scores"),
)  # fmt: skip

METRICS: Final[dict[str, Metric]] = {metric.name: metric for metric in _ENTRIES}
"""All metrics, in the order in which tables show them."""


def choose_metrics(
    names: Sequence[str] | None = None, n_classes: int | None = None
) -> list[Metric]:
    """Return metrics by their names, by default all; with `n_classes`, those that apply to them.

    >>> [metric.title for metric in choose_metrics(["nll", "aurc"])]
    ['NLL', 'AURC']
    """
    from wildcal._old.core.checks import check_choice

    chosen = tuple(METRICS) if names is None else tuple(dict.fromkeys(names))
    for name in chosen:
        check_choice("metrics", name, tuple(METRICS))
    found = [METRICS[name] for name in chosen]
    return [m for m in found if n_classes is None or m.classes in (None, n_classes)]
