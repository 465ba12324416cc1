"""`wildcal benchmark`: fit methods on suites and test them on every split."""

from pathlib import Path
from typing import Any

import click

from wildcal.cli import options as common
from wildcal.cli.output import print_result, progress_bar, say
from wildcal.cli.types import NAMES
from wildcal.core.exceptions import WildcalError
from wildcal.evaluation import run_benchmark


@click.command(no_args_is_help=True)
@click.argument("suites", nargs=-1, required=True)
@common.methods_option
@click.option("--metrics", type=NAMES, default="ece,accuracy,mean_confidence,ood_auroc")
@click.option("--sort", metavar="METRIC", help="Metric of the tables.  [ece]")
@click.option("--ood", metavar="SET", help="OOD set to fit with.  [the first]")
@click.option("--n-ood", type=click.IntRange(min=0), help="OOD samples to fit with.")
@common.bootstrap_options
@common.result_options
def benchmark(
    suites: tuple[str, ...],
    methods: tuple[str, ...] | None,
    sort: str | None,
    as_json: bool,
    csv_output: Path | None,
    **options: Any,
) -> None:
    """Fit methods on the calibration splits of suites and test them on every other split.

    SUITES are folders, .npz files or names of installed suites. Methods are NAME or NAME@DATA with
    DATA of source, ood, shifted; also dac+NAME.

    \b
    Example:
      wildcal benchmark cifar10-resnet20
      wildcal benchmark my-suite/ --methods ts,energy,dac+energy,ts@source,shifted --csv all.csv
    """
    opened = common.open_suites(suites)
    if sort is not None:
        options["metrics"] += (sort,)
    result = run_with_progress(opened, methods, **options)
    for name, reason in result.skipped.items():
        if name in opened:
            say(f"{name} was skipped: {reason}")
    print_result(result.to_dict(), result.tables(sort), as_json, csv_output, result.records())


def run_with_progress(
    suites: dict[str, Any], methods: tuple[str, ...] | None = None, **options: Any
) -> Any:
    """Return the results of `run_benchmark`, and show its progress."""
    total = sum(split.n_samples for suite in suites.values() for split in suite.test)
    names = None if methods is None else ",".join(methods)
    with progress_bar("Testing", total=total) as progress:
        done = run_benchmark(suites, names, progress=lambda _, n: progress.advance(n), **options)
    if not done.suites:
        reasons = " ".join(f"{name}: {reason}" for name, reason in done.skipped.items())
        raise WildcalError(f"no suite was measured. {reasons}")
    return done
