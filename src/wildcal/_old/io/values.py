"""The values of a calibrator as JSON and back, each read as the kind that its field declares.

Numbers are written so that they read back bit for bit; long arrays as base64.
"""

import base64
import binascii
import sys
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.stored import Array, Either, Many, Nested, Plain, Row, Stored, Written
from wildcal._old.io.sealed import Json

# Longer arrays are stored as base64: nobody reads so many numbers, and it is smaller.
_READABLE_NUMBERS = 10_000
_DTYPES = ("float64", "float32", "int64")
_TYPES: dict[str, type] = {"integer": int, "text": str, "flag": bool, "nothing": type(None)}
# No count or seed needs more bits, and NumPy takes no more.
_LARGEST_INTEGER = 2**63 - 1

Rebuild: TypeAlias = Callable[[dict[str, Json], Nested], Any]
"""Returns the calibrator that a JSON object inside another stands for."""


def encode_array(array: NDArray[Any]) -> Json:
    """Return an array as plain JSON values."""
    if array.size <= _READABLE_NUMBERS:
        return {"dtype": array.dtype.name, "values": array.tolist()}
    little = array.astype(array.dtype.newbyteorder("<"))
    return {
        "dtype": array.dtype.name,
        "shape": list(array.shape),
        "base64": base64.b64encode(little.tobytes()).decode(),
    }


def decode(kind: Stored, value: Json, where: str, rebuild: Rebuild) -> Any:
    """Return a JSON value as the declared kind; raise ValueError where it is another."""
    match kind:
        case Plain("real") if isinstance(value, int | float) and not isinstance(value, bool):
            if abs(value) <= sys.float_info.max:  # so neither NaN nor infinity nor 10**400
                return float(value)
        case Plain("integer") if type(value) is int:
            if abs(value) <= _LARGEST_INTEGER:
                return value
        case Plain(name) if type(value) is _TYPES.get(name):
            return value
        case Array():
            return decode_array(value, where)
        case Nested() if isinstance(value, dict):
            return rebuild(value, kind)
        case Written() if isinstance(value, dict):
            return kind.read(value)
        case Either(kinds):
            for option in kinds:
                try:
                    return decode(option, value, where, rebuild)
                except ValueError:
                    continue
        case Row(kinds) if isinstance(value, list) and len(value) == len(kinds):
            pairs = zip(kinds, value, strict=True)
            return tuple(decode(of, item, where, rebuild) for of, item in pairs)
        case Many(of, container) if isinstance(value, list):
            return container(decode(of, item, where, rebuild) for item in value)
    raise ValueError(f"{where} is {value!r:.80}, which it cannot be")


def decode_array(value: Json, where: str) -> NDArray[Any]:
    """Return the array that `encode_array` described; raise ValueError for any other value."""
    if not isinstance(value, dict) or value.get("dtype") not in _DTYPES:
        raise ValueError(f"{where} is not an array of {', '.join(_DTYPES)}")
    dtype = np.dtype(value["dtype"])
    if "values" in value:
        array = _from_numbers(value["values"], dtype, where)
    else:
        array = _from_base64(value, dtype, where)
    if not np.isfinite(array).all():
        raise ValueError(f"{where} holds a number that is not finite")
    return array


def _from_numbers(values: Json, dtype: np.dtype[Any], where: str) -> NDArray[Any]:
    # NumPy would make an integer of 1.9 and of "1"; what stands in the file must be one already.
    items = np.array(values, object)
    allowed: tuple[type, ...] = (int,) if dtype.kind == "i" else (int, float)
    for item in items.flat:
        if type(item) not in allowed:
            raise ValueError(f"{where} holds {item!r:.80}, which is no {dtype.name}")
    try:
        with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused
            return items.astype(dtype)
    except OverflowError as error:
        raise ValueError(f"{where} holds a number too large for {dtype.name}") from error


def _from_base64(value: dict[str, Json], dtype: np.dtype[Any], where: str) -> NDArray[Any]:
    shape = value["shape"]
    if not isinstance(shape, list) or any(type(n) is not int or n < 0 for n in shape):
        raise ValueError(f"{where} has the shape {shape!r:.80}, which no array has")
    try:
        raw = base64.b64decode(value["base64"], validate=True)
    except binascii.Error as error:
        raise ValueError(f"{where} is not base64") from error
    return np.frombuffer(raw, dtype.newbyteorder("<")).astype(dtype).reshape(shape)
