"""ONNX files: read with clear errors, written whole or not at all."""

from pathlib import Path
from typing import Final

import onnx

from wildcal.core.errors import FileFormatError
from wildcal.io.files import check_writable, replacing

# A protobuf message must stay below 2 GB; larger models keep their numbers in a file beside.
_LARGEST_MESSAGE: Final = 1_900_000_000
# Arrays from this many bytes on go there.
_LARGE_ARRAY: Final = 1024


def check_target(path: str | Path) -> Path:
    """Return the path of a file to be written; raise before the work, not after it."""
    path = Path(path)
    if path.suffix != ".onnx":
        raise ValueError(f"the output must be a .onnx file, got {path.name}.")
    check_writable(path)
    return path


def read(path: str | Path) -> onnx.ModelProto:
    """Return the model in a file, with the numbers it keeps beside it."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no network {path}.")
    try:
        model = onnx.load(path)
        check_model(model)
    # Damage comes as errors of protobuf, of onnx and of Python, without a common base.
    except Exception as error:
        reason = " ".join(str(error).split())
        raise FileFormatError(f"cannot read {path} as an ONNX network: {reason:.300}") from error
    if not model.graph.output:
        raise FileFormatError(f"cannot read {path} as an ONNX network: it has no output.")
    return model


def check_model(model: onnx.ModelProto) -> None:
    """Raise an onnx ValidationError if a model is not valid; one too large is taken as it is."""
    if is_small(model):
        onnx.checker.check_model(model)


def is_small(model: onnx.ModelProto) -> bool:
    """Return whether a model fits into one file."""
    return bool(model.ByteSize() < _LARGEST_MESSAGE)


def write(model: onnx.ModelProto, path: Path) -> None:
    """Write a model; one too large for a single file keeps its numbers in PATH.data."""
    if is_small(model):
        with replacing(path) as temporary:
            onnx.save(model, temporary)
        return
    beside = path.with_name(f"{path.name}.data")
    # The numbers first: a model never stands there without them.
    with replacing(path) as temporary, replacing(beside) as numbers:
        numbers.unlink()  # what is there would be added to
        onnx.save(
            model,
            temporary,
            save_as_external_data=True,
            location=numbers.name,
            size_threshold=_LARGE_ARRAY,
        )
        stored = onnx.load(temporary, load_external_data=False)
        for tensor in stored.graph.initializer:
            for entry in tensor.external_data:
                if entry.key == "location":
                    entry.value = beside.name
        onnx.save(stored, temporary)
