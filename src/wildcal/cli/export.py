"""`wildcal export`: a saved calibrator as an ONNX file, alone or behind a network."""

from pathlib import Path
from typing import Final

import click

from wildcal.cli.options import PATH, quiet_option, refuse_same
from wildcal.cli.output import print_line, say
from wildcal.core.errors import FileFormatError
from wildcal.io import load_with_about

_TAKES: Final = {
    "proba": "The file takes probabilities; those below {floor:.3g} are read as that, as in fit.",
    "logprobs": "The calibrator was fitted on log probabilities; the file takes them as logits,"
    " gaps filled as by wildcal.logits_from_logprobs.",
    "score": "The calibrator was fitted on one score s for each row; the file takes the logits"
    " -s / 2 and s / 2, as by wildcal.logits_from_score.",
}
"""What to say of files whose calibrator was not fitted on logits."""


@click.command(no_args_is_help=True)
@click.argument("calibrator", type=PATH)
@click.option("-o", "--output", type=PATH, required=True, help="The file to write: .onnx.")
@click.option("--attach", "network", type=PATH, help="An ONNX network to stand behind.")
@click.option(
    "--logits-output",
    metavar="NAME",
    help="The output, or any value inside the network, with its logits. Default: the output called"
    " logits, or the only float matrix.",
)
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float16", "float64"]),
    help="Of the scores; float32 unless given. A network has its own.",
)
@click.option("--opset", type=int, help="Operator set; 17 unless given. A network has its own.")
@quiet_option
def export(
    calibrator: Path,
    output: Path,
    network: Path | None,
    logits_output: str | None,
    dtype: str | None,
    opset: int | None,
) -> None:
    """Write a saved CALIBRATOR as an ONNX file.

    The file takes logits and gives probabilities, confidence, energy and, where the method has one,
    the temperature of each row; of a calibrator that was fitted on probabilities it takes these, as
    the input proba. With --attach it is the network itself with these outputs added, named
    calibrated_probabilities and so on; a calibrator that was fitted on probabilities stands behind
    the output that has them, as converted scikit-learn models do. Before it is written, ONNX
    Runtime and NumPy must agree on random rows.

    \b
    Example:
      wildcal export energy.json -o cal.onnx
      wildcal export energy.json -o calibrated.onnx --attach classifier.onnx --logits-output logits
    """
    refuse_same(output)
    if network is None and logits_output is not None:
        raise click.UsageError("--logits-output goes with --attach.")
    if network is not None and (dtype is not None or opset is not None):
        raise click.UsageError("--dtype and --opset are those of the network with --attach.")
    from wildcal.interop.maps import map_of
    from wildcal.interop.onnx.attach import PREFIX, attached
    from wildcal.interop.onnx.compare import compare
    from wildcal.interop.onnx.describe import interface, opset_of
    from wildcal.interop.onnx.export import PROBA, as_model
    from wildcal.interop.onnx.files import check_target, write
    from wildcal.interop.onnx.from_proba import LOG_PROBA
    from wildcal.interop.onnx.graph import DEFAULT_OPSET

    check_target(output)  # before the work, not after it
    fitted, about = load_with_about(calibrator)
    if about.kind == "proba" and about.floor is None:
        raise FileFormatError(
            f"{calibrator} does not say what probabilities of zero were read as. Fit it again, with"
            " `wildcal fit --input proba`."
        )
    if network is None:
        opset = DEFAULT_OPSET if opset is None else opset
        floor = about.floor
        model = as_model(map_of(fitted), dtype=dtype or "float32", opset=opset, floor=floor)
        names = {} if floor is None else {"logits": LOG_PROBA, "proba": PROBA}
        said = compare(model, fitted, **names)
        if about.kind in _TAKES:
            say(_TAKES[about.kind].format(floor=floor))
    else:
        model, logits, proba = attached(network, fitted, logits_output, floor=about.floor)
        say(f"Calibrating the value {proba or logits!r} of {network}.")
        said = compare(model, fitted, logits=logits, prefix=PREFIX, proba=proba)
    write(model, output)
    for line in interface(model):
        print_line(line)
    say(f"Wrote {output}, operator set {opset_of(model)}. {said}")
