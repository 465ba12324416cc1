"""Tensors of the Open Inference Protocol: as numbers in JSON, or as bytes behind it."""

from math import prod
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wildcal._old.serve.refusal import Refusal, bad

TYPES: Final[dict[str, str]] = {
    "BOOL": "|b1",
    "INT64": "<i8",
    "FP16": "<f2",
    "FP32": "<f4",
    "FP64": "<f8",
}
"""What we send and read, in the byte order of the protocol; BF16 is read as well."""
_NAMES: Final = {np.dtype(code): name for name, code in TYPES.items()}
_DTYPES: Final = {name: np.dtype(code) for name, code in TYPES.items()}
_BYTES: Final = {"FP32": 4, "FP64": 8, "FP16": 2, "BF16": 2}
"""The types that inputs may have, and the bytes of a number."""
_LARGEST: Final = 1 << 40


def type_name(array: NDArray[Any]) -> str:
    """Return what the protocol calls the type of an array."""
    return _NAMES[array.dtype.newbyteorder("<")]


def read_tensor(name: str, entry: dict[str, Any], raw: memoryview | None) -> NDArray[Any]:
    """Return an input as an array of real numbers; raise a Refusal if it cannot be one.

    Parameters
    ----------
    name
        What messages call it.
    entry
        Its entry in the JSON part: datatype, shape, and data unless they are in `raw`.
    raw
        Its bytes, row after row, little endian.

    Examples
    --------
    >>> read_tensor("logits", {"datatype": "FP32", "shape": [1, 2], "data": [0.5, 1]}, None)
    array([[0.5, 1. ]], dtype=float32)
    """
    datatype, shape = entry.get("datatype"), _shape(name, entry.get("shape"))
    if not isinstance(datatype, str) or datatype not in _BYTES:
        raise bad(f"{name} must be of {', '.join(_BYTES)}, got datatype {datatype!r:.40}.")
    if raw is None:
        return _from_json(name, entry.get("data"), datatype, shape)
    if "data" in entry:
        raise bad(f"{name} has both data and binary_data_size; give one.")
    size = _BYTES[datatype] * prod(shape)
    if len(raw) != size:
        raise bad(f"{name} of {datatype} and shape {shape} must have {size} bytes, got {len(raw)}.")
    return _from_bytes(raw, datatype, shape)


class Raw(NamedTuple):
    """A tensor that lies in the bytes of a request: where, and what it is."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    start: int
    stop: int


def layout(entries: list[dict[str, Any]]) -> tuple[Raw, ...] | None:
    """Return where inputs are that are all bytes; None for others, and if anything is wrong."""
    found: list[Raw] = []
    for entry in entries:
        name, parameters, datatype = entry["name"], entry.get("parameters"), entry.get("datatype")
        try:
            shape = _shape(name, entry.get("shape"))
        except Refusal:
            return None
        if not isinstance(datatype, str) or datatype not in _BYTES:
            return None
        if "data" in entry or not isinstance(parameters, dict):
            return None
        start = found[-1].stop if found else 0
        size = _BYTES[datatype] * prod(shape)
        if parameters.get("binary_data_size") != size:
            return None
        found.append(Raw(name, datatype, shape, start, start + size))
    return tuple(found)


def read_raw(part: Raw, body: bytes, begin: int) -> NDArray[Any]:
    """Return a tensor whose place in the bytes from `begin` on is known to be right."""
    # A slice is a copy, and so lies where processors like numbers to lie.
    raw = body[begin + part.start : begin + part.stop]
    return _from_bytes(raw, part.datatype, part.shape)


def _from_bytes(raw: bytes | memoryview, datatype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    if datatype == "BF16":  # the upper half of a float32
        upper = np.frombuffer(raw, "<u2").astype("<u4")
        return (upper << 16).view("<f4").reshape(shape)
    return np.ndarray(shape, _DTYPES[datatype], raw)


def _shape(name: str, shape: Any) -> tuple[int, ...]:
    if (
        not isinstance(shape, list)
        or not 1 <= len(shape) <= 8
        or not all(type(side) is int and 0 <= side < _LARGEST for side in shape)
    ):
        raise bad(f"{name} must have a shape, a list of whole numbers, got {shape!r:.40}.")
    return tuple(shape)


def _from_json(name: str, data: Any, datatype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    try:
        array = np.array(data)
    except ValueError:  # lists of different lengths, or too deep
        array = np.array(None)
    # Not asked for floats above: NumPy would read the text "1" as the number.
    if not isinstance(data, list) or array.dtype.kind not in "iuf":
        raise bad(f"{name} must have data, a list of numbers, flat or nested as its shape.")
    if array.size != prod(shape) or (array.ndim > 1 and array.shape != shape):
        raise bad(f"{name} of shape {shape} must have {prod(shape)} numbers, got {array.shape}.")
    with np.errstate(over="ignore"):  # infinite, and refused as such
        return array.astype(TYPES.get(datatype, "<f4")).reshape(shape)


def write_json(name: str, array: NDArray[Any]) -> dict[str, Any]:
    """Return an output with its numbers, row after row."""
    return {**describe(name, array), "data": array.ravel().tolist()}


def write_binary(name: str, array: NDArray[Any]) -> tuple[dict[str, Any], bytes]:
    """Return an output whose numbers are bytes, and these."""
    raw = array.tobytes() if array.dtype.isnative else array.astype(_little(array)).tobytes()
    return {**describe(name, array), "parameters": {"binary_data_size": len(raw)}}, raw


def describe(name: str, array: NDArray[Any]) -> dict[str, Any]:
    """Return name, type and shape."""
    return {"name": name, "datatype": type_name(array), "shape": list(array.shape)}


def _little(array: NDArray[Any]) -> np.dtype[Any]:
    return array.dtype.newbyteorder("<")
