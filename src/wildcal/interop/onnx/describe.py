"""What a model takes and gives, in words."""

from onnx import ModelProto, TensorProto


def interface(model: ModelProto) -> list[str]:
    """Return the inputs and outputs of a model, a line each."""
    lines = []
    initialized = {tensor.name for tensor in model.graph.initializer}
    for word, values in (("input", model.graph.input), ("output", model.graph.output)):
        for value in (value for value in values if value.name not in initialized):
            kind = value.type.tensor_type
            shape = " x ".join(str(d.dim_value or d.dim_param or "?") for d in kind.shape.dim)
            dtype = TensorProto.DataType.Name(kind.elem_type).lower()
            lines.append(f"{word:6}  {value.name:26}  {dtype:8}  {shape}".rstrip())
    return lines


def opset_of(model: ModelProto) -> int:
    """Return the version of ONNX's own operators that a model uses; 0 if it uses none."""
    return next((int(o.version) for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
