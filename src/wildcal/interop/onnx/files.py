"""ONNX files: read with clear errors, written whole or not at all."""

from pathlib import Path

import onnx

from wildcal.core.errors import FileFormatError
from wildcal.io.files import check_writable, refuse_external_data, replacing


def check_target(path: str | Path) -> Path:
    """Return the path of a file to be written; raise before the work, not after it."""
    path = Path(path)
    if path.suffix != ".onnx":
        raise ValueError(f"the output must be a .onnx file, got {path.name}.")
    check_writable(path)
    return path


def read(path: str | Path) -> onnx.ModelProto:
    """Return the model in a file."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no network {path}.")
    refuse_external_data(path)
    try:
        model = onnx.load(path)
        onnx.checker.check_model(model)
    # Damage comes as errors of protobuf, of onnx and of Python, without a common base.
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise FileFormatError(f"cannot read {path} as an ONNX network: {reason:.300}") from error
    if not model.graph.output:
        raise FileFormatError(f"cannot read {path} as an ONNX network: it has no output.")
    return model


def write(model: onnx.ModelProto, path: Path) -> None:
    """Write a model."""
    with replacing(path) as temporary:
        onnx.save(model, temporary)
