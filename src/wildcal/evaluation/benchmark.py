"""`run_benchmark`: fit methods once per suite and measure them on every test split."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from wildcal.evaluation.evaluate import estimate_metrics
from wildcal.evaluation.information import information_used
from wildcal.evaluation.methods import FIT_ERRORS, MethodSpec, get_methods, timed_fit
from wildcal.evaluation.splits import CalibrationData, distances, read_calibration, splits_to_test
from wildcal.io.suite import Split, Suite
from wildcal.metrics._scores import Scores, check_scores
from wildcal.metrics.bootstrap import Options
from wildcal.metrics.registry import METRICS, Metric, get_metrics

Progress = Callable[[str, int], None]
"""Called with the name of the next step and the number of finished samples."""
_OOD_CONFIDENCE: Final = METRICS["ood_mean_confidence"]


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
        unfitted calibrators. Default: those of the paper and `auto`; without energy if a suite
        has no raw logits.
    metrics
        Names of `wildcal.metrics.METRICS`. On OOD splits the ood metrics are computed: the
        detection metrics against as many source test samples, chosen at random.
    ood, n_ood
        The OOD set to fit with, by default the first, and how many of its samples, by default 100
        for up to 10 classes, 400 for up to 100, else 3,500.
    n_bins
        Bins of binned errors.
    n_bootstrap, level, seed
        Replicates, level and seed of intervals over samples; splits of equal size share the draws.
    diagnostics
        Whether to keep the data of a report's charts, see `Diagnostics`.
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
    specs, chosen = get_methods(methods), get_metrics(metrics)
    if "mean_confidence" in metrics and _OOD_CONFIDENCE not in chosen:
        chosen.append(_OOD_CONFIDENCE)
    if not isinstance(suites, Mapping):
        suites = {suite.name: suite for suite in suites}
    measurements: list[Measurement] = []
    found: dict[str, SuiteResult] = {}
    skipped: dict[str, str] = {}
    for name, suite in suites.items():
        kept = Diagnostics(n_bins) if diagnostics else None
        try:
            data = read_calibration(suite, ood=ood, n_ood=n_ood)
            with_energy = methods is not None or suite.input == "logits"
            used = [s for s in specs if with_energy or not s.calibrator.requires_raw_logits]
            fitted, failed = _fit(name, used, data, progress)
            splits = splits_to_test(suite, data.ood_set)
            measured, gaps = _measure_splits(name, splits, fitted, chosen, options, kept, progress)
        except (FileFormatError, InputError) as error:
            skipped[name] = str(error)
            continue
        measurements += measured
        found[name] = SuiteResult(
            suite, tuple(fitted), failed, data.ood_set, n_bins, n_bootstrap, level, kept
        )
        skipped |= {f"{name}: {what}": reason for what, reason in gaps.items()}
    return BenchmarkResults(tuple(measurements), found, skipped)


def _fit(
    suite: str, specs: Sequence[MethodSpec], data: CalibrationData, progress: Progress
) -> tuple[list[FittedMethod], dict[str, str]]:
    """Return fitted methods, and the reason for those that could not be fitted."""
    fitted, failed = [], {}
    for spec in specs:
        progress(f"{suite}: fitting {spec.name}", 0)
        calibrator = clone(spec.calibrator)
        needs_distances = bool(calibrator.requires)
        try:
            arguments = data.fit_arguments(spec.data, knn_distances=needs_distances)
            for split in data.suite.test if needs_distances else ():
                distances(split)
            seconds = timed_fit(calibrator, **arguments)
        except FIT_ERRORS as error:
            failed[spec.name] = str(error)
            continue
        information = information_used(calibrator, data.ood_set)
        fitted.append(FittedMethod(spec.name, calibrator, information, seconds, spec.scores))
    return fitted, failed


def _measure_splits(
    suite: str,
    splits: Sequence[Split],
    methods: Sequence[FittedMethod],
    metrics: Sequence[Metric],
    options: Options,
    kept: Diagnostics | None,
    progress: Progress,
) -> tuple[list[Measurement], dict[str, str]]:
    """Return the measurements of all methods on splits, and the reasons for missing ones."""
    measurements: list[Measurement] = []
    skipped: dict[str, str] = {}
    source: Split | None = None
    for split in splits:
        try:
            split.verify()
        except FileFormatError as error:
            skipped[split.name] = str(error)
            continue
        source = split if split.is_source else source
        for method in methods:
            scores = _scores(method, (split, slice(None)))
            if kept is not None:
                kept.add(split, method.name, scores)
            measurements += _measure(suite, method, split, scores, source, metrics, options)
        progress(f"{suite}: {split.name}", split.n_samples)
    if kept is not None:
        kept.finish()
    missing = missing_conditions([split for split in splits if split.name not in skipped])
    if missing:
        skipped["average over severities"] = missing
    return measurements, skipped


def _measure(
    suite: str,
    method: FittedMethod,
    split: Split,
    scores: Scores,
    source: Split | None,
    metrics: Sequence[Metric],
    options: Options,
) -> Iterator[Measurement]:
    """Yield the metrics of a method on a split.

    OOD detection is measured against as many source samples: AUPR depends on the shares. A window
    method adapts to both together, so that the window does not separate them.
    """
    parts = [([m for m in metrics if m.applies_to(scores)], scores)]
    if split.is_ood:
        parts = [([m for m in metrics if m is _OOD_CONFIDENCE], scores)]
        detection = [m for m in metrics if m.needs == "ood" and m is not _OOD_CONFIDENCE]
        if source is not None and detection:
            n = min(source.n_samples, split.n_samples)
            rng = np.random.default_rng(0)
            drawn = [(s, np.sort(rng.permutation(s.n_samples)[:n])) for s in (source, split)]
            parts.append((detection, _scores(method, *drawn)))
    for chosen, samples in parts:
        estimates, replicates = estimate_metrics(chosen, samples, options)
        for metric, e in estimates.items():
            yield Measurement(
                suite, method.name, method.information, split.name, split.domain, split.corruption,
                split.severity, metric, e, split.n_samples, replicates.get(metric),
            )  # fmt: skip


def _scores(method: FittedMethod, *parts: tuple[Split, Any]) -> Scores:
    """Return the predictions of a method on chosen samples of splits, which are one window."""
    x = np.concatenate([split.logits[chosen] for split, chosen in parts])
    y = np.concatenate([split.y[chosen] for split, chosen in parts])
    if method.scores is not None:
        return method.scores(method.calibrator, x, y)
    knn = None
    if method.calibrator.requires:
        knn = np.concatenate([distances(split)[chosen] for split, chosen in parts])
    return check_scores(y, method.calibrator.predict_proba(x, knn_distances=knn))
