"""Shards whose arrays lie in the file as they do in memory: .npy, .npz and .safetensors."""

import json
import struct
import zipfile
from math import prod
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
from numpy.lib import format as npy

from wildcal._old.core.errors import FileFormatError
from wildcal._old.io.sources.part import ROLES, Part, Plain, Stamp
from wildcal._old.io.tables.naming import LOGIT_NAMES, ROLE_NAMES
from wildcal._old.io.tables.source import damage
from wildcal._old.io.tables.tensors import TYPES

_NAMES: Final = {"logits": LOGIT_NAMES, **ROLE_NAMES}
# The header of a member of a .zip: fixed bytes, then its name and an extra field.
_LOCAL: Final = struct.Struct("<26xHH")
_LARGEST_HEADER: Final = 100 << 20
Found = dict[str, tuple[Plain, tuple[int, ...]]]


def plain_part(path: str, ending: str, stamp: Stamp) -> Part | None:
    """Return where the arrays of a shard are; None where it has to be read whole."""
    with damage(path, ending, "Was it cut short?"), Path(path).open("rb") as file:
        found = {".npy": _npy, ".npz": _npz, ".safetensors": _safetensors}[ending](file, path)
    if found is None:
        return None
    named = _by_role(found, path)
    if "logits" not in named:
        raise FileFormatError(
            f"{path} has no logits: it holds {', '.join(found)}. Call the array logits."
        )
    logits, shape = named["logits"]
    if len(shape) != 2:
        raise FileFormatError(f"{path}: logits must have shape (rows, classes), got {shape}.")
    for role, (plain, size) in named.items():
        if size[:1] != shape[:1]:
            raise FileFormatError(
                f"{path}: {role} must have a value for each of {shape[0]} rows, got {size}."
            )
        whole = Path(plain.path).stat().st_size
        if plain.offset + prod(size) * np.dtype(plain.dtype).itemsize > whole:
            raise FileFormatError(f"cannot read the shard {plain.path}: it was cut short.")
    dtype = "<f4" if logits.upper_half else logits.dtype
    roles = tuple(role for role in ROLES if role in named)
    arrays = {role: plain for role, (plain, _) in named.items()}
    hashed = stamp.sha256 is not None
    beside = {
        role: Stamp.of(plain.path, hashed=hashed)
        for role, plain in arrays.items()
        if plain.path != path
    }
    return Part(path, shape[0], shape[1], dtype, roles, stamp, arrays, beside=beside)


def _by_role(found: Found, path: str) -> Found:
    named: Found = {}
    for role in ROLES:
        mine = [name for name in found if name.lower() in _NAMES[role]]
        if len(mine) > 1:
            raise FileFormatError(f"{path} has several arrays of {role}: {', '.join(mine)}.")
        if mine:
            named[role] = found[mine[0]]
    return named


def _npy(file: IO[bytes], path: str) -> Found | None:
    """Return the one array, and those in files beside it: NAME.y.npy, NAME.weight.npy, ..."""
    first = _array(file, path)
    if first is None:
        return None
    found = {"logits": first}
    for role in ROLES[1:]:
        beside = Path(path).with_suffix(f".{role}.npy")
        if beside.exists():
            with damage(str(beside), ".npy", "Was it cut short?"), beside.open("rb") as other:
                column = _array(other, str(beside))
            if column is None:
                raise FileFormatError(f"cannot read the shard {beside}: save its rows in C order.")
            found[role] = column
    return found


def _array(file: IO[bytes], path: str) -> tuple[Plain, tuple[int, ...]] | None:
    version = npy.read_magic(file)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, column_major, dtype = read(file)
    if dtype.hasobject:
        raise FileFormatError(f"cannot read {path}: it holds Python objects. Save plain numbers.")
    if column_major and len(shape) > 1:
        return None
    width = prod(shape[1:]) if len(shape) > 1 else 0
    return Plain(path, file.tell(), dtype.str, width), tuple(shape)


def _npz(file: IO[bytes], path: str) -> Found | None:
    found: Found = {}
    for info in zipfile.ZipFile(file).infolist():
        name = info.filename.removesuffix(".npy")
        if name.lower() not in {n for names in _NAMES.values() for n in names}:
            continue
        if info.compress_type != zipfile.ZIP_STORED:
            return None
        file.seek(info.header_offset)
        name_length, extra = _LOCAL.unpack(file.read(_LOCAL.size))
        file.seek(info.header_offset + _LOCAL.size + name_length + extra)
        array = _array(file, path)
        if array is None or array[1] == ():
            return None
        found[name] = array
    return found


def _safetensors(file: IO[bytes], path: str) -> Found | None:
    (size,) = struct.unpack("<Q", file.read(8))
    if size > _LARGEST_HEADER:
        raise FileFormatError(f"cannot read {path}: not a whole .safetensors file.")
    header: dict[str, Any] = json.loads(file.read(size))
    found: Found = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        half = entry["dtype"] == "BF16"
        if not half and entry["dtype"] not in TYPES:
            continue  # numbers of a kind that NumPy has not, under a name that is not asked for
        shape = tuple(entry["shape"])
        width = prod(shape[1:]) if len(shape) > 1 else 0
        dtype = "<u2" if half else TYPES[entry["dtype"]]
        plain = Plain(path, 8 + size + entry["data_offsets"][0], dtype, width, half)
        found[name] = (plain, shape)
    return found
