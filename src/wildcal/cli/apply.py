"""`wildcal apply`: calibrated probabilities for new logits."""

from pathlib import Path
from typing import Any

import click

from wildcal.cli.fit import with_densities
from wildcal.cli.options import PATH, densities_option, window_option
from wildcal.cli.output import progress_bar, say
from wildcal.core.calibrator import Calibrator
from wildcal.io import load, read_table, write_result
from wildcal.io.tables import check_result


@click.command(no_args_is_help=True)
@click.argument("calibrator", type=PATH)
@click.argument("logits", type=PATH)
@click.option("-o", "--output", type=PATH, required=True, help="Result: .npz, .csv or .npy.")
@click.option("--confidence-only", is_flag=True, help="Leave out the probability matrix.")
@densities_option
@window_option
def apply(
    calibrator: Path,
    logits: Path,
    output: Path,
    confidence_only: bool,
    densities: Path | None,
    window: bool,
) -> None:
    """Apply a saved CALIBRATOR to LOGITS.

    The result has `proba` (n x K), `confidence` and `pred` (the class of the raw logits), and where
    the method has one, the `temperature` of each row. A .npy holds the first of these alone. The
    method dac needs an array `densities` besides the logits.

    \b
    Example:
      wildcal apply energy.json test.npz -o proba.npz
      wildcal apply context.json batch.npz --window -o proba.npz
      wildcal apply dac.json test.npy --densities distances.npy -o proba.npz
    """
    check_result(output)  # before the work, not after it
    fitted = load(calibrator)
    table = with_densities(read_table(logits), densities, fitted)
    reads_context = "window" in fitted.reads
    if window and not reads_context:
        raise click.UsageError(f"--window is for context; {fitted.name} reads each row alone.")
    if reads_context:
        _say_of_the_window(fitted, window)
    z, s = table.logits, table.densities
    beside: dict[str, Any] = {"distances": s} if "distances" in fitted.reads else {}
    with progress_bar(f"Applying {fitted.title}"):
        if window:
            beside["context"] = fitted.context(z, **beside)
        arrays = fitted.apply(z, proba=not confidence_only, **beside)
    if table.y is not None:
        arrays["y"] = table.y
    write_result(output, arrays)
    confidence = arrays["confidence"]
    say(f"Wrote {len(confidence):,} rows to {output}; mean confidence {confidence.mean():.2%}.")


def _say_of_the_window(fitted: Calibrator, window: bool) -> None:
    if not fitted.uses_window:
        say("note: this calibrator learnt no context, so each row is read alone.")
    elif not window:
        say("note: rows are read as clean ones; with --window they are each other's context.")
