"""Methods on whole suites, run and shown in a terminal."""

from collections.abc import Mapping, Sequence

from wildcal.cli.output import progress_bar, say
from wildcal.evaluation.protocol import Method, Results, run_protocol
from wildcal.evaluation.suite_table import suite_table
from wildcal.io.suite import Suite
from wildcal.tables.terminal import show

METRICS = ("accuracy", "mean_confidence", "ece", "ood_auroc")


def compare_on_suites(
    suites: Mapping[str, Suite],
    methods: Sequence[Method],
    *,
    n_boot: int,
    n_bins: int = 15,
    metrics: Sequence[str] = METRICS,
    observe: bool = False,
) -> Results:
    """Run the protocol with a progress bar, and say what could not be used."""
    total = sum(split.rows for suite in suites.values() for split in suite.tests())
    with progress_bar("Comparing", total) as bar:
        results = run_protocol(
            suites,
            methods,
            metrics=metrics,
            n_bins=n_bins,
            n_boot=n_boot,
            observe=observe,
            progress=lambda doing, rows: bar.update(
                bar.task_ids[0], advance=rows, description=doing
            ),
        )
    for what, reason in results.skipped.items():
        say(f"warning: {what} was left out: {reason}")
    for name, found in results.suites.items():
        for method, reason in found.failed.items():
            say(f"warning: {method} failed on {name}: {reason}")
    return results


def print_suites(results: Results) -> None:
    """Print a table for each suite, the method with the lowest average ECE first."""
    for name in results.suites:
        show(suite_table(results, name))
