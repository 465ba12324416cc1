"""ONNX files: read with clear errors, written whole or not at all."""

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import onnx
from onnx.external_data_helper import (
    ExternalDataInfo,
    load_external_data_for_model,
    uses_external_data,
)

from wildcal.core.errors import FileFormatError
from wildcal.io.files import check_writable, replacing
from wildcal.io.onnx_outside import outside_files

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
    outside_files(path)
    try:
        model = onnx.load(path, load_external_data=False)
        functions = (node for function in model.functions for node in function.node)
        for tensor in _tensors([*model.graph.node, *functions], model.graph):
            if uses_external_data(tensor):
                _check_size(tensor, path)
        load_external_data_for_model(model, str(path.parent))
        check_model(model)
    except FileFormatError:
        raise
    # Damage comes as errors of protobuf, of onnx and of Python, without a common base.
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise FileFormatError(f"cannot read {path} as an ONNX network: {reason:.300}") from error
    if not model.graph.output:
        raise FileFormatError(f"cannot read {path} as an ONNX network: it has no output.")
    return model


def _tensors(nodes: Iterable[Any], *graphs: Any) -> Iterator[Any]:
    """Yield the tensors of graphs, of nodes, and of the graphs inside these."""
    for graph in graphs:
        yield from graph.initializer
        yield from (t for s in graph.sparse_initializer for t in (s.values, s.indices))
    for attribute in (attribute for node in nodes for attribute in node.attribute):
        yield from (attribute.t, *attribute.tensors)
        for graph in (attribute.g, *attribute.graphs):
            yield from _tensors(graph.node, graph)


def _check_size(tensor: onnx.TensorProto, path: Path) -> None:
    """Raise if a tensor would be read from more bytes than it has numbers for."""
    stands = ExternalDataInfo(tensor)
    beside = path.parent / stands.location
    length = (beside.stat().st_size if beside.exists() else 0) - (stands.offset or 0)
    if stands.length is not None and stands.length > 0:  # else all that is left is read
        length = min(length, stands.length)
    item = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    if length > (needs := item * math.prod(tensor.dims)):
        raise FileFormatError(
            f"cannot read {path} as an ONNX network: tensor {tensor.name} needs {needs:,} bytes and"
            f" wants {length:,} of {stands.location[-200:]}."
        )


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
