"""Nodes, inputs and outputs of a calibrator, for a file of its own or for one to be added to."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, ValueInfoProto, helper

from wildcal.interop.maps import Map, run
from wildcal.interop.onnx.graph import OPSETS, Graph

LOGITS = "logits"
_FLOATS: dict[int, Any] = {
    TensorProto.FLOAT16: np.float32,
    TensorProto.BFLOAT16: np.float32,
    TensorProto.FLOAT: np.float32,
    TensorProto.DOUBLE: np.float64,
}
FLOAT_TYPES = tuple(_FLOATS)
# Logits whose type a network does not tell are cast, whatever they are.
_FLOATS[TensorProto.UNDEFINED] = np.float32
_EXACT = (TensorProto.FLOAT, TensorProto.DOUBLE)


@dataclass(frozen=True, slots=True)
class Parts:
    """What a calibrator adds to a graph."""

    nodes: list[NodeProto]
    initializers: list[TensorProto]
    inputs: list[ValueInfoProto]
    """Beside the logits."""
    outputs: list[ValueInfoProto]


def check_opset(opset: int, what: str) -> None:
    """Raise if graphs are not written for an operator set."""
    if (
        isinstance(opset, bool)
        or not isinstance(opset, int)
        or not (OPSETS[0] <= opset <= OPSETS[1])
    ):
        raise ValueError(
            f"{what} must be from {OPSETS[0]} to {OPSETS[1]}, got {opset}."
            " onnx.version_converter.convert_version changes that of a model."
        )


def working_type(element: int) -> np.dtype[Any]:
    """Return the precision in which logits of an ONNX type are worked on."""
    dtype: np.dtype[Any] = np.dtype(_FLOATS[element])
    return dtype


def build(
    fitted: Map,
    logits: str,
    element: int,
    *,
    opset: int,
    rows: str | int = "n",
    prefix: str = "",
    inside: bool = False,
    is_open: bool = False,
) -> Parts:
    """Return the nodes that turn a value named `logits`, of an ONNX type, into the outputs.

    Parameters
    ----------
    rows
        The number of rows, or what it is called.
    prefix
        Stands before the names of inputs, outputs and all that is between them.
    inside
        Whether other nodes make the logits. Half ones are then an output as well, in float32. For
        ONNX Runtime computes them in float32 and, where nobody looks, may hand them on before they
        are rounded: so one sees which numbers the outputs are made of.
    is_open
        Whether the number of classes is looked at when the graph runs, because it is not known.
    """
    dtype = working_type(element)
    ours = helper.np_dtype_to_tensor_dtype(dtype)
    graph = Graph(fitted, dtype, opset, f"{prefix}wildcal/")
    shown = [LOGITS] if inside and element not in _EXACT else []
    if shown:
        graph.nodes.append(helper.make_node("Cast", [logits], [prefix + LOGITS], to=ours))
        z = graph.input(prefix + LOGITS, dtype)
    else:
        z = graph.input(logits, np.dtype(helper.tensor_dtype_to_np_dtype(element)))
    inputs = {
        name: graph.matching_rows(graph.input(prefix + name, dtype), z, fitted.width(name) or 1)
        for name in fitted.reads
    }
    if is_open:
        z = graph.with_columns(z, fitted.n_classes)
    found = run(fitted, graph, z, inputs)
    for name, value in found.items():
        graph.output(value, prefix + name)

    def describe(name: str, length: str | int) -> ValueInfoProto:
        width = fitted.width(name)
        shape = [length] if width is None else [length, width]
        return helper.make_tensor_value_info(prefix + name, ours, shape)

    return Parts(
        graph.nodes,
        list(graph.initializers.values()),
        # One for all rows, or one for each of them.
        [describe(name, f"{prefix}{name}_rows") for name in fitted.reads],
        [describe(name, rows) for name in (*found, *shown)],
    )
