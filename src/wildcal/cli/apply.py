"""`wildcal apply`: calibrated probabilities for new logits."""

from pathlib import Path
from typing import Any

import click
from numpy.typing import NDArray

from wildcal.calibrators import ContextScaling
from wildcal.cli.options import PATH, window_option
from wildcal.cli.output import progress_bar, say
from wildcal.core.calibrator import TemperatureMap
from wildcal.io import load, read_table, write_result
from wildcal.io.tables import check_result


@click.command(no_args_is_help=True)
@click.argument("calibrator", type=PATH)
@click.argument("logits", type=PATH)
@click.option("-o", "--output", type=PATH, required=True, help="Result: .npz, .csv or .npy.")
@click.option("--confidence-only", is_flag=True, help="Leave out the probability matrix.")
@window_option
def apply(
    calibrator: Path, logits: Path, output: Path, confidence_only: bool, window: bool
) -> None:
    """Apply a saved CALIBRATOR to LOGITS.

    The result has `proba` (n x K), `confidence` and `pred` (the class of the raw logits), and where
    the method has one, the `temperature` of each row. A .npy holds the first of these alone.

    \b
    Example:
      wildcal apply energy.json test.npz -o proba.npz
      wildcal apply context.json batch.npz --window -o proba.npz
    """
    check_result(output)  # before the work, not after it
    fitted = load(calibrator)
    table = read_table(logits)
    if window and not isinstance(fitted, ContextScaling):
        raise click.UsageError(f"--window is for context; {fitted.name} reads each row alone.")
    if isinstance(fitted, ContextScaling):
        _say_of_the_window(fitted, window)
    arrays: dict[str, NDArray[Any]] = {}
    with progress_bar(f"Applying {fitted.title}"):
        z = table.logits
        around = (fitted.context(z),) if window and isinstance(fitted, ContextScaling) else ()
        if not confidence_only:
            arrays["proba"] = fitted.predict_proba(z, *around)
        arrays["confidence"] = fitted.confidence(z, *around)
        arrays["pred"] = fitted.predict(z)
        if isinstance(fitted, TemperatureMap):
            arrays["temperature"] = fitted.temperature(z, *around)
    if table.y is not None:
        arrays["y"] = table.y
    write_result(output, arrays)
    confidence = arrays["confidence"]
    say(f"Wrote {len(confidence):,} rows to {output}; mean confidence {confidence.mean():.2%}.")


def _say_of_the_window(fitted: ContextScaling, window: bool) -> None:
    if fitted.fallback_ is not None:
        say("note: this calibrator learnt no context, so each row is read alone.")
    elif not window:
        say("note: rows are read as clean ones; with --window they are each other's context.")
