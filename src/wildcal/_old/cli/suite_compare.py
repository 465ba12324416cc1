"""`wildcal suite compare`: methods fitted and measured on whole suites."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from wildcal._old.cli.choice import choose
from wildcal._old.cli.opening import open_suites
from wildcal._old.cli.options import PATH, Measured, measuring, methods_option
from wildcal._old.cli.output import progress_bar, warn
from wildcal._old.cli.words import as_flags
from wildcal._old.core.errors import FileFormatError
from wildcal._old.evaluation.protocol import Method, Results, run_protocol
from wildcal._old.evaluation.suite_table import suite_table
from wildcal._old.io.suite import Suite
from wildcal._old.io.suite.compose import ZEROS
from wildcal._old.tables.terminal import show

METRICS = ("accuracy", "mean_confidence", "ece", "ood_auroc")


@click.command("compare", no_args_is_help=True)
@click.argument("suites", type=PATH, nargs=-1, required=True, metavar="SUITE...")
@methods_option
@click.option(
    "--ood",
    metavar="SET",
    help="The set of other classes to tune with, such as svhn.  [default: each suite's first]",
)
@click.option(
    "--ood-rows",
    type=click.IntRange(min=0),
    help="How many of its rows.  [default: 100, 400 or 3500, by the number of classes]",
)
@measuring
def compare_command(
    suites: tuple[Path, ...],
    methods: str,
    ood: str | None,
    ood_rows: int | None,
    measured: Measured,
) -> None:
    """Fit methods on the tuning splits of each SUITE and measure them on all its test splits.

    SUITE is a folder, a .npz, or the name of a suite that comes with wildcal. The method
    `energy-no-ood` is the energy method without out-of-distribution rows. Shifted tuning splits
    reach `window`, which also reads each test split as one unlabeled window, and methods whose
    names end in -all, such as `ts-all`: its rivals with the same labels. `dac` and `dac+NAME`
    read distances to training images, which `wildcal extract --features` adds to a suite.

    The set of other classes that methods are tuned with is not tested on, unless it is the only
    one; then its rows to test with are, and the table says so.

    \b
    Example:
      wildcal suite compare cifar10-resnet20 my-suite --methods ts,ets,energy
      wildcal suite compare cifar10-resnet20 --methods paper,window,ts-all,energy-all
      wildcal suite compare cifar10-resnet20 --methods ets,dac+ets --csv numbers.csv
      wildcal suite compare cifar10-resnet20 --ood textures --methods ts,energy
    """
    compare_suites(suites, methods, measured, ood=ood, ood_rows=ood_rows)


def compare_suites(
    paths: Sequence[Path],
    methods: str,
    measured: Measured,
    *,
    ood: str | None = None,
    ood_rows: int | None = None,
) -> None:
    """Compare methods on suites and write the result."""
    suites = open_suites(paths)
    results = compare_on_suites(
        suites,
        choose(methods),
        n_boot=measured.bootstrap,
        n_bins=measured.bins,
        ood=ood,
        ood_rows=ood_rows,
    )
    for name in results.suites:
        zeros = suites[name].data.get(ZEROS)
        if isinstance(zeros, str):
            warn(f"note: {name}: probabilities of zero were {zeros}; `identity` has the former.")
    if not results.suites:
        raise FileFormatError("no suite could be used.")
    measured.output.write(
        json=lambda: results.to_dict()["records"],
        csv=results.to_csv,
        table=lambda: print_suites(results),
    )


def compare_on_suites(
    suites: Mapping[str, Suite], methods: Sequence[Method], **options: Any
) -> Results:
    """Run the protocol, whose options these are, with a progress bar; say what was left out."""
    total = sum(split.rows for suite in suites.values() for split in suite.tests())
    with progress_bar("Comparing", total) as bar:
        results = run_protocol(
            suites,
            methods,
            metrics=METRICS,
            **options,
            progress=lambda doing, rows: bar.update(
                bar.task_ids[0], advance=rows, description=doing
            ),
        )
    for what, reason in results.skipped.items():
        warn(f"warning: {what} was left out: {reason}")
    for name, found in results.suites.items():
        for method, reason in found.failed.items():
            warn(f"warning: {method} failed on {name}: {as_flags(reason)}")
    return results


def print_suites(results: Results) -> None:
    """Print a table for each suite, the method with the lowest average ECE first."""
    for name in results.suites:
        show(suite_table(results, name))
