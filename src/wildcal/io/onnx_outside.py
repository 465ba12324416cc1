"""The files beside an ONNX file that hold its weights, found without the onnx package.

An ONNX file is a protobuf message: fields one after the other, each with its number, a kind and,
for messages and texts, a length. Only messages that can hold tensors are looked into.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from wildcal.core.errors import FileFormatError

LARGEST: Final = 64 << 30
"""Bytes of weights beside a network that are still read."""

LARGEST_MESSAGE: Final = 2 << 30
"""Bytes of an ONNX file itself: no message of protobuf is larger."""

_DEEPEST: Final = 64
"""Graphs inside graphs; protobuf itself reads 100 messages deep."""

# By the number of a field, what it holds (onnx.proto). A graph is in a node's attributes too.
_INSIDE: Final[dict[str, dict[int, str]]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {
        5: "tensor",
        6: "graph",
        10: "tensor",
        11: "graph",
        22: "sparse",
        23: "sparse",
    },
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "entry"},
}
_FIXED: Final = {1: 8, 5: 4}
"""Bytes of a value, by its kind."""


def outside_files(path: Path) -> list[Path]:
    """Return the files that a network keeps weights in; raise if one is not its own to read."""
    if (size := path.stat().st_size) > LARGEST_MESSAGE:
        raise FileFormatError(
            f"cannot read {path} as an ONNX network: it has {size:,} bytes, and none has more than"
            f" {LARGEST_MESSAGE:,}."
        )
    content, folder = memoryview(path.read_bytes()), path.parent.resolve()
    try:
        names = list(dict.fromkeys(_locations(content, "model")))
    except (IndexError, ValueError) as error:
        raise FileFormatError(f"cannot read {path} as an ONNX network: it is damaged.") from error
    found = [_its_own(path, folder, name) for name in names]
    return list(dict.fromkeys(beside for beside in found if beside is not None))


def _its_own(path: Path, folder: Path, name: str) -> Path | None:
    """Return a file of weights, None if it is not there; raise if it is none to be read."""
    wants = f"{path} wants weights from {name[-200:]!r}, which"
    try:
        beside = (folder / name).resolve()
        there, regular = beside.exists(), beside.is_file()
    except (OSError, ValueError) as error:
        raise FileFormatError(f"{wants} is no name of a file.") from error
    if not beside.is_relative_to(folder):
        raise FileFormatError(f"{wants} is outside its folder.")
    if there and not regular:
        raise FileFormatError(f"{wants} is no regular file.")
    if regular and (size := beside.stat().st_size) > LARGEST:
        raise FileFormatError(f"{wants} has {size:,} bytes; at most {LARGEST:,} are read.")
    return beside if regular else None


def _locations(message: memoryview, kind: str, depth: int = 0) -> Iterator[str]:
    """Yield the names of files in a message and in those inside it."""
    if depth > _DEEPEST:
        raise ValueError("too deep")
    if kind == "entry":
        fields = dict(_fields(message))  # of a field that comes twice, the last one counts
        if bytes(fields.get(1, b"")) == b"location":
            yield bytes(fields.get(2, b"")).decode("utf-8", "surrogateescape")
        return
    for number, value in _fields(message):
        if number in _INSIDE[kind]:
            yield from _locations(value, _INSIDE[kind][number], depth + 1)


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield the number and the bytes of each field that has a length."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == 0:
            _, at = _varint(message, at)
            continue
        length = _FIXED.get(kind, 0)
        if kind == 2:
            length, at = _varint(message, at)
        elif not length:
            raise ValueError("a kind of field that ONNX files have not")
        at += length
        if at > len(message):
            raise ValueError("cut short")
        if kind == 2:
            yield tag >> 3, message[at - length : at]


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """Return a number of up to ten bytes, seven bits in each, and where it ends.

    >>> _varint(memoryview(bytes([172, 2])), 0)
    (300, 2)
    """
    value = 0
    for i in range(10):
        byte = message[at + i]
        value |= (byte & 127) << 7 * i
        if byte < 128:
            return value, at + i + 1
    raise ValueError("a number without an end")
