"""`wildcal apply`: calibrated probabilities for new rows."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from wildcal._old.bridge import Bridged
from wildcal._old.cli.declared import Declared, input_options, refuse_other_kinds, with_columns
from wildcal._old.cli.options import (
    PATH,
    STANDARD,
    distances_option,
    quiet_option,
    refuse_same,
    window_option,
)
from wildcal._old.cli.output import progress_bar, say, warn_of_few_rows
from wildcal._old.cli.sharded import (
    at_work,
    open_source,
    refuse_scheduler,
    scheduler_option,
    verify_option,
)
from wildcal._old.core.calibrator import Calibrator
from wildcal._old.core.rows import check_rows
from wildcal._old.io import InputRows, load_with_about, write_result
from wildcal._old.io.sources import write_shards
from wildcal._old.io.tables import check_result


@click.command(no_args_is_help=True)
@click.argument("calibrator", type=PATH)
@click.argument("rows", type=PATH)
@click.option(
    "-o", "--output", type=PATH, required=True, help="Result: .npz, .csv, .npy; - prints a .csv."
)
@click.option("--confidence-only", is_flag=True, help="Leave out the probability matrix.")
@distances_option
@window_option
@scheduler_option
@verify_option
@input_options
@quiet_option
def apply(
    calibrator: Path,
    rows: Path,
    output: Path,
    confidence_only: bool,
    distances: Path | None,
    window: int | str | None,
    scheduler: str | None,
    verify: bool,
    declared: Declared,
) -> None:
    """Apply a saved CALIBRATOR to ROWS, a file of scores, or - for standard input.

    The result has `proba` (n x K), `confidence` and `pred` (the most probable class), and where the
    method has one, the `temperature` of each row; labels and ids are handed on. A .npy holds the
    first of these alone. Scores are what the calibrator was fitted on, unless --input says
    otherwise. The method dac needs an array `distances` besides the scores.

    ROWS may be a folder or a pattern of shards: then -o is a folder, and gets shards. With
    --scheduler the workers of a cluster write them.

    \b
    Example:
      wildcal apply auto.json test.npz -o proba.npz
      wildcal apply auto.json - -o - < scores.csv > proba.csv
      wildcal apply window.json batch.npz --window all -o proba.npz
      wildcal apply dac.json test.npy --distances distances.npy -o proba.npz
      wildcal apply ts.json 'test/*.npz' --scheduler local -o calibrated
    """
    refuse_same(output)
    source = open_source(rows, declared, distances, verify=verify)
    if source is not None:
        fitted, about = load_with_about(calibrator)
        refuse_other_kinds(rows, about)
        with at_work(scheduler, f"Applying {fitted.title}"):
            _apply_to_shards(fitted, source, output, window, not confidence_only)
        return
    refuse_scheduler(scheduler)
    check_result(output)  # before the work, not after it
    fitted, about = load_with_about(calibrator)
    read = with_columns(declared.read(rows, about=about), distances=distances)
    if distances is not None and "distances" not in fitted.reads:
        raise click.UsageError(
            f"{fitted.name} does not read distances. Leave out --distances, or use dac."
        )
    _check_window(fitted, window)
    if "distances" not in fitted.reads:
        read = replace(read, distances=None)
    with progress_bar(f"Applying {fitted.title}"):
        arrays = _applied(fitted, read, window, not confidence_only)
    names = None if about.classes is None else about.classes
    for name, column in (("y", read.y), ("id", read.ids)):
        if column is not None:
            arrays[name] = column
    write_result(output, arrays, classes=read.classes or names)
    confidence = arrays["confidence"]
    where = "standard output" if output == STANDARD else output
    say(f"Wrote {len(confidence):,} rows to {where}; mean confidence {confidence.mean():.2%}.")


def _apply_to_shards(
    fitted: Calibrator, source: Any, output: Path, window: int | str | None, proba: bool
) -> None:
    if output.suffix:
        raise click.UsageError(f"-o must be a folder for the shards of the result, got {output}.")
    if window not in (None, "all"):
        raise click.UsageError("shards are one window: --window all, or leave it out.")
    _check_window(fitted, window)
    context = None
    if "window" in fitted.reads and isinstance(fitted, Bridged):
        fitted = fitted.adapted_to(source)
    elif window is not None:
        context = fitted.context(source)
    paths = write_shards(fitted, source, output, context=context, proba=proba)
    say(f"Wrote {len(source):,} rows to {len(paths)} shards in {output}.")


def _applied(
    fitted: Calibrator, rows: InputRows, window: int | str | None, proba: bool
) -> dict[str, NDArray[Any]]:
    """Return what a calibrator says of rows, window by window where it reads windows."""
    z, s = rows.logits, rows.distances
    if window is None:
        return dict(fitted.apply(z, proba=proba, distances=s))
    size = len(z) if window == "all" else int(window)
    _warn_of_few_rows(fitted, len(z) % size or size)  # the last one may have fewer
    windows = np.arange(len(z)) // size
    given = check_rows(z, n_classes=fitted.n_classes_, window=windows, distances=s)
    return dict(fitted.bind(given).columns(given.logits, proba=proba))


def _warn_of_few_rows(fitted: Calibrator, fewest: int) -> None:
    """Say that an estimate of accuracy, which a calibrator matches, is of no use here."""
    from wildcal._old.window import MatchedConfidence  # here: most calibrators read no window

    if isinstance(fitted, MatchedConfidence) and fitted.estimator_ is not None:
        warn_of_few_rows(fitted.name, fitted.estimator_.smallest_window, fewest)


def _check_window(fitted: Calibrator, window: int | str | None) -> None:
    if "window" in fitted.reads:
        _say_of_the_window(fitted, window)
    elif window is not None:
        raise click.UsageError(f"--window is for window; {fitted.name} reads each row alone.")


def _say_of_the_window(fitted: Calibrator, window: int | str | None) -> None:
    if window is None and isinstance(fitted, Bridged):
        say("note: all rows are one window; --window ROWS takes so many at a time.")
    elif window is None:
        say("note: rows are read as clean ones; with --window they are each other's context.")
