"""Benchmarks that the tables and figures of the paper share."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import array_api_compat.numpy as np_compat
import numpy as np
from numpy.typing import NDArray

from wildcal.core.arrays import FloatArray, softmax
from wildcal.evaluation.benchmark import run_benchmark
from wildcal.evaluation.benchmark_results import BenchmarkResults
from wildcal.evaluation.methods import PAPER_METHODS
from wildcal.evaluation.results import as_loss
from wildcal.evaluation.splits import ood_set
from wildcal.io.suite import Split, Suite
from wildcal.metrics.bootstrap import Difference, difference
from wildcal.report.paper.names import SuiteNames, in_paper_order
from wildcal.report.paper.variants import COUNTED, WITHOUT_OOD, paper_method

FEW_SAMPLES: Final = 200
"""With fewer samples in a condition its ECE is mostly noise, so corruption types are pooled."""
PAPER: Final = "paper"
"""Calibrate as the paper does: with Textures for ImageNet, with SVHN for other data."""
WITH_DAC: Final = ("identity", "ets", "dac+ets", "spline", "dac+spline", "energy", "dac+energy")
_RESAMPLED: Final = ("ece", "mean_confidence", "ood_auroc", "ood_aupr_in", "ood_aupr_out")


class PooledSplit:
    """The splits of one severity as one split."""

    def __init__(self, splits: Sequence[Split]) -> None:
        self._splits = splits
        self.name = self.domain = f"all-{splits[0].severity}"
        self.corruption = "all types"
        self.n_samples = sum(split.n_samples for split in splits)

    def __getattr__(self, name: str) -> Any:
        """Return an array of all splits, None if one has none; otherwise that of the first."""
        values = [getattr(split, name) for split in self._splits]
        if not any(isinstance(value, np.ndarray) for value in values):
            return values[0]
        return None if any(value is None for value in values) else np.concatenate(values)

    def verify(self) -> None:
        """Verify the splits."""
        for split in self._splits:
            split.verify()


def is_pooled(suite: Suite) -> bool:
    """Return whether conditions have so few samples that types are pooled."""
    return any(s.severity is not None and s.n_samples < FEW_SAMPLES for s in suite.test)


def pool_types(suite: Suite) -> Suite:
    """Return a suite whose corruption types are pooled at each severity."""
    splits: list[Any] = [s for s in suite.splits if s.role != "test" or s.severity is None]
    levels = sorted({s.severity for s in suite.test if s.severity is not None})
    splits += [PooledSplit(splits_at(suite, level)) for level in levels]
    pooled = copy(suite)
    pooled.splits = tuple(splits)
    return pooled


@dataclass(eq=False)
class Study:
    """Suites and their benchmarks, each run when it is first used.

    Parameters
    ----------
    suites
        Suites by name.
    labels
        Names of networks to show, by the name of the suite.
    methods
        Methods to show besides the paper's.
    authors
        Whether baselines are those of the authors' code, or those of this package.
    n_bootstrap
        Replicates of intervals, 0 for none.
    progress
        Called with what is done and the number of finished samples.
    """

    suites: Mapping[str, Suite]
    labels: Mapping[str, str]
    methods: tuple[str, ...] = ()
    authors: bool = True
    n_bootstrap: int = 0
    intervals: bool = False
    """Whether tables show intervals."""
    progress: Callable[[str, int], None] = lambda name, n: None
    _done: dict[Any, BenchmarkResults] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.suites = in_paper_order(self.suites)

    @cached_property
    def names(self) -> dict[str, SuiteNames]:
        """Data set and network of each suite, as tables show them."""
        return {name: SuiteNames.of(suite, self.labels.get(name)) for name, suite in
                self.suites.items()}  # fmt: skip

    @cached_property
    def shown_methods(self) -> tuple[str, ...]:
        """The paper's methods and the further ones, the energy method last."""
        others = tuple(m for m in self.methods if m not in PAPER_METHODS)
        return (*PAPER_METHODS[:-1], *others, "energy")

    @cached_property
    def with_and_without_ood(self) -> tuple[str, ...]:
        """The shown methods, and energy without OOD samples before energy."""
        return (*self.shown_methods[:-1], WITHOUT_OOD, "energy")

    def pooled_names(self, suites: Iterable[str]) -> str:
        """Return the names of those suites of which types are pooled."""
        return "; ".join(str(self.names[name]) for name in suites if is_pooled(self.suites[name]))

    def results(
        self, name: str, metric: str = "ece", *, ood: str = PAPER, dac: bool = False
    ) -> BenchmarkResults | None:
        """Return the benchmark of a suite, None if it lacks the OOD set.

        KDE-ECE is computed of normalized probabilities, as by the authors.
        """
        suite = self.suites[name]
        sets = [ood_set(split.name) for split in suite.calibration if split.is_ood]
        used: str | None = ood
        if ood == PAPER:
            usual = "textures" if suite.data.get("name") == "imagenet" else "svhn"
            used = usual if usual in sets else next(iter(sets), None)
        elif ood not in sets:
            return None
        metrics = _RESAMPLED if metric in _RESAMPLED else (metric,)
        key = (name, metrics, used, dac)
        if key not in self._done:
            authors = self.authors and metric != "kde_ece"
            methods = WITH_DAC if dac else self.with_and_without_ood
            if authors and "ece" in metrics and not dac:
                methods = (*methods, COUNTED)
            self._done[key] = run_benchmark(
                {name: pool_types(suite) if is_pooled(suite) else suite},
                [paper_method(m, authors=authors) for m in methods],
                metrics=metrics,
                ood=used,
                n_bootstrap=self.n_bootstrap if "ece" in metrics else 0,
                progress=self.progress,
            )
        found = self._done[key]
        return found if name in found.suites else None

    def each(
        self, *, ood: str = PAPER, dac: bool = False, only: Callable[[Suite], object] | None = None
    ) -> Iterator[tuple[str, BenchmarkResults]]:
        """Yield the names and benchmarks of all suites, or of those for which `only` is true."""
        for name, suite in self.suites.items():
            if only is None or only(suite):
                results = self.results(name, ood=ood, dac=dac)
                if results is not None:
                    yield name, results

    def skipped(self) -> dict[str, str]:
        """Return the suites, splits and methods that could not be used, with the reason."""
        found: dict[str, str] = {}
        for results in self._done.values():
            found |= results.skipped
            for name, suite in results.suites.items():
                found |= {f"{name}: {method}": why for method, why in suite.failed.items()}
        return found


def mean_over(
    results: BenchmarkResults, suite: str, method: str, metric: str, splits: Sequence[str]
) -> tuple[float, FloatArray | None]:
    """Return the mean of a metric over splits, and its bootstrap replicates if there are any.

    NaN if no split was measured.
    """
    measured = results.select(suite=suite, method=method, metric=metric)
    found = [m for m in measured if m.split in splits]
    drawn = [m.replicates for m in found if m.replicates is not None]
    value = float(np.mean([m.estimate.value for m in found])) if found else math.nan
    return value, np.mean(drawn, axis=0) if drawn else None


def other_methods(results: BenchmarkResults, suite: str) -> list[str]:
    """Return the methods besides energy; IROvATS with all samples, if both forms were measured."""
    names = [m.name for m in results.suites[suite].methods]
    left_out = {"energy", WITHOUT_OOD, *(["irovats"] if COUNTED in names else [])}
    return [name for name in names if name not in left_out]


def margin_of_energy(
    results: BenchmarkResults, suite: str, splits: Sequence[str],
    others: Iterable[str] | None = None, metric: str = "ece",
) -> Difference:  # fmt: skip
    """Return how much better energy is than the best other method in the mean over splits."""
    sign = as_loss(metric, 1.0)
    value, drawn = mean_over(results, suite, "energy", metric, splits)
    others = other_methods(results, suite) if others is None else others
    found = [mean_over(results, suite, other, metric, splits) for other in others]
    best, best_drawn = min(found, key=lambda pair: sign * pair[0])
    gap = None if drawn is None or best_drawn is None else sign * (best_drawn - drawn)
    return difference(sign * (best - value), gap, results.suites[suite].level)


def splits_at(suite: Suite, severity: int) -> list[Split]:
    """Return the test splits of a severity; 0 is the source."""
    return [s for s in suite.test if (s.is_source if severity == 0 else s.severity == severity)]


def split_names(results: BenchmarkResults, suite: str, severity: int) -> list[str]:
    """Return the names of the test splits of a severity in a benchmark."""
    return [split.name for split in splits_at(results.suites[suite].suite, severity)]


def source_split(suite: Suite) -> Split | None:
    """Return the source test split."""
    return next(iter(splits_at(suite, 0)), None)


def svhn_split(suite: Suite) -> Split | None:
    """Return the test split of SVHN."""
    return next((s for s in suite.test if s.is_ood and ood_set(s.name) == "svhn"), None)


def softmax_confidence(logits: NDArray[Any]) -> FloatArray:
    """Return the largest probability of the softmax.

    Examples
    --------
    >>> softmax_confidence(np.array([[0.0, 0.0]]))
    array([0.5])
    """
    return np.asarray(softmax(np_compat, np.asarray(logits, dtype=np.float64)).max(axis=1))
