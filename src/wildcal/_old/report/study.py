"""The runs of the protocol that artifacts share: each suite is tuned and measured once for all."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

from wildcal._old.evaluation import METRICS
from wildcal._old.evaluation.protocol import Results, choose_methods, run_protocol
from wildcal._old.evaluation.protocol.tuning import ood_set, sets_to_test
from wildcal._old.io.suite import Suite
from wildcal._old.report.names import (
    METHOD_TITLES,
    WITH_BOTH,
    data_name,
    in_paper_order,
    suite_labels,
)

PAPER: Final = "paper"
"""Tune as the paper does: with Textures for ImageNet, with SVHN for all other data."""


Condition = Callable[[Suite], bool]


def every(suite: Suite) -> bool:
    """Return True: an artifact reads all suites."""
    return True


@dataclass(frozen=True, slots=True)
class Run:
    """A run that an artifact reads: what methods are tuned with, what is measured."""

    ood: str
    """Name of the out-of-distribution set, or `PAPER`."""
    metrics: tuple[str, ...]
    only: Condition = every
    """Which suites it is about."""
    methods: tuple[str, ...] = WITH_BOTH
    """Which methods it compares."""
    observe: bool = False
    """Whether it draws the raw logits."""


@final
class Study:
    """Suites, and the results on them that were asked for so far.

    Parameters
    ----------
    suites
        Suites by the names that tables show.
    runs
        All runs that will be read; those with the same tuning become one.
    n_boot
        Bootstrap replicates for the intervals of the ECE; 0 for none.
    progress
        Told what is being done and how many rows were finished.
    """

    def __init__(
        self,
        suites: Mapping[str, Suite],
        runs: Iterable[Run],
        *,
        n_boot: int = 0,
        progress: Callable[[str, int], None] = lambda doing, rows: None,
    ) -> None:
        self.suites = in_paper_order(suites)
        self.labels = suite_labels(self.suites)
        self.n_boot, self.progress = n_boot, progress
        self._metrics: dict[tuple[str, str | None], set[str]] = {}
        self._methods: dict[tuple[str, str | None], list[str]] = {}
        self._observe: set[tuple[str, str | None]] = set()
        self._done: dict[tuple[str, str | None], Results] = {}
        for run in runs:
            for key in self._keys(run.ood, run.only):
                self._observe |= {key} if run.observe else set()
                self._metrics.setdefault(key, set()).update(run.metrics)
                known = self._methods.setdefault(key, [])
                known += [name for name in run.methods if name not in known]

    @property
    def rows(self) -> int:
        """How many rows all runs together will measure."""
        tested = {
            name: [(s.name, s.shift, s.rows) for s in suite.tests()]
            for name, suite in self.suites.items()
        }
        return sum(
            n
            for suite, ood in self._metrics
            for name, shift, n in tested[suite]
            if shift != "semantic"
            or (suite, ood) in self._observe  # pictures of the raw logits show all sets
            or ood_set(name) in sets_to_test(self.suites[suite], ood)
        )

    def results(self, ood: str, only: Condition = every) -> Results:
        """Return the results of all suites that can be tuned with a set and meet a condition."""
        found = [self._run(key) for key in self._keys(ood, only)]
        return Results(
            tuple(record for results in found for record in results.records),
            {name: suite for results in found for name, suite in results.suites.items()},
            {name: text for results in found for name, text in results.skipped.items()},
        )

    @property
    def left_out(self) -> dict[str, str]:
        """Suites, splits and averages that the runs so far could not use, with the reason."""
        return {k: text for done in self._done.values() for k, text in done.skipped.items()}

    def _keys(self, ood: str, only: Condition) -> list[tuple[str, str | None]]:
        keys: list[tuple[str, str | None]] = []
        for name, suite in ((n, suite) for n, suite in self.suites.items() if only(suite)):
            sets = [ood_set(split.name) for split in suite.tune("semantic")]
            if ood == PAPER:
                usual = "textures" if data_name(suite) == "imagenet" else "svhn"
                keys.append((name, usual if usual in sets else next(iter(sets), None)))
            elif ood in sets:
                keys.append((name, ood))
        return keys

    def _run(self, key: tuple[str, str | None]) -> Results:
        if key not in self._done:
            name, ood = key
            wanted = self._metrics.get(key, set())
            self._done[key] = run_protocol(
                {name: self.suites[name]},
                choose_methods(self._methods.get(key, WITH_BOTH)),
                metrics=[metric for metric in METRICS if metric in wanted],
                ood=ood,
                n_boot=self.n_boot,
                observe=key in self._observe,
                progress=self.progress,
            )
        return self._done[key]


def knowledge(
    study: Study, results: Results, methods: Sequence[str], suites: Collection[str]
) -> list[str]:
    """Return notes of what each method used on some suites."""
    by_text: dict[str, list[str]] = {}
    for name in dict.fromkeys(suites):
        by_used: dict[str, list[str]] = {}
        for method in results.suites[name].methods:
            if method.name in methods:
                by_used.setdefault(method.knew.words(), []).append(METHOD_TITLES[method.name])
        parts = [f"{', '.join(titles)}: {used}" for used, titles in by_used.items()]
        by_text.setdefault("; ".join(parts), []).append(" ".join(study.labels[name]))
    notes = []
    for text, labels in by_text.items():
        where = "" if len(by_text) == 1 else f" for {', '.join(labels)}"
        notes.append(f"What each method used{where}: {text}.")
    return notes


def troubles(results: Results, methods: Sequence[str]) -> list[str]:
    """Return notes of methods that could not be fitted, and of what could not be read."""
    notes = [
        f"{METHOD_TITLES[method]} could not be fitted on {name}: {reason}"
        for name, suite in results.suites.items()
        for method, reason in suite.failed.items()
        if method in methods
    ]
    return notes + [f"Left out, {name}: {reason}" for name, reason in results.skipped.items()]
