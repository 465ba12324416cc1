"""Published image sets in other people's hands: CIFAR pickles, MATLAB files, arrays of CIFAR-C."""

import functools
import io
import pickle
import struct
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.campaign.attack import Attack, FindingError, Target
from benchmarks.campaign.mutants import broken_bytes

Rng = np.random.Generator


def _pixels(n: int) -> np.ndarray:
    return np.random.default_rng(2).integers(0, 256, (n, 3072), dtype=np.uint8)


def _pickle() -> bytes:
    names = [f"a_{i}.png" for i in range(12)]
    batch = {"data": _pixels(12), "labels": [*range(10), 3, 4], "filenames": names}
    return pickle.dumps({**batch, "batch_label": "one of five"}, protocol=2)


def _mat(compress: bool) -> bytes:
    from scipy.io import savemat

    file = io.BytesIO()
    pixels = _pixels(12).reshape(32, 32, 3, 12)
    savemat(file, {"X": pixels, "y": np.arange(1, 13)[:, None]}, do_compression=compress)
    return file.getvalue()


def _npy() -> bytes:
    file = io.BytesIO()
    np.save(file, _pixels(12).reshape(12, 32, 32, 3))
    return file.getvalue()


def _plain(value: Any, depth: int = 0) -> bool:
    """Return whether a value is made of what the restricted reader may build."""
    if isinstance(value, list | tuple):
        return depth > 50 or all(_plain(item, depth + 1) for item in value)
    if isinstance(value, dict):
        return depth > 50 or all(_plain(v, depth + 1) for v in (*value, *value.values()))
    return (
        value is None
        or isinstance(value, bool | int | bytes | str | np.ndarray)
        or (type(value).__module__ == "wildcal.vision.datasets.unpickle")
    )


def _read(kind: str, data: bytes) -> None:
    from wildcal.vision.datasets.mat import read_mat
    from wildcal.vision.datasets.npy import map_npy
    from wildcal.vision.datasets.unpickle import read_pickle

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(data)
        if kind == "pickle":
            found = list(read_pickle(path).values())
        else:
            found = list(read_mat(path, 1 << 22).values()) if kind == "mat" else [map_npy(path)]
        if not all(map(_plain, found)):
            raise FindingError("a value that no file may hold")


def _inside(rng: Rng) -> None:
    """Read a compressed part that was broken before it was compressed."""
    whole = functools.cache(_mat)(True)
    size = struct.unpack("<I", whole[132:136])[0]
    plain = zlib.decompress(whole[136 : 136 + size])
    packed = zlib.compress(broken_bytes(plain, rng))
    head = struct.pack("<II", 15, len(packed))
    _read("mat", whole[:128] + head + packed + whole[136 + size :])


WHOLE: dict[str, tuple[str, Callable[[], bytes]]] = {
    "cifar-pickle": ("pickle", _pickle),
    "mat": ("mat", lambda: _mat(False)),
    "mat-packed": ("mat", lambda: _mat(True)),
    "cifar-c-npy": ("npy", _npy),
}

ATTACKS = [
    Attack.on_bytes(
        f"files/{name}", Target(whole, functools.partial(_read, kind)), (ValueError, OSError)
    )
    for name, (kind, whole) in WHOLE.items()
]
ATTACKS.append(Attack("files/mat-inside", _inside, (ValueError,)))
