"""`wildcal benchmark`: fit methods on suites and test them on every split."""

from pathlib import Path
from typing import Any

import click

from wildcal.cli.options import (
    bootstrap_options,
    methods_option,
    names_of,
    open_suite,
    result_options,
)
from wildcal.cli.output import print_result, progress_bar, say


@click.command(no_args_is_help=True)
@click.argument("suites", nargs=-1, required=True)
@methods_option
@click.option(
    "--metrics",
    callback=names_of,
    metavar="NAME,...",
    default="ece,accuracy,mean_confidence,ood_auroc",
    show_default=True,
)
@click.option("--sort", metavar="METRIC", help="Metric of the tables.  [ece]")
@click.option("--ood", metavar="SET", help="OOD set to fit with.  [the first]")
@click.option("--n-ood", type=click.IntRange(min=0), help="OOD samples to fit with.")
@bootstrap_options
@result_options
def benchmark(
    suites: tuple[str, ...],
    methods: tuple[str, ...] | None,
    metrics: tuple[str, ...],
    sort: str | None,
    ood: str | None,
    n_ood: int | None,
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
    from wildcal.evaluation import run_benchmark

    opened = {Path(name).stem if Path(name).exists() else name: open_suite(name) for name in suites}
    total = sum(split.n_samples for suite in opened.values() for split in suite.test)
    with progress_bar("Testing", total=total) as progress:
        result = run_benchmark(
            opened,
            None if methods is None else ",".join(methods),
            metrics=metrics,
            ood=ood,
            n_ood=n_ood,
            progress=lambda _, n: progress.advance(n),
            **options,
        )
    for name, reason in result.skipped.items():
        if name in opened:
            say(f"{name} was skipped: {reason}")
    print_result(result, lambda: result.tables(sort), as_json, csv_output)
