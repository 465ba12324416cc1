"""Which value of a network holds its logits, and whether they are logits at all."""

from dataclasses import dataclass

import onnx
from onnx import ModelProto, TensorProto, ValueInfoProto

from wildcal.core.calibrator import Calibrator
from wildcal.interop.onnx.build import FLOAT_TYPES, LOGITS
from wildcal.interop.onnx.normalizing import Values


@dataclass(frozen=True, slots=True)
class LogitsValue:
    """The value that the calibrator is attached to."""

    name: str
    element: int
    """Its ONNX type; UNDEFINED where the network does not tell."""
    rows: str | int
    """The number of rows, or what it is called."""
    is_open: bool
    """Whether the number of classes is not known before the network runs."""


def find_logits(model: ModelProto, name: str | None, calibrator: Calibrator) -> LogitsValue:
    """Return the value with the logits; raise a ValueError where there is none of the right kind.

    Parameters
    ----------
    name
        An output, or any value inside the network. None: the output called `logits`, or the only
        one that is a float matrix and not a softmax.
    calibrator
        Tells the number of classes, and whether a constant may be missing from each row.
    """
    known, values = _known(model), Values(model.graph)
    if name is None:
        name = _default([known[value.name] for value in model.graph.output], values)
    elif name not in known:
        outputs = ", ".join(value.name for value in model.graph.output)
        raise ValueError(f"the network has no value {name!r}; its outputs are {outputs}.")
    _refuse_normalized(values, name, calibrator, known)
    return _checked(known[name], calibrator.n_classes_)


def _known(model: ModelProto) -> dict[str, ValueInfoProto]:
    """Return every value that a node makes, with what can be told of its type and shape."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    known = {name: ValueInfoProto(name=name) for node in graph.node for name in node.output if name}
    return known | {value.name: value for value in (*graph.value_info, *graph.output)}


def _default(outputs: list[ValueInfoProto], values: Values) -> str:
    names = [value.name for value in outputs]
    if LOGITS in names:
        return LOGITS
    matrices = [value.name for value in outputs if _is_matrix(value)]
    if len(matrices) == 1:
        return matrices[0]
    # Many networks give their scores and the softmax of them.
    raw = [name for name in matrices if values.normalized(name) is None]
    if len(raw) == 1:
        return raw[0]
    what = "none is" if not matrices else f"{len(matrices)} are"
    raise ValueError(
        f"cannot tell which output holds the logits: of {', '.join(names)}, {what} a float matrix."
        " Name it with logits_output=."
    )


def _is_matrix(value: ValueInfoProto) -> bool:
    kind = value.type.tensor_type
    rank_known = kind.HasField("shape")
    return kind.elem_type in FLOAT_TYPES and rank_known and len(kind.shape.dim) == 2


def _dims(value: ValueInfoProto) -> list[int | str]:
    return [d.dim_value or d.dim_param or "?" for d in value.type.tensor_type.shape.dim]


def _checked(value: ValueInfoProto, n_classes: int) -> LogitsValue:
    kind, dims = value.type.tensor_type, _dims(value)
    if kind.elem_type not in (*FLOAT_TYPES, TensorProto.UNDEFINED):
        found = TensorProto.DataType.Name(kind.elem_type).lower()
        raise ValueError(f"{value.name} must hold floats, got {found}.")
    if kind.HasField("shape") and len(dims) != 2:
        raise ValueError(f"{value.name} must have shape (n, {n_classes}), got {tuple(dims)}.")
    if dims and isinstance(dims[1], int) and dims[1] != n_classes:
        raise ValueError(
            f"{value.name} has {dims[1]} classes, but the calibrator was fitted on {n_classes}."
        )
    rows = dims[0] if dims and dims[0] != "?" else "n"
    is_open = not dims or dims[1] != n_classes
    return LogitsValue(value.name, kind.elem_type, rows, is_open)


def _refuse_normalized(
    values: Values, name: str, calibrator: Calibrator, known: dict[str, ValueInfoProto]
) -> None:
    """Raise if a value comes from a softmax, and say which value could be used instead."""
    found = values.normalized(name)
    if found is None or (found.is_shifted and calibrator.takes_log_proba):
        return
    instead = found.before if found.before in known else None
    if instead is not None:
        last = _dims(known[instead])[-1:]
        # Such as a softmax over more classes than are then handed on.
        if last and isinstance(last[0], int) and last[0] != calibrator.n_classes_:
            instead = None
    hint = f" Use logits_output={instead!r}." if instead else ""
    raise ValueError(
        f"{name} must hold logits, but it comes from the node {found.node}: these are"
        f" {found.what}, and the energy of a row is lost in them.{hint}"
    )
