"""Features of ONNX networks: names of inner tensors, and a copy with these as outputs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from wildcal.core.exceptions import FileFormatError, InputError, MissingExtraError
from wildcal.vision.features import LOGITS, check_layer

try:
    import onnx
except ImportError as error:
    raise MissingExtraError(
        'Features of ONNX networks need onnx. Install it with: pip install "wildcal[onnx]"'
    ) from error

# What may end a block of a convolutional network; other tensors with four axes are no pictures.
_PICTURES: Final = {
    *("Conv", "BatchNormalization", "Add", "Concat", "MaxPool", "AveragePool"),
    *("Relu", "LeakyRelu", "Elu", "Selu", "Clip", "HardSwish", "PRelu", "Gelu", "Mish"),
}
_THROUGH: Final = {"Add", "Identity", "Cast", "Dropout"}


def with_outputs(path: Path, names: Sequence[str]) -> bytes:
    """Return the network with some of its inner tensors as further outputs."""
    model = _load(path, weights=True)
    inner = [name for node in model.graph.node for name in node.output if name]
    for name in names:
        check_layer(name, inner)
    known = {output.name for output in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names if n not in known)
    content: bytes = model.SerializeToString()
    return content


def default_tensors(path: Path, side: int, *, channels_last: bool, logits: str) -> tuple[str, ...]:
    """Return the last picture at each resolution, and what the last linear layer reads.

    Parameters
    ----------
    path
        The network.
    side
        Of the images, since a file may leave it open.
    channels_last
        Whether it takes (n, height, width, 3).
    logits
        Name of the output that is taken for the logits.
    """
    model = _load(path, weights=False)
    shape = model.graph.input[0].type.tensor_type.shape
    for axis in (1, 2) if channels_last else (2, 3):
        shape.dim[axis].dim_value = side
    inferred = onnx.shape_inference.infer_shapes(model)
    shapes = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in inferred.graph.value_info
    }
    last: dict[int, str] = {}
    for node in model.graph.node:  # in the order in which they run
        found = shapes.get(node.output[0], [])
        if node.op_type in _PICTURES and len(found) == 4 and found[2] == found[3] > 1:
            last[found[2]] = node.output[0]
    if len(last) < 2:
        raise InputError(
            f"layers must be given: {path} has no pictures of several resolutions.", "layers"
        )
    return *dict.fromkeys([*last.values(), *_before_last_linear(model, logits)]), LOGITS


def _load(path: Path, *, weights: bool) -> Any:
    try:
        return onnx.load(str(path), load_external_data=weights)
    except Exception as error:  # depends on which part of the file is damaged
        raise FileFormatError(f"cannot read {path} as an ONNX network: {error}") from error


def _before_last_linear(model: Any, logits: str) -> list[str]:
    """Return the tensor that is the input of the last linear layer, if any."""
    makers = {name: node for node in model.graph.node for name in node.output}
    node = makers.get(logits)
    while node is not None:
        made = [name for name in node.input if name in makers]
        if node.op_type in ("Gemm", "MatMul"):
            return made[:1]
        if node.op_type not in _THROUGH or len(made) != 1:
            return []
        node = makers[made[0]]
    return []
