"""The benchmarks that tables and figures of the paper share: each suite is run once for all."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wildcal.evaluation.benchmark import run_benchmark
from wildcal.evaluation.benchmark_results import BenchmarkResults
from wildcal.evaluation.methods import PAPER_METHODS, MethodSpec
from wildcal.evaluation.splits import ood_set
from wildcal.io.suite import Split, Suite
from wildcal.report.paper.names import SuiteNames, in_paper_order
from wildcal.report.paper.variants import COUNTED, WITHOUT_OOD, paper_method

FEW_SAMPLES: Final = 200
"""With fewer samples in a condition its ECE is mostly noise: the types of a severity are pooled."""
PAPER: Final = "paper"
"""Calibrate as the paper does: with Textures for ImageNet, with SVHN for other data."""
WITH_DAC: Final = ("ets", "dac+ets", "spline", "dac+spline", "energy", "dac+energy")
_RESAMPLED: Final = ("ece", "mean_confidence", "ood_auroc", "ood_aupr_in", "ood_aupr_out")


class PooledSplit:
    """Several splits of a suite as one."""

    def __init__(self, splits: Sequence[Split]) -> None:
        first = splits[0]
        self.name, self.role, self.severity = f"all-{first.severity}", first.role, first.severity
        self.domain, self.corruption = self.name, "all types"
        self.is_source, self.is_ood, self.is_shifted = False, False, True
        self._splits = splits
        self.n_samples = sum(split.n_samples for split in splits)

    @cached_property
    def logits(self) -> NDArray[Any]:
        """The logits of all."""
        return np.concatenate([split.logits for split in self._splits])

    @cached_property
    def y(self) -> NDArray[Any]:
        """The labels of all."""
        return np.concatenate([split.y for split in self._splits])

    @property
    def knn_distances(self) -> NDArray[Any] | None:
        """The distances of all, None if one has none."""
        parts = [split.knn_distances for split in self._splits]
        return None if any(p is None for p in parts) else np.concatenate(parts)  # type: ignore[arg-type]

    def verify(self) -> None:
        """Verify the splits."""
        for split in self._splits:
            split.verify()


class PooledSuite:
    """A suite whose corruption types are pooled at each severity."""

    def __init__(self, suite: Suite) -> None:
        self._suite = suite
        cells = [s for s in suite.test if s.severity is not None]
        levels = sorted({s.severity for s in cells if s.severity is not None})
        pooled = [PooledSplit([s for s in cells if s.severity == level]) for level in levels]
        others = [s for s in suite.test if s.severity is None]
        self.test: tuple[Any, ...] = (*others, *pooled)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._suite, name)


@dataclass(eq=False)
class Study:
    """Suites, and benchmarks on them as tables and figures ask for them.

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
        return (*PAPER_METHODS[:-1], *others, PAPER_METHODS[-1])

    def is_pooled(self, name: str) -> bool:
        """Return whether conditions have so few samples that types are pooled."""
        sizes = [s.n_samples for s in self.suites[name].test if s.severity is not None]
        return bool(sizes) and min(sizes) < FEW_SAMPLES

    def usual_ood(self, name: str) -> str | None:
        """Return the OOD set that the paper calibrates with, or the first there is."""
        suite = self.suites[name]
        sets = [ood_set(split.name) for split in suite.calibration if split.is_ood]
        usual = "textures" if suite.data.get("name") == "imagenet" else "svhn"
        return usual if usual in sets else next(iter(sets), None)

    def results(
        self, name: str, metric: str = "ece", *, ood: str = PAPER, dac: bool = False
    ) -> BenchmarkResults | None:
        """Return the benchmark of a suite, None if it lacks the OOD set.

        KDE-ECE is computed of normalized probabilities, as by the authors.
        """
        suite = self.suites[name]
        used = self.usual_ood(name) if ood == PAPER else ood
        sets = {ood_set(s.name) for s in suite.calibration if s.is_ood}
        if used is not None and used not in sets:
            return None
        kind = "ece" if metric in _RESAMPLED else metric
        key = (name, kind, used, dac)
        if key not in self._done:
            metrics = _RESAMPLED if kind == "ece" else (metric,)
            wanted = WITH_DAC if dac else (*self.shown_methods[:-1], WITHOUT_OOD, "energy")
            wanted = ("identity", *wanted) if dac else wanted
            authors = self.authors and metric != "kde_ece"
            if authors and kind == "ece" and not dac:
                wanted = (*wanted, COUNTED)
            specs: list[MethodSpec] = [paper_method(m, authors=authors) for m in wanted]
            tested: Any = PooledSuite(suite) if self.is_pooled(name) else suite
            self._done[key] = run_benchmark(
                {name: tested},
                specs,
                metrics=metrics,
                ood=used,
                n_bootstrap=self.n_bootstrap if kind == "ece" else 0,
                progress=self.progress,
            )
        found = self._done[key]
        return found if name in found.suites else None

    def skipped(self) -> dict[str, str]:
        """Return the suites, splits and methods that could not be used, with the reason."""
        found = {k: v for results in self._done.values() for k, v in results.skipped.items()}
        for results in self._done.values():
            for name, suite in results.suites.items():
                found |= {f"{name}: {method}": why for method, why in suite.failed.items()}
        return found
