"""Logits where there are probabilities alone: log(max(p, floor)), as a calibrator was fitted on."""

from typing import Any, Final

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from wildcal.core.convert import check_floor
from wildcal.interop.onnx.build import FLOAT_TYPES
from wildcal.interop.onnx.normalizing import PROBABILITIES, Values

LOG_PROBA: Final = "log_proba"
"""What the logits are called, behind the prefix of all that is added."""


def add_logits(model: ModelProto, name: str | None, floor: float, prefix: str) -> tuple[str, str]:
    """Add log(max(p, floor)) behind the probabilities of a network.

    Returns the name of the probabilities and that of the result. An output whose nodes tell that
    it is something else is a ValueError.

    Parameters
    ----------
    name
        The output with the probabilities. None: the only float matrix among the outputs, such as
        `probabilities` of a converted scikit-learn model.
    floor
        What a probability of zero was read as when the calibrator was fitted.
    """
    outputs = {value.name: value.type.tensor_type for value in model.graph.output}
    matrices = [
        output
        for output, kind in outputs.items()
        if kind.elem_type in FLOAT_TYPES
        and (not kind.HasField("shape") or len(kind.shape.dim) == 2)
    ]
    if name is None and len(matrices) != 1:
        raise ValueError(
            f"cannot tell which output holds the probabilities: of {', '.join(outputs)},"
            f" {len(matrices)} are a float matrix. Name it with logits_output=."
        )
    name = matrices[0] if name is None else name
    if name not in outputs:
        raise ValueError(f"the network has no output {name!r}; it has {', '.join(outputs)}.")
    _refuse_other_scores(model, name)
    kind = outputs[name]
    nodes, least, logits = log_nodes(name, floor, prefix, np.dtype(np.float32))
    model.graph.initializer.append(least)
    model.graph.node.extend(nodes)
    dims = [d.dim_value or d.dim_param or None for d in kind.shape.dim]
    shape = dims if kind.HasField("shape") else None
    model.graph.value_info.append(helper.make_tensor_value_info(logits, TensorProto.FLOAT, shape))
    return name, logits


def log_nodes(
    proba: str, floor: float, prefix: str, dtype: np.dtype[Any]
) -> tuple[list[NodeProto], TensorProto, str]:
    """Return the nodes of log(max(p, floor)), the number they read, and the name of the result."""
    check_floor(floor)
    logits, wide, above, least = (
        f"{prefix}{word}" for word in (LOG_PROBA, f"proba_{dtype.name}", "proba_above", "floor")
    )
    tiny = max(floor, float(np.finfo(dtype).tiny))
    nodes = [
        helper.make_node("Cast", [proba], [wide], to=helper.np_dtype_to_tensor_dtype(dtype)),
        helper.make_node("Max", [wide, least], [above]),
        helper.make_node("Log", [above], [logits]),
    ]
    return nodes, numpy_helper.from_array(np.array(tiny, dtype), least), logits


def _refuse_other_scores(model: ModelProto, name: str) -> None:
    found = Values(model.graph).normalized(name)
    if found is not None and found.what != PROBABILITIES:
        raise ValueError(
            f"{name} must hold probabilities, as the calibrator was fitted on them, but it comes"
            f" from the node {found.node}: these are {found.what}."
        )
