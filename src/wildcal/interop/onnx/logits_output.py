"""Which value of a network holds its logits, and whether they are logits at all."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import onnx
from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

from wildcal.interop.onnx.build import FLOAT_TYPES, LOGITS

# What may stand between a softmax and an output without changing what the numbers are.
_PASSING: Final = {
    "Identity",
    "Cast",
    "Squeeze",
    "Unsqueeze",
    "Reshape",
    "Flatten",
    "Dropout",
    "Transpose",
}
_NORMALISING: Final = {
    "Softmax": "probabilities",
    "LogSoftmax": "log probabilities",
    "Sigmoid": "probabilities of independent classes",
    "Hardmax": "one-hot rows",
}
# Operators of classical models that end in a softmax of their own, if told so.
_TRANSFORMING: Final = {"LinearClassifier", "TreeEnsembleClassifier", "SVMClassifier"}

Makers = dict[str, NodeProto]
"""The node that makes each value."""


@dataclass(frozen=True, slots=True)
class LogitsValue:
    """The value that the calibrator is attached to."""

    name: str
    element: int
    """Its ONNX type."""
    rows: str | int
    """The number of rows, or what it is called."""


def find_logits(model: ModelProto, name: str | None, n_classes: int) -> LogitsValue:
    """Return the value with the logits; raise a ValueError where there is none of the right kind.

    Parameters
    ----------
    name
        An output, or any value inside the network. None: the output called `logits`, or the only
        one that is a float matrix.
    """
    known = {value.name: value for value in model.graph.output}
    if name is None:
        name = _default(list(known.values()))
    elif name not in known:
        inferred = onnx.shape_inference.infer_shapes(model).graph
        known |= {value.name: value for value in inferred.value_info}
        if name not in known:
            outputs = ", ".join(value.name for value in model.graph.output)
            raise ValueError(f"the network has no value {name!r}; its outputs are {outputs}.")
    _refuse_probabilities(model.graph, name)
    return _checked(known[name], n_classes)


def _default(outputs: list[ValueInfoProto]) -> str:
    names = [value.name for value in outputs]
    if LOGITS in names:
        return LOGITS
    matrices = [value.name for value in outputs if _is_matrix(value)]
    if len(matrices) == 1:
        return matrices[0]
    what = "none is" if not matrices else f"{len(matrices)} are"
    raise ValueError(
        f"cannot tell which output holds the logits: of {', '.join(names)}, {what} a float matrix."
        " Name it with logits_output (--logits-output)."
    )


def _is_matrix(value: ValueInfoProto) -> bool:
    kind = value.type.tensor_type
    rank_known = kind.HasField("shape")
    return kind.elem_type in FLOAT_TYPES and rank_known and len(kind.shape.dim) == 2


def _checked(value: ValueInfoProto, n_classes: int) -> LogitsValue:
    kind = value.type.tensor_type
    dims = [d.dim_value or d.dim_param or "?" for d in kind.shape.dim]
    if kind.elem_type not in FLOAT_TYPES:
        found = onnx.TensorProto.DataType.Name(kind.elem_type).lower()
        raise ValueError(f"{value.name} must hold floats, got {found}.")
    if kind.HasField("shape") and len(dims) != 2:
        raise ValueError(f"{value.name} must have shape (n, {n_classes}), got {tuple(dims)}.")
    if dims and isinstance(dims[1], int) and dims[1] != n_classes:
        raise ValueError(
            f"{value.name} has {dims[1]} classes, but the calibrator was fitted on {n_classes}."
        )
    rows = dims[0] if dims and dims[0] != "?" else "n"
    return LogitsValue(value.name, kind.elem_type, rows)


def _refuse_probabilities(graph: GraphProto, name: str) -> None:
    """Raise if a value comes from a softmax, and say which value could be used instead."""
    for node in _ancestors(graph, name):
        what, instead = _what_it_makes(graph, node)
        if what:
            hint = f" Use logits_output={instead!r} (--logits-output)." if instead else ""
            raise ValueError(
                f"{name} must hold logits, but it comes from the node {node.op_type}: these are"
                f" {what}, and the energy of a row is lost in them.{hint}"
            )


def _ancestors(graph: GraphProto, name: str) -> Iterator[NodeProto]:
    """Yield the node that makes a value and, through nodes that pass it on, those before it."""
    makers = {output: node for node in graph.node for output in node.output}
    while name in makers:
        node = makers.pop(name)  # so that a circle, which no valid graph has, would end too
        yield node
        if node.op_type not in _PASSING or not node.input:
            return
        name = node.input[0]


def _what_it_makes(graph: GraphProto, node: NodeProto) -> tuple[str | None, str | None]:
    """Return what kind of normalised numbers a node makes, if any, and what they are made of."""
    if node.op_type in _NORMALISING:
        return _NORMALISING[node.op_type], node.input[0]
    if node.op_type in _TRANSFORMING:
        words = [a.s.decode() for a in node.attribute if a.name == "post_transform"]
        if words and words[0] not in ("NONE", ""):
            return "probabilities", None
    makers = {output: other for other in graph.node for output in other.output}
    for part, total in _quotients(makers, node):
        # exp(x) / sum(exp(x)), as some exporters write a softmax.
        sums = _source(makers, total)
        if sums is not None and sums.op_type in ("ReduceSum", "ReduceL1") and sums.input[0] == part:
            power = makers.get(part)
            return "probabilities", power.input[0] if power and power.op_type == "Exp" else None
    return None, None


def _quotients(makers: Makers, node: NodeProto) -> Iterator[tuple[str, str]]:
    """Yield a and b where a node is a / b, or a times one over b."""
    if node.op_type == "Div":
        yield node.input[0], node.input[1]
    if node.op_type == "Mul":
        for part, other in (node.input, reversed(node.input)):
            inverse = _source(makers, other)
            if inverse is not None and inverse.op_type in ("Div", "Reciprocal"):
                yield part, inverse.input[-1]


def _source(makers: Makers, name: str) -> NodeProto | None:
    """Return the node that makes a value, not counting changes of type."""
    node = makers.get(name)
    while node is not None and node.op_type in ("Cast", "Identity"):
        node = makers.get(node.input[0])
    return node
