"""`run_benchmark`: fit methods once per suite and measure them on every test split."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from wildcal.core.calibrator import Calibrator, clone
from wildcal.core.exceptions import FileFormatError, InputError
from wildcal.evaluation.benchmark_results import (
    BenchmarkResults,
    FittedMethod,
    Measurement,
    SuiteResult,
    missing_conditions,
)
from wildcal.evaluation.diagnostics import Diagnostics
from wildcal.evaluation.information import information_used
from wildcal.evaluation.methods import FIT_ERRORS, MethodSpec, get_methods, timed_fit
from wildcal.evaluation.splits import CalibrationData, distances, read_calibration, splits_to_test
from wildcal.io.suite import Split, Suite
from wildcal.metrics._scores import Scores, check_scores
from wildcal.metrics.bootstrap import Estimate, Options, estimate, replicate
from wildcal.metrics.registry import METRICS, Metric, get_metrics

Progress = Callable[[str, int], None]
"""Called with what is done next and how many samples were finished."""
_OOD_CONFIDENCE: Final = "ood_mean_confidence"


def run_benchmark(
    suites: Mapping[str, Suite] | Iterable[Suite],
    methods: Sequence[str | MethodSpec | Calibrator] | str | None = None,
    *,
    metrics: Sequence[str] = ("accuracy", "mean_confidence", "ece"),
    ood: str | None = None,
    n_ood: int | None = None,
    n_bins: int = 15,
    n_bootstrap: int = 0,
    level: float = 0.95,
    seed: int = 0,
    diagnostics: bool = False,
    progress: Progress = lambda name, n: None,
) -> BenchmarkResults:
    """Fit methods on the calibration splits of suites and measure them on every test split.

    Each method is fitted once per suite. Methods that use OOD samples get some of one set; that
    set is left out of the tests unless it is the only one. Window methods adapt to each split.

    Parameters
    ----------
    suites
        Suites by the names to show, or suites.
    methods
        Specifications such as "ts", "dac+energy", "ts@source,shifted", see `MethodSpec.parse`, or
        unfitted calibrators. Default: those of the paper.
    metrics
        Names of `wildcal.metrics.METRICS`. On OOD splits the ood metrics are computed: the
        detection metrics against as many source test samples, chosen at random.
    ood, n_ood
        The OOD set to fit with, by default the first, and how many of its samples, by default 100
        for up to 10 classes, 400 for up to 100, else 3,500.
    n_bins
        Bins of binned errors.
    n_bootstrap, level, seed
        Replicates, level and seed of intervals over images; splits of equal size share the draws.
    diagnostics
        Whether to keep what a report draws, see `Diagnostics`.
    progress
        Called with a name and the number of finished samples.

    Examples
    --------
    >>> from wildcal import suites
    >>> names = suites.list("pacs")
    >>> results = run_benchmark({name: suites.load(name) for name in names}, ["identity", "ts"])
    >>> [results.ranked(name)[0].name for name in names]
    ['ts']
    """
    options = Options(n_bins, n_bootstrap, level, seed)
    specs, chosen = get_methods(methods), _with_ood_confidence(metrics)
    if not isinstance(suites, Mapping):
        suites = {suite.name: suite for suite in suites}
    measurements: list[Measurement] = []
    found: dict[str, SuiteResult] = {}
    skipped: dict[str, str] = {}
    for name, suite in suites.items():
        try:
            calibration = read_calibration(suite, ood=ood, n_ood=n_ood)
            fitted, failed = _fit(name, specs, calibration, progress)
            kept = Diagnostics(n_bins) if diagnostics else None
            mine, replicates = _measure(
                name, suite, fitted, calibration, chosen, options, kept, skipped, progress
            )
        except (FileFormatError, InputError) as error:
            skipped[name] = str(error)
            continue
        measurements += mine
        found[name] = SuiteResult(
            suite, tuple(fitted), failed, calibration.ood_set, n_bins, n_bootstrap, level,
            replicates, kept,
        )  # fmt: skip
    return BenchmarkResults(tuple(measurements), found, skipped)


def _with_ood_confidence(names: Sequence[str]) -> list[Metric]:
    """Return the metrics; the mean confidence is also measured on OOD splits."""
    metrics = get_metrics(names)
    if "mean_confidence" in names and _OOD_CONFIDENCE not in names:
        metrics.append(METRICS[_OOD_CONFIDENCE])
    return metrics


def _fit(
    suite: str, specs: Sequence[MethodSpec], calibration: CalibrationData, progress: Progress
) -> tuple[list[FittedMethod], dict[str, str]]:
    """Return fitted methods, and the reason for those that could not be fitted."""
    fitted, failed = [], {}
    for spec in specs:
        progress(f"{suite}: fitting {spec.name}", 0)
        calibrator = clone(spec.calibrator)
        try:
            arguments = calibration.fit_arguments(
                spec.data, knn_distances="knn_distances" in calibrator.requires
            )
            if calibrator.requires:
                for split in calibration.suite.test:
                    distances(split)
            seconds = timed_fit(calibrator, **arguments)
        except FIT_ERRORS as error:
            failed[spec.name] = str(error)
            continue
        information = information_used(calibrator, calibration.ood_set)
        fitted.append(FittedMethod(spec.name, calibrator, information, seconds, spec.scores))
    return fitted, failed


def _measure(
    name: str,
    suite: Suite,
    methods: Sequence[FittedMethod],
    calibration: CalibrationData,
    metrics: Sequence[Metric],
    options: Options,
    kept: Diagnostics | None,
    skipped: dict[str, str],
    progress: Progress,
) -> tuple[list[Measurement], dict[tuple[str, str], Any]]:
    """Return the measurements of all methods on all test splits, and their replicates."""
    found: list[Measurement] = []
    drawn: dict[tuple[str, str], list[Any]] = {}
    source: Split | None = None
    measured = []
    for split in splits_to_test(suite, calibration.ood_set):
        try:
            split.verify()
        except FileFormatError as error:
            skipped[f"{name}: {split.name}"] = str(error)
            continue
        measured.append(split)
        if split.is_source:
            source = split
        if kept is not None:
            kept.add_split(split)
        for method in methods:
            scores = _scores(method, [split])
            if kept is not None:
                kept.add(split, method.name, method.calibrator, scores)
            pairs = [(metric, scores) for metric in metrics if metric.needs != "ood"]
            if split.is_ood:
                pairs = _ood_pairs(method, source, split, scores, metrics)
            for metric, estimated, replicates in _estimates(pairs, options):
                found.append(Measurement.of(name, method, split, metric, estimated))
                if replicates is not None:
                    drawn.setdefault((metric, split.name), []).append(replicates)
        progress(f"{name}: {split.name}", split.n_samples)
    gap = missing_conditions(measured)
    if gap:
        skipped[f"{name}: average over severities"] = gap
    if kept is not None:
        kept.finish()
    return found, {key: np.stack(rows) for key, rows in drawn.items()}


def _scores(method: FittedMethod, splits: Sequence[Split], chosen: Any = None) -> Scores:
    """Return the predictions of a method on the samples of splits, which are one window."""
    parts = [slice(None)] * len(splits) if chosen is None else chosen
    x = np.concatenate([split.logits[part] for split, part in zip(splits, parts, strict=True)])
    y = np.concatenate([split.y[part] for split, part in zip(splits, parts, strict=True)])
    if method.scores is not None:
        return method.scores(method.calibrator, x, y)
    near = None
    if method.calibrator.requires:
        near = np.concatenate([distances(s)[part] for s, part in zip(splits, parts, strict=True)])
    return check_scores(y, method.calibrator.predict_proba(x, knn_distances=near))


def _ood_pairs(
    method: FittedMethod,
    source: Split | None,
    split: Split,
    scores: Scores,
    metrics: Sequence[Metric],
) -> list[tuple[Metric, Scores]]:
    """Return the ood metrics with the samples that they are computed of.

    Detection is measured against as many source samples: AUPR depends on the shares. A window
    method adapts to both together, so that the window does not separate them.
    """
    pairs = [(m, scores) for m in metrics if m.name == _OOD_CONFIDENCE]
    detection = [m for m in metrics if m.needs == "ood" and m.name != _OOD_CONFIDENCE]
    if source is None or not detection:
        return pairs
    n = min(source.n_samples, split.n_samples)
    rng = np.random.default_rng(0)
    chosen = [np.sort(rng.permutation(each.n_samples)[:n]) for each in (source, split)]
    both = _scores(method, [source, split], chosen)
    return pairs + [(metric, both) for metric in detection]


def _estimates(
    pairs: Sequence[tuple[Metric, Scores]], options: Options
) -> Iterable[tuple[str, Estimate, Any]]:
    """Yield name, estimate and replicates of each metric that is defined."""
    pairs = [(m, s) for m, s in pairs if m.name == _OOD_CONFIDENCE or m.applies_to(s)]
    drawn: dict[str, Any] = {}
    for scores in {id(scores): scores for _, scores in pairs}.values():
        drawn |= replicate([m for m, other in pairs if other is scores], scores, options)
    for metric, scores in pairs:
        replicates = drawn.get(metric.name)
        found = estimate(metric, scores, options, replicates)
        if not np.isnan(found.value):
            yield metric.name, found, replicates
