"""Features of ONNX networks: a copy with inner tensors as outputs."""

from collections.abc import Sequence
from pathlib import Path

from wildcal.core.exceptions import FileFormatError, MissingExtraError
from wildcal.vision.features import check_layer

try:
    import onnx
except ImportError as error:
    raise MissingExtraError(
        'Features of ONNX networks need onnx. Install it with: pip install "wildcal[onnx]"'
    ) from error


def with_outputs(path: Path, names: Sequence[str]) -> bytes:
    """Return the network with some of its inner tensors as further outputs."""
    try:
        model = onnx.load(str(path))
    except Exception as error:  # depends on which part of the file is damaged
        raise FileFormatError(f"cannot read {path} as an ONNX network: {error}") from error
    inner = [name for node in model.graph.node for name in node.output if name]
    for name in names:
        check_layer(name, inner)
    known = {output.name for output in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names if n not in known)
    content: bytes = model.SerializeToString()
    return content
