"""Rows into shards, a piece at a time: each written under another name, then renamed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.blocks import map_pieces, partly
from wildcal._old.core.calibrator import Calibrator
from wildcal._old.core.rows import own_column
from wildcal._old.io.files import replacing

_DIGITS = 6
_SHARD_BYTES = 64 << 20


class ShardWriter:
    """Collects arrays until there are enough for a shard of about so many bytes."""

    def __init__(self, folder: Path, shard_bytes: int = _SHARD_BYTES) -> None:
        self.folder, self.shard_bytes = folder, shard_bytes
        self.paths: list[str] = []
        self._waiting: list[dict[str, NDArray[Any]]] = []
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take in some rows: arrays of one length by name."""
        self._waiting.append(arrays)
        if sum(a.nbytes for waiting in self._waiting for a in waiting.values()) >= self.shard_bytes:
            self._write()

    def finish(self) -> list[str]:
        """Write what is left, and return the paths of all shards."""
        if self._waiting:
            self._write()
        return self.paths

    def _write(self) -> None:
        joined = {
            name: np.concatenate([waiting[name] for waiting in self._waiting])
            for name in self._waiting[0]
        }
        self.paths.append(_save(self.folder, len(self.paths), joined))
        self._waiting = []


def _save(folder: Path, number: int, arrays: dict[str, NDArray[Any]]) -> str:
    path = folder / f"{number:0{_DIGITS}d}.npz"
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
    return str(path)


def write_shards(
    calibrator: Calibrator,
    source: Any,
    folder: str | Path,
    *,
    context: Any = None,
    proba: bool = True,
    shard_bytes: int = _SHARD_BYTES,
) -> list[str]:
    """Write what a fitted calibrator says of a source to shards, in memory of one of them.

    They are .npz files named by their number, with `proba` unless it is left out, `confidence`,
    `pred`, where there is one the `temperature`, and the labels, if the source has any. A shard
    that is there already is written anew. On a cluster its workers write them, so they must see the
    folder; the bytes are the same. Returns their paths.
    """
    folder = Path(folder).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    calibrator.check_is_fitted()
    k = source.shape[1]
    rows = max(1, shard_bytes // (np.dtype(source.dtype).itemsize * (k if proba else 1) + 16))
    y = own_column(source, "y")
    distances = own_column(source, "distances") if "distances" in calibrator.reads else None

    def write(piece: slice) -> list[str]:
        beside = None if distances is None else distances[piece]
        found = calibrator.apply(source[piece], context=context, proba=proba, distances=beside)
        if y is not None:
            found["y"] = y[piece]
        return [_save(folder, piece.start // rows, found)]

    paths: list[str] = map_pieces(source, write, rows, _chained)
    return paths


@partly
def _chained(parts: Sequence[list[str]]) -> list[str]:
    return [path for part in parts for path in part]
