"""`wildcal benchmark`: fit methods on suites and test them on every split."""

from pathlib import Path

import click

from wildcal.cli.options import (
    csv_option,
    json_option,
    methods_option,
    n_bins_option,
    n_bootstrap_option,
    names_of,
    open_suite,
    quiet_option,
    seed_option,
)
from wildcal.cli.output import STANDARD, print_json, progress_bar, say, write_text


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
@n_bins_option
@n_bootstrap_option
@seed_option
@json_option
@csv_option
@quiet_option
def benchmark(
    suites: tuple[str, ...],
    methods: tuple[str, ...] | None,
    metrics: tuple[str, ...],
    sort: str | None,
    ood: str | None,
    n_ood: int | None,
    n_bins: int,
    n_bootstrap: int,
    seed: int,
    as_json: bool,
    csv_output: Path | None,
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
    from wildcal.tables import print_table, to_csv

    opened = {Path(name).stem if Path(name).exists() else name: open_suite(name) for name in suites}
    total = sum(split.n_samples for suite in opened.values() for split in suite.test)
    with progress_bar("Testing", total=total) as progress:
        result = run_benchmark(
            opened,
            None if methods is None else ",".join(methods),
            metrics=metrics,
            ood=ood,
            n_ood=n_ood,
            n_bins=n_bins,
            n_bootstrap=n_bootstrap,
            seed=seed,
            progress=lambda _, n: progress.advance(n),
        )
    for name, reason in result.skipped.items():
        if name in opened:
            say(f"{name} was skipped: {reason}")
    if csv_output is not None:
        write_text(csv_output, to_csv(result.records()))
    if as_json:
        print_json(result.to_dict())
    elif csv_output != STANDARD:
        for table in result.tables(sort):
            print_table(table)
