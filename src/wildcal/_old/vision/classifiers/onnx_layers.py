"""The tensors inside an ONNX network: which there are, and how to have them as outputs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wildcal._old.core.errors import FileFormatError, MissingExtraError
from wildcal._old.vision.features import near_names

try:
    import onnx
except ImportError as error:
    raise MissingExtraError(
        'Features of ONNX networks need onnx. Install it with: pip install "wildcal[onnx]"'
    ) from error

# What may end a block of a convolutional network. Others with four axes, such as the heads of an
# attention, are no pictures.
_PICTURES = {
    *("Conv", "BatchNormalization", "Add", "Concat", "MaxPool", "AveragePool"),
    *("Relu", "LeakyRelu", "Elu", "Selu", "Clip", "HardSwish", "PRelu", "Gelu", "Mish"),
}
_THROUGH = {"Add", "Identity", "Cast", "Dropout"}


def with_outputs(path: Path, names: Sequence[str]) -> bytes:
    """Return the network with some of its inner tensors as further outputs."""
    model = _load(path, weights=True)
    # Exporters name weights by nodes, too, which read nothing of the image.
    nodes = [node for node in model.graph.node if node.op_type not in ("Constant", "Identity")]
    there = [name for node in nodes for name in node.output if name]
    unknown = [name for name in names if name not in there]
    if unknown:
        raise ValueError(f"{path} has no tensor {unknown[0]!r}.{near_names(unknown[0], there)}")
    outputs = {output.name for output in model.graph.output}
    model.graph.output.extend(
        onnx.ValueInfoProto(name=name) for name in names if name not in outputs
    )
    try:
        content: bytes = model.SerializeToString()
    # The message format ends at 2 GB; which exception says so depends on its version.
    except Exception as error:
        raise ValueError(
            f"{path} is too large for its inner tensors to be read; use the torch module instead."
        ) from error
    return content


def default_tensors(path: Path, side: int, *, channels_last: bool, logits: str) -> tuple[str, ...]:
    """Return the last picture at each resolution, and what the last linear layer reads.

    Parameters
    ----------
    side
        Of the images, since a file may leave it open.
    logits
        The output that is taken for the logits.
    """
    model = _load(path, weights=False)
    axes = (1, 2) if channels_last else (2, 3)
    shape = model.graph.input[0].type.tensor_type.shape
    for axis in axes:
        shape.dim[axis].dim_value = side
    inferred = onnx.shape_inference.infer_shapes(model)
    shapes = {value.name: _shape(value) for value in inferred.graph.value_info}
    last: dict[int, str] = {}
    for node in model.graph.node:  # in the order in which they run
        found = shapes.get(node.output[0])
        if node.op_type in _PICTURES and found is not None and len(found) == 4:
            sides = (found[2], found[3])
            if sides[0] == sides[1] and sides[0] is not None and sides[0] > 1:
                last[sides[0]] = node.output[0]
    if len(last) < 2:
        raise ValueError(
            f"cannot tell the blocks of {path} by the shapes inside; name some of its tensors with"
            " layers=."
        )
    names = [*last.values(), *_before_last_linear(model, logits)]
    return tuple(dict.fromkeys(names))


def _load(path: Path, *, weights: bool) -> Any:
    try:
        return onnx.load(str(path), load_external_data=weights)
    # What is raised depends on which part of the file is damaged.
    except Exception as error:
        reason = " ".join(str(error).split())
        raise FileFormatError(f"cannot read {path} as an ONNX network: {reason}") from error


def _shape(value: Any) -> list[int | None]:
    """Return the lengths of the axes, None where they are open."""
    return [
        dim.dim_value if dim.HasField("dim_value") else None
        for dim in value.type.tensor_type.shape.dim
    ]


def _before_last_linear(model: Any, logits: str) -> list[str]:
    """Return the tensor that the linear layer behind the logits reads, if there is one."""
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
