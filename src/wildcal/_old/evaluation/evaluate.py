"""Every metric of one method on one set of rows, in memory that does not grow with K."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from wildcal._old.bridge import Bridged, wrap
from wildcal._old.core.arrays import OOD_LABEL
from wildcal._old.core.calibrator import Calibrator
from wildcal._old.core.checks import check_labels, check_pred, check_proba, check_some_known
from wildcal._old.core.rows import Rows, check_rows, own_column
from wildcal._old.evaluation.estimate import Estimate
from wildcal._old.evaluation.flat import summarize_tally, tally
from wildcal._old.evaluation.measure import Progress, ask_again, bound_given, measure
from wildcal._old.evaluation.resample import draw_rows, resample
from wildcal._old.evaluation.views import Evaluation
from wildcal._old.metrics.bootstrap import share_by_chance
from wildcal._old.metrics.registry import Metric, choose_metrics
from wildcal._old.metrics.seen import Seen

# Resampling work is bounded: with many rows the interval is narrow and needs fewer replicates.
_MOST_DRAWS = 100_000_000
_FEWEST_REPLICATES = 100


def evaluate(
    y: ArrayLike,
    proba: ArrayLike,
    *,
    pred: ArrayLike | None = None,
    metrics: Sequence[str] | None = None,
    n_bins: int = 15,
    n_boot: int = 1000,
    level: float = 0.95,
) -> Evaluation:
    """Return metrics of probabilities.

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
    metrics
        Names of `wildcal._old.evaluation.METRICS`, by default all.
    n_bins
        Equal-width bins of ECE, MCE, SCE and the reliability curve.
    n_boot, level
        Bootstrap replicates and level of the intervals; 0 replicates for none. With more than
        100,000 rows fewer replicates are drawn (never below 100); the result says how many.

    Examples
    --------
    >>> import numpy as np
    >>> proba = np.array([[0.8, 0.2], [0.3, 0.7], [0.9, 0.1], [0.6, 0.4]])
    >>> evaluate([0, 1, 0, 1], proba).accuracy
    0.75
    """
    choose_metrics(metrics)  # names first
    array = check_proba(proba)
    chosen = choose_metrics(metrics, array.shape[1])
    labels = check_labels(y, *array.shape, accepts_ood=True)
    classes = array.argmax(axis=1) if pred is None else check_pred(pred, *array.shape)
    check_some_known(labels)
    bound = bound_given(array, classes)
    walked = measure(Rows(array, y=labels), [bound], chosen, n_bins=n_bins, pred=classes)
    (seen,) = walked.seen(n_bins, floors=_floors(chosen))
    seen.again = ask_again(bound, labels)
    return summarize(seen, chosen, n_boot, level)


def evaluate_calibrator(
    calibrator: Calibrator,
    logits: Any,
    y: Any = None,
    *,
    metrics: Sequence[str] | None = None,
    n_bins: int = 15,
    n_boot: int = 1000,
    level: float = 0.95,
    window: bool = False,
    distances: ArrayLike | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Return metrics of a fitted calibrator on logits, without holding its probabilities.

    Parameters as in `evaluate`; the predicted class is the most probable one. With `window`, a
    method that reads windows takes the labeled rows as one window and other classes as another;
    for the metrics that tell the two apart (ood_auroc and the like), all rows as one, or the
    context and not the row would tell them apart.

    Logits may be a source, which brings its labels: then the walk keeps sums and no rows, and there
    are neither intervals nor the metrics that need every row.
    """
    calibrator = wrap(calibrator)
    calibrator.check_is_fitted()
    chosen = choose_metrics(metrics, calibrator.n_classes_)
    y = own_column(logits, "y") if y is None else y
    if y is None:
        raise ValueError("y must be given, or logits be a source that has labels.")
    if distances is None and "distances" in calibrator.reads:
        distances = own_column(logits, "distances")
    rows = check_rows(logits, n_classes=calibrator.n_classes_, y=y, distances=distances)
    if window and "window" not in calibrator.reads:
        raise ValueError(f"{calibrator.name} reads each row alone; leave window out.")
    if not rows.in_memory:
        rows = _in_one_window(calibrator, rows) if window else rows
        (found,) = tally(rows, [calibrator.bind(rows)], chosen, n_bins)
        return summarize_tally(found, chosen, n_bins, level)
    if window:
        rows = replace(rows, window=(rows.labels == OOD_LABEL).astype(np.int64))
    seen = look_at(calibrator, rows, chosen, n_bins=n_bins, progress=progress)
    if window and rows.n_ood:
        common = replace(rows, window=np.zeros(len(rows), np.int64))
        confidence = np.minimum(calibrator.bind(common).confidences().astype(np.float64), 1.0)
        known = rows.labels != OOD_LABEL
        seen.scores = (confidence[known], confidence[~known])
    return summarize(seen, chosen, n_boot, level)


def _in_one_window(calibrator: Calibrator, rows: Rows) -> Rows:
    """Return the rows of a source as one window, what it says read from sums over them."""
    if rows.n_ood:
        raise ValueError(
            "a window over a source must have labels everywhere, got rows of other classes (-1)."
            " Leave them out, or give arrays."
        )
    if isinstance(calibrator, Bridged):  # it takes all rows as one window
        return rows
    return replace(rows, context=calibrator.context(rows.logits))


def evaluate_source(
    calibrators: Mapping[str, Calibrator],
    source: Any,
    *,
    metrics: Sequence[str] | None = None,
    n_bins: int = 15,
    window: bool = False,
) -> dict[str, Evaluation]:
    """Return metrics of several fitted calibrators on a source that has labels, in one walk.

    With `window`, those that read windows take all rows as one.
    """
    y, n_classes = own_column(source, "y"), source.shape[1]
    if y is None:
        raise ValueError("the source must have labels.")
    chosen = choose_metrics(metrics, n_classes)
    plain = check_rows(source, y=y)
    near = plain
    if any("distances" in c.reads for c in calibrators.values()):
        near = check_rows(source, y=y, distances=own_column(source, "distances"))
    bounds = []
    for calibrator in calibrators.values():
        rows = near if "distances" in calibrator.reads else plain
        if window and "window" in calibrator.reads:
            rows = _in_one_window(calibrator, rows)
        bounds.append(calibrator.bind(rows))
    found = tally(plain, bounds, chosen, n_bins)
    return {
        name: summarize_tally(mine, chosen, n_bins, 0.95)
        for name, mine in zip(calibrators, found, strict=True)
    }


def look_at(
    calibrator: Calibrator,
    rows: Rows,
    metrics: Sequence[Metric],
    *,
    n_bins: int,
    progress: Progress | None = None,
) -> Seen:
    """Return what metrics read of a fitted calibrator on checked rows, in one walk over them."""
    bound = calibrator.bind(rows)
    walked = measure(rows, [bound], metrics, n_bins=n_bins, progress=progress)
    (seen,) = walked.seen(n_bins, floors=_floors(metrics))
    seen.again = ask_again(bound, rows.labels)
    return seen


def summarize(seen: Seen, metrics: Sequence[Metric], n_boot: int, level: float) -> Evaluation:
    """Return the metrics that apply to the rows that were seen, with their intervals."""
    n, n_ood = len(seen.correct), len(seen.ood)
    found = {m: m.value(seen) for m in metrics if m.needs != "ood" or n_ood}
    found = {m: value for m, value in found.items() if not np.isnan(value)}
    drawn = {}
    rng = np.random.default_rng(0)
    if n_boot:
        n_boot = min(n_boot, max(_FEWEST_REPLICATES, _MOST_DRAWS // n))
        draws = draw_rows(n, rng), draw_rows(n_ood, np.random.default_rng(0))
        drawn = {name: d[0] for name, d in resample([seen], list(found), n_boot, draws).items()}
    # A calibrated model may show such an ECE by chance; then the interval reaches down to 0.
    near = {"ece", "excess_ece"} & drawn.keys() and (
        share_by_chance(seen.confidence, seen.top.ece(), seen.n_bins, n_boot, rng) > (1 - level) / 2
    )
    estimates = {}
    for metric, value in found.items():
        low = high = None
        if metric.name in drawn:
            low, high = metric.interval(value, drawn[metric.name], level, seen.floor)
        if near and low is not None and metric.name in ("ece", "excess_ece"):
            low = min(value, -seen.floor if metric.beyond_floor else 0.0)
        floor = seen.floor if metric.name == "ece" else None
        rows = {"top": n, "proba": n, "ood": n_ood}[metric.needs]
        estimates[metric.name] = Estimate(value, low, high, floor, rows, level)
    return Evaluation(
        n_rows=n,
        n_ood=n_ood,
        n_bins=seen.n_bins,
        level=level,
        n_boot=n_boot,
        estimates=estimates,
        reliability=seen.top.reliability(level=level),
        drawn=drawn,
    )


def _floors(metrics: Sequence[Metric]) -> bool:
    return any(metric.floored for metric in metrics)
