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
) -> Parts:
    """Return the nodes that turn a value named `logits`, of an ONNX type, into the outputs.

    `prefix` stands before the names of inputs, outputs and all that is between them; `rows` is
    the number of rows, or what it is called.
    """
    dtype = working_type(element)
    ours = helper.np_dtype_to_tensor_dtype(dtype)
    graph = Graph(fitted, dtype, opset, f"{prefix}wildcal/")
    raw = np.dtype(helper.tensor_dtype_to_np_dtype(element))
    inputs = {name: graph.input(prefix + name, dtype) for name in fitted.reads}
    found = run(fitted, graph, graph.input(logits, raw), inputs)
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
        [describe(name, rows) for name in found],
    )
