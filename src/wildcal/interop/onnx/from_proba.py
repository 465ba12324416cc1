"""Logits of a network that gives probabilities alone: log(max(p, floor)), as it was fitted on."""

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from wildcal.core.convert import check_floor
from wildcal.interop.onnx.build import FLOAT_TYPES

_FLOAT32 = TensorProto.FLOAT


def add_logits(model: ModelProto, name: str | None, floor: float, prefix: str) -> str:
    """Add log(max(p, floor)) behind the probabilities of a network; return the name of the result.

    Parameters
    ----------
    name
        The output with the probabilities. None: the only float matrix among the outputs, such as
        `probabilities` of a converted scikit-learn model.
    floor
        What a probability of zero was read as when the calibrator was fitted.
    """
    check_floor(floor)
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
    kind = outputs[name]
    logits, wide, above, least = (
        f"{prefix}{word}" for word in ("log_proba", "proba_float32", "proba_above", "floor")
    )
    tiny = max(floor, float(np.finfo(np.float32).tiny))
    model.graph.initializer.append(numpy_helper.from_array(np.array(tiny, np.float32), least))
    model.graph.node.extend(
        [
            helper.make_node("Cast", [name], [wide], to=_FLOAT32),
            helper.make_node("Max", [wide, least], [above]),
            helper.make_node("Log", [above], [logits]),
        ]
    )
    dims = [d.dim_value or d.dim_param or None for d in kind.shape.dim]
    shape = dims if kind.HasField("shape") else None
    model.graph.value_info.append(helper.make_tensor_value_info(logits, _FLOAT32, shape))
    return logits
