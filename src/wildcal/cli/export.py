"""`wildcal export`: a saved calibrator as an ONNX file, alone or behind a network."""

from pathlib import Path

import click

from wildcal.cli.options import PATH, quiet_option, refuse_same
from wildcal.cli.output import print_line, say
from wildcal.io import load_with_about


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
    help="Of the logits; float32 unless given. A network has its own.",
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
    the temperature of each row. With --attach it is the network itself with these outputs added,
    named calibrated_probabilities and so on; a calibrator that was fitted on probabilities stands
    behind the output that has them, as converted scikit-learn models do. Before it is written, ONNX
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
    from wildcal.interop.onnx.export import as_model
    from wildcal.interop.onnx.files import check_target, write
    from wildcal.interop.onnx.graph import DEFAULT_OPSET

    check_target(output)  # before the work, not after it
    fitted, about = load_with_about(calibrator)
    if network is None:
        opset = DEFAULT_OPSET if opset is None else opset
        model = as_model(map_of(fitted), dtype=dtype or "float32", opset=opset)
        said = compare(model, fitted)
    else:
        model, logits, proba = attached(network, fitted, logits_output, floor=about.floor)
        say(f"Calibrating the value {proba or logits!r} of {network}.")
        said = compare(model, fitted, logits=logits, prefix=PREFIX, proba=proba)
    write(model, output)
    for line in interface(model):
        print_line(line)
    say(f"Wrote {output}, operator set {opset_of(model)}. {said}")
