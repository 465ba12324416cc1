"""The pickles of the CIFAR archives, read without `pickle`: nothing in them is imported or called.

The published files are protocol-2 pickles of one dictionary with lists of labels and names and one
array of bytes. The machine below knows the opcodes that such files consist of and the names that
they mention, and builds plain values only. A pickle that holds anything else is refused. Memory
stays within a small multiple of the file: no opcode can ask for more bytes than the file has.
"""

import codecs
import math
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.errors import FileFormatError
from wildcal._old.vision.datasets.places import check_size

# The largest published file, train of CIFAR-100, has 155 MB, or 222 MB if Python 3 wrote it.
LARGEST_FILE = 400_000_000
# That file takes half a million steps; a step makes a few dozen bytes of Python objects.
_MOST_STEPS = 2_000_000
_PIECE = 1 << 20

Value: TypeAlias = Any


class _Refused(ValueError):
    """A pickle that is not like the published ones; the message is half a sentence."""


class _Name(Enum):
    """What a file may refer to by name; these stand for the functions, they do not call them."""

    ENCODE = "_codecs.encode"
    RECONSTRUCT = "numpy._core.multiarray._reconstruct"
    RECONSTRUCT_OLD = "numpy.core.multiarray._reconstruct"
    NDARRAY = "numpy.ndarray"
    DTYPE = "numpy.dtype"


class _Bytes:
    """The dtype uint8."""

    __slots__ = ()


class _Array:
    """An array that is announced first and filled later."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values: NDArray[np.uint8] = np.empty(0, np.uint8)


def read_pickle(path: Path) -> dict[str, Value]:
    """Return the dictionary in a file: lists, integers, bytes and uint8 arrays by their names.

    Text comes back as its latin-1 bytes, whether Python 2 or 3 wrote it.
    """
    check_size(path, LARGEST_FILE)
    try:
        return _Machine(path.read_bytes()).run()
    except (ValueError, IndexError, KeyError, TypeError) as error:
        reason = str(error) if isinstance(error, _Refused) else "its parts do not fit together"
        raise FileFormatError(
            f"cannot read {path}: {reason}. Unpack the published archive again."
        ) from error


class _Machine:
    """A stack machine for the opcodes of the published files."""

    def __init__(self, data: bytes) -> None:
        if data[:2] != b"\x80\x02":
            raise _Refused("it is not a pickle of protocol 2")
        self.data = memoryview(data)
        self.at = 2
        self.stack: list[Value] = []
        self.marks: list[int] = []
        self.memo: dict[int, Value] = {}

    def run(self) -> dict[str, Value]:
        for _ in range(_MOST_STEPS):
            code = self.take(1)[0]
            if code == ord("."):
                return self.result()
            step = _STEPS.get(code)
            if step is None:
                raise _Refused(
                    f"it uses pickle opcode 0x{code:02x} at byte {self.at - 1},"
                    " which the published files do not"
                )
            step(self)
        raise _Refused(f"it takes more than {_MOST_STEPS:,} steps, far more than published files")

    def result(self) -> dict[str, Value]:
        (content,) = self.stack
        if not isinstance(content, dict) or self.at != len(self.data):
            raise _Refused("it does not hold one dictionary")
        return {
            key.decode("latin-1"): value.values if isinstance(value, _Array) else value
            for key, value in content.items()
        }

    def take(self, n: int) -> memoryview:
        piece = self.data[self.at : self.at + n]
        if len(piece) != n:
            raise _Refused("it is cut short")
        self.at += n
        return piece

    def number(self, width: int, signed: bool = False) -> int:
        return int.from_bytes(self.take(width), "little", signed=signed)

    def pop_to_mark(self) -> list[Value]:
        start = self.marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def mark(self) -> None:
        self.marks.append(len(self.stack))

    def put(self, width: int) -> None:
        self.memo[self.number(width)] = self.stack[-1]  # a dict, so a large number costs nothing

    def get(self, width: int) -> None:
        self.stack.append(self.memo[self.number(width)])

    def integer(self, width: int, signed: bool = False) -> None:
        self.stack.append(self.number(width, signed))

    def string(self, width: int) -> None:
        self.stack.append(bytes(self.take(self.number(width))))

    def text(self) -> None:
        # In pieces, because one wide character would make a whole str four times as large.
        view = self.take(self.number(4))
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            parts = [
                decoder.decode(view[i : i + _PIECE]).encode("latin-1")
                for i in range(0, len(view), _PIECE)
            ]
            decoder.decode(b"", final=True)
        except UnicodeError:
            raise _Refused("it holds text that is not latin-1") from None
        self.stack.append(b"".join(parts))

    def group(self, n: int) -> None:
        items = self.stack[-n:]
        if len(items) != n:
            raise _Refused("its stack is too short")
        del self.stack[-n:]
        self.stack.append(tuple(items))

    def append(self, items: list[Value]) -> None:
        target = self.stack[-1]
        if not isinstance(target, list):
            raise _Refused("it appends to what is no list")
        target.extend(items)

    def set_items(self, items: list[Value]) -> None:
        target, keys = self.stack[-1], items[::2]
        if not isinstance(target, dict):
            raise _Refused("it sets items of what is no dictionary")
        # Only bytes: hashing a deeply nested tuple would overflow the C stack.
        if not all(isinstance(key, bytes) for key in keys):
            raise _Refused("a key of its dictionary is no text")
        target.update(zip(keys, items[1::2], strict=True))

    def name(self) -> None:
        module, attribute = self.line(), self.line()
        try:
            self.stack.append(_Name(f"{module}.{attribute}"))
        except ValueError:
            raise _Refused(
                f"it refers to {f'{module}.{attribute}'!r:.80}, which the published files do not"
            ) from None

    def line(self) -> str:
        piece = bytes(self.data[self.at : self.at + 256])
        length = piece.index(b"\n")
        self.at += length + 1
        return piece[:length].decode("latin-1")

    def reduce(self) -> None:
        arguments, name = self.stack.pop(), self.stack.pop()
        if not isinstance(name, _Name) or not isinstance(arguments, tuple) or not arguments:
            raise _Refused("it calls what cannot be called")
        self.stack.append(_call(name, arguments))

    def build(self) -> None:
        state = self.stack.pop()
        target = self.stack[-1]
        if isinstance(target, _Array):
            target.values = _array(state)
        elif not isinstance(target, _Bytes):  # what a dtype of bytes is told adds nothing
            raise _Refused("it sets the state of what has none")


def _call(name: _Name, arguments: tuple[Value, ...]) -> Value:
    first = arguments[0]
    if name is _Name.ENCODE:
        if not isinstance(first, bytes) or arguments[1:] not in ((b"latin1",), (b"latin-1",)):
            raise _Refused("it encodes text, and not as latin-1")
        return first  # text is held as latin-1 from the start
    if name in (_Name.RECONSTRUCT, _Name.RECONSTRUCT_OLD) and first is _Name.NDARRAY:
        return _Array()
    if name is _Name.DTYPE:
        if not isinstance(first, bytes) or first not in (b"u1", b"uint8"):
            raise _Refused("it holds an array of another type than uint8")
        return _Bytes()
    raise _Refused("it makes an array in an unknown way")


def _array(state: Value) -> NDArray[np.uint8]:
    _version, shape, kind, by_columns, data = state
    if not isinstance(kind, _Bytes) or not isinstance(data, bytes):
        raise _Refused("it holds an array that is not made of bytes")
    whole = isinstance(shape, tuple) and len(shape) <= 4 and all(type(k) is int for k in shape)
    if not whole or min(shape, default=0) < 0 or math.prod(shape) != len(data):
        raise _Refused("it holds an array whose shape does not fit its data")
    return np.frombuffer(data, np.uint8).reshape(shape, order="F" if by_columns is True else "C")


_STEPS: dict[int, Callable[[_Machine], None]] = {
    ord("}"): lambda m: m.stack.append({}),
    ord("]"): lambda m: m.stack.append([]),
    ord("N"): lambda m: m.stack.append(None),
    0x88: lambda m: m.stack.append(True),
    0x89: lambda m: m.stack.append(False),
    ord("K"): lambda m: m.integer(1),
    ord("M"): lambda m: m.integer(2),
    ord("J"): lambda m: m.integer(4, signed=True),
    0x8A: lambda m: m.integer(m.number(1), signed=True),  # a Python 2 long
    ord("U"): lambda m: m.string(1),
    ord("T"): lambda m: m.string(4),
    ord("X"): _Machine.text,
    ord("q"): lambda m: m.put(1),
    ord("r"): lambda m: m.put(4),
    ord("h"): lambda m: m.get(1),
    ord("j"): lambda m: m.get(4),
    ord("("): _Machine.mark,
    ord("t"): lambda m: m.stack.append(tuple(m.pop_to_mark())),
    0x85: lambda m: m.group(1),
    0x86: lambda m: m.group(2),
    0x87: lambda m: m.group(3),
    ord("a"): lambda m: m.append([m.stack.pop()]),
    ord("e"): lambda m: m.append(m.pop_to_mark()),
    ord("s"): lambda m: m.set_items([m.stack.pop(-2), m.stack.pop()]),
    ord("u"): lambda m: m.set_items(m.pop_to_mark()),
    ord("c"): _Machine.name,
    ord("R"): _Machine.reduce,
    ord("b"): _Machine.build,
}
