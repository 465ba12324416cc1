"""A calibrator at the end of a user's own ONNX network."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import onnx
from onnx import GraphProto, ModelProto, helper

from wildcal.core.calibrator import Calibrator
from wildcal.interop.maps import map_of
from wildcal.interop.onnx.build import build, check_opset
from wildcal.interop.onnx.compare import compare
from wildcal.interop.onnx.describe import opset_of
from wildcal.interop.onnx.files import check_target, read, write
from wildcal.interop.onnx.from_proba import add_logits
from wildcal.interop.onnx.logits_output import find_logits

PREFIX: Final = "calibrated_"


class Attached(NamedTuple):
    """A network with a calibrator behind it."""

    model: ModelProto
    logits: str
    """The value that the calibrator reads."""
    proba: str | None
    """The value with the probabilities that these logits are made of, where they are."""


def attach(
    classifier: str | Path,
    calibrator: Calibrator,
    path: str | Path,
    *,
    logits_output: str | None = None,
    prefix: str = PREFIX,
    floor: float | None = None,
    check: bool = True,
) -> None:
    """Write a network with a calibrator behind its logits.

    The file has the inputs and outputs of the network, and those of `export` as well, named
    `calibrated_probabilities`, `calibrated_confidence` and so on. Of a network with half-precision
    logits there is `calibrated_logits` too: the float32 numbers that the others are made of.

    Parameters
    ----------
    classifier
        An ONNX file of operator set 13 to 25.
    calibrator
        Fitted on the logits of this network.
    path
        A name that ends in .onnx.
    logits_output
        The output, or any value inside the network, that holds the logits. By default the output
        called `logits`, or the only one that is a float matrix. Probabilities are refused, and by
        methods that are not shift invariant log probabilities too.
    prefix
        Stands before the names of all that is added.
    floor
        For a network that gives probabilities alone, and a calibrator fitted on these: what a zero
        was read as. `logits_output` is then the output with the probabilities; logits are refused.
    check
        Run the new network on random inputs and compare it with NumPy, where ONNX Runtime is
        installed and the inputs can be made up. Where they differ, or the logits are probabilities
        after all, an error is raised and nothing is written.
    """
    path = check_target(path)
    made = attached(classifier, calibrator, logits_output, prefix, floor)
    if check:
        compare(made.model, calibrator, logits=made.logits, prefix=prefix, proba=made.proba)
    write(made.model, path)


def attached(
    classifier: str | Path,
    calibrator: Calibrator,
    logits_output: str | None = None,
    prefix: str = PREFIX,
    floor: float | None = None,
) -> Attached:
    """Return the network in a file with a calibrator behind its logits, and what these are."""
    fitted = map_of(calibrator)
    model = read(classifier)
    opset = opset_of(model)
    check_opset(opset, "the operator set of the network")
    proba = None
    if floor is not None:
        if not calibrator.takes_log_proba:
            raise ValueError(
                f"{calibrator.name} reads the energy of a row, which is lost in probabilities."
            )
        proba, logits_output = add_logits(model, logits_output, floor, prefix)
    logits = find_logits(model, logits_output, calibrator)
    parts = build(
        fitted,
        logits.name,
        logits.element,
        opset=opset,
        rows=logits.rows,
        prefix=prefix,
        inside=True,
        is_open=logits.is_open,
    )
    new = [value.name for value in (*parts.inputs, *parts.outputs)]
    new += [tensor.name for tensor in parts.initializers]
    new += [output for node in parts.nodes for output in node.output]
    taken = sorted(set(new) & set(_names(model.graph)))
    if taken:
        raise ValueError(
            f"the network already has a value {taken[0]!r}. Is a calibrator attached to it? Else"
            " give another prefix."
        )
    model.graph.node.extend(parts.nodes)
    model.graph.initializer.extend(parts.initializers)
    model.graph.input.extend(parts.inputs)
    model.graph.output.extend(parts.outputs)
    # A converted network may keep a version from before there were numbers that are no inputs.
    needed = helper.find_min_ir_version_for(list(model.opset_import), ignore_unknown=True)
    model.ir_version = max(model.ir_version, needed)
    onnx.checker.check_model(model)
    return Attached(model, logits.name, proba)


def _names(graph: GraphProto) -> Iterator[str]:
    """Yield every name in a graph and in the graphs inside it."""
    yield from (value.name for value in (*graph.input, *graph.initializer, *graph.output))
    for node in graph.node:
        yield from node.output
        for attribute in node.attribute:
            inner = (
                [attribute.g]
                if attribute.type == onnx.AttributeProto.GRAPH
                else list(attribute.graphs)
            )
            for one in inner:
                yield from _names(one)
