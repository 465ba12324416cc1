"""`wildcal compare`: fit methods on calibration samples, evaluate them on test samples."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from wildcal.cli import options as common
from wildcal.cli.output import print_result, progress_bar
from wildcal.cli.types import PATH
from wildcal.io.schema import Columns


@click.command(no_args_is_help=True)
@click.argument("calibration", type=PATH)
@click.argument("test", type=PATH)
@common.methods_option
@click.option("--sort", metavar="METRIC", help="Metric of the ranking.  [nll]")
@click.option("--ood", type=PATH, help="OOD samples to fit with, for energy methods.")
@click.option("--test-ood", type=PATH, help="OOD samples to test with.")
@click.option("--source-domain", metavar="NAME", help="The in-distribution domain.")
@common.columns_options
@common.evaluation_options
@common.result_options
def compare(
    calibration: Path,
    test: Path,
    methods: tuple[str, ...] | None,
    ood: Path | None,
    test_ood: Path | None,
    columns: Columns,
    as_json: bool,
    csv_output: Path | None,
    **options: Any,
) -> None:
    """Fit methods on calibration samples and rank them on test samples.

    CALIBRATION and TEST are files of held-out samples with labels. Methods are ranked by NLL;
    `wildcal methods` lists them.

    \b
    Example:
      wildcal compare val.csv test.csv
      wildcal compare val.npz test.npz --ood svhn.npz --methods ts,energy,auto --sort ece
    """
    from wildcal.evaluation import compare as run

    common.check_test_file(test, calibration)
    fitted_on = common.read_labeled(calibration, replace(columns, group_column=None), ood=ood)
    kind = columns.input or fitted_on.input
    columns = replace(columns, input=kind, class_names=fitted_on.class_names)
    tested_on = common.read_labeled(test, columns, ood=test_ood)
    with progress_bar("Comparing", total=len(methods) if methods else None) as progress:
        result = run(
            (fitted_on.X, fitted_on.y),
            (tested_on.X, tested_on.y),
            methods,
            input=fitted_on.input,
            domain=fitted_on.domain,
            knn_distances=(fitted_on.knn_distances, tested_on.knn_distances),
            sample_weight=(fitted_on.sample_weight, tested_on.sample_weight),
            groups=tested_on.group,
            progress=lambda name: progress.advance(),
            **options,
        )
    print_result(result.to_dict(), [result.table()], as_json, csv_output, result.records())
