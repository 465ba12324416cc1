"""`wildcal compare`: methods fitted on calibration samples and measured on test samples."""

from pathlib import Path

import click

from wildcal.cli.options import (
    PATH,
    columns_options,
    csv_option,
    json_option,
    methods_option,
    n_bins_option,
    n_bootstrap_option,
    quiet_option,
    read_labeled,
    seed_option,
)
from wildcal.cli.output import STANDARD, print_json, progress_bar, write_text
from wildcal.io.schema import Columns


@click.command(no_args_is_help=True)
@click.argument("calibration", type=PATH)
@click.argument("test", type=PATH)
@methods_option
@click.option("--sort", metavar="METRIC", help="Metric of the ranking.  [nll]")
@click.option("--ood", type=PATH, help="OOD samples to fit with, for energy methods.")
@click.option("--test-ood", type=PATH, help="OOD samples to test with.")
@click.option("--source-domain", metavar="NAME", help="The in-distribution domain.")
@columns_options
@n_bins_option
@n_bootstrap_option
@seed_option
@json_option
@csv_option
@quiet_option
def compare(
    calibration: Path,
    test: Path,
    methods: tuple[str, ...] | None,
    sort: str | None,
    ood: Path | None,
    test_ood: Path | None,
    source_domain: str | None,
    columns: Columns,
    n_bins: int,
    n_bootstrap: int,
    seed: int,
    as_json: bool,
    csv_output: Path | None,
) -> None:
    """Fit methods on calibration samples and rank them on test samples.

    CALIBRATION and TEST are files of held-out samples with labels. Methods are ranked by NLL;
    `wildcal methods` lists them.

    \b
    Example:
      wildcal compare val.csv test.csv
      wildcal compare val.npz test.npz --ood svhn.npz --methods ts,energy,auto --sort ece
    """
    from wildcal.cli.fit import with_ood
    from wildcal.evaluation import compare as run
    from wildcal.tables import print_table, to_csv

    fitted_on = read_labeled(calibration, columns)
    tested_on = read_labeled(test, columns)
    domain = fitted_on.domain
    if ood is not None:
        fitted_on = with_ood(fitted_on, ood, columns)
        domain = fitted_on.domain
    if test_ood is not None:
        tested_on = with_ood(tested_on, test_ood, columns)
    weights = (fitted_on.sample_weight, tested_on.sample_weight)
    distances = (fitted_on.knn_distances, tested_on.knn_distances)
    with progress_bar("Comparing", total=len(methods) if methods else None) as progress:
        result = run(
            (fitted_on.X, fitted_on.y),
            (tested_on.X, tested_on.y),
            methods,
            sort=sort,
            input=fitted_on.input,
            domain=domain,
            source_domain=source_domain,
            knn_distances=None if distances[0] is None else distances,
            sample_weight=weights,
            groups=tested_on.group,
            n_bins=n_bins,
            n_bootstrap=n_bootstrap,
            seed=seed,
            progress=lambda name: progress.advance(),
        )
    if csv_output is not None:
        write_text(csv_output, to_csv(result.records()))
    if as_json:
        print_json(result.to_dict())
    elif csv_output != STANDARD:
        print_table(result.table())
