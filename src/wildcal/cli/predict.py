"""`wildcal predict`: add calibrated confidence to files of samples."""

import shutil
import sys
from itertools import starmap
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from wildcal.cli import options as common
from wildcal.cli.output import STANDARD, check_output, progress_bar, say
from wildcal.cli.types import PATH
from wildcal.core.exceptions import InputError
from wildcal.io.atomic import remove_leftovers
from wildcal.io.chunked import check_columns, output_paths, predict_file, window_statistics
from wildcal.io.samples import list_files
from wildcal.io.schema import Columns


@common.hide_label_options
@click.command(no_args_is_help=True)
@click.argument("calibrator", type=PATH)
@click.argument("source", type=PATH, nargs=-1, required=True)
@click.option("-o", "--output", type=PATH, required=True, help="Folder or file to write.")
@common.overwrite_option
@click.option("--proba", is_flag=True, help="Also write proba_CLASS for each class.")
@click.option(
    "--window",
    type=click.Choice(["all", "file"]),
    default="all",
    help="For window methods: adapt to all samples, or to each file.",
)
@common.scheduler_option
@common.columns_options
def predict(
    calibrator: Path,
    source: tuple[Path, ...],
    output: Path,
    overwrite: bool,
    columns: Columns,
    **options: Any,
) -> None:
    """Add calibrated confidence to files of samples.

    Each file gives a file of the same name and format in the folder -o, with all its columns and
    confidence, predicted and, with --proba, proba_CLASS. For a single file -o may be a file.
    Columns are those declared at the fit.

    \b
    Example:
      wildcal predict calibrator.json 'data/*.parquet' -o out/
      wildcal predict calibrator.json test.csv -o calibrated.csv --proba
      wildcal predict calibrator.json - -o - < scores.csv
      wildcal predict calibrator.json data/ -o out/ --scheduler local
    """
    fitted, columns = common.load_with_columns(calibrator, columns)
    with common.standard_input(source) as path, TemporaryDirectory() as folder:
        files = list_files(path)
        place = Path(folder) / files[0].name if output == STANDARD else output
        targets = _targets(files, place, columns, overwrite or output == STANDARD)
        n, mean = _predict(files, targets, fitted, columns, **options)
        if output == STANDARD:
            with targets[0].open("rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer)
    where = "standard output" if output == STANDARD else output
    n_files = f"{len(files)} files" if len(files) > 1 else "1 file"
    say(f"Wrote {n:,} samples in {n_files} to {where}; mean confidence {100 * mean:.2f} %.")


def _targets(files: list[Path], output: Path, columns: Columns, overwrite: bool) -> list[Path]:
    """Return the files to write, checked before the work."""
    for path in files:
        check_columns(path, columns)
    targets = output_paths(files, output, columns)
    if targets != [output]:
        output.mkdir(parents=True, exist_ok=True)
    read = {path.resolve() for path in files}
    for target in targets:
        check_output(target, overwrite=overwrite)
        if target.resolve() in read:
            raise InputError(f"output must not replace its input {target}.", "output")
    return targets


def _predict(
    files: list[Path],
    targets: list[Path],
    fitted: Any,
    columns: Columns,
    *,
    proba: bool,
    window: str,
    scheduler: str | None,
) -> tuple[int, float]:
    """Write all files; return the number of samples and their mean confidence."""
    is_window_method = hasattr(fitted, "adapt")
    if is_window_method and window == "all":
        with progress_bar("Reading the window"):
            fitted = fitted.adapt(window_statistics(files, fitted, columns))

    def task(path: Path, target: Path) -> tuple[int, float]:
        adapted = fitted
        if is_window_method and window == "file":
            adapted = fitted.adapt(window_statistics([path], fitted, columns))
        return predict_file(path, target, adapted, columns, proba=proba)

    tasks = list(zip(files, targets, strict=True))
    n, total = 0, 0.0
    with progress_bar("Predicting", total=len(tasks)) as progress:
        if scheduler is None:
            found: Any = starmap(task, tasks)
        else:
            from wildcal.interop.dask import run_tasks

            found = run_tasks(task, tasks, scheduler)
        for n_part, total_part in found:
            n, total = n + n_part, total + total_part
            progress.advance()
    if scheduler is not None:  # of workers that were killed
        for target in targets:
            remove_leftovers(target)
    return n, total / max(n, 1)
