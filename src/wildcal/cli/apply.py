"""`wildcal apply`: calibrated probabilities for new logits."""

from pathlib import Path
from typing import Any

import click
from numpy.typing import NDArray

from wildcal.cli.options import PATH
from wildcal.cli.output import progress_bar, say
from wildcal.core.calibrator import TemperatureMap
from wildcal.io import load, read_table, write_result
from wildcal.io.tables import check_result


@click.command(no_args_is_help=True)
@click.argument("calibrator", type=PATH)
@click.argument("logits", type=PATH)
@click.option("-o", "--output", type=PATH, required=True, help="Result: .npz, .csv or .npy.")
@click.option("--confidence-only", is_flag=True, help="Leave out the probability matrix.")
def apply(calibrator: Path, logits: Path, output: Path, confidence_only: bool) -> None:
    """Apply a saved CALIBRATOR to LOGITS.

    The result has `proba` (n x K), `confidence` and `pred` (the class of the raw logits), and where
    the method has one, the `temperature` of each row. A .npy holds the first of these alone.

    \b
    Example:
      wildcal apply energy.json test.npz -o proba.npz
    """
    check_result(output)  # before the work, not after it
    fitted = load(calibrator)
    table = read_table(logits)
    arrays: dict[str, NDArray[Any]] = {}
    with progress_bar(f"Applying {fitted.title}"):
        if not confidence_only:
            arrays["proba"] = fitted.predict_proba(table.logits)
        arrays["confidence"] = fitted.confidence(table.logits)
        arrays["pred"] = fitted.predict(table.logits)
        if isinstance(fitted, TemperatureMap):
            arrays["temperature"] = fitted.temperature(table.logits)
    if table.y is not None:
        arrays["y"] = table.y
    write_result(output, arrays)
    confidence = arrays["confidence"]
    say(f"Wrote {len(confidence):,} rows to {output}; mean confidence {confidence.mean():.2%}.")
