"""`wildcal export`: write a calibrator as an ONNX file, alone or behind a network."""

from pathlib import Path

import click

from wildcal.cli import options as common
from wildcal.cli.output import check_output, say
from wildcal.cli.types import PATH


@click.command(no_args_is_help=True)
@click.argument("calibrator", type=PATH)
@common.output_option
@click.option("--attach", "classifier", type=PATH, help="An ONNX classifier to attach it to.")
@click.option(
    "--logits-output",
    metavar="NAME",
    help="The output of the classifier that the calibrator was fitted on. Default: the logits"
    " before a final softmax, or the only float matrix.",
)
def export(
    calibrator: Path, output: Path, classifier: Path | None, logits_output: str | None
) -> None:
    """Write a saved CALIBRATOR as an ONNX file.

    The file takes what the calibrator was fitted on (such as the input logits) and has the outputs
    probabilities and confidence. With --attach it is the classifier itself with the outputs
    calibrated_probabilities and calibrated_confidence. ONNX Runtime and NumPy must agree on random
    samples before the file is written.

    \b
    Example:
      wildcal export energy.json -o calibrator.onnx
      wildcal export energy.json -o calibrated.onnx --attach classifier.onnx
    """
    if classifier is None and logits_output is not None:
        raise click.UsageError("--logits-output goes with --attach.")
    check_output(output, suffixes=(".onnx",))
    from wildcal.interop import onnx

    fitted, _ = common.load_fitted(calibrator)
    if classifier is None:
        onnx.export(fitted, output)
        outputs = "probabilities" + ", confidence" * (fitted.input_ != "confidence")
        say(f"Wrote {output}: {', '.join((fitted.input_, *fitted.requires))} -> {outputs}.")
    else:
        value = onnx.attach(classifier, fitted, output, logits_output)
        say(f"Wrote {output}: {classifier} with a calibrator after {value!r}.")
