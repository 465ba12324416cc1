"""Rows into shards, a piece at a time: each written under another name, then renamed."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal.core.calibrator import Calibrator
from wildcal.core.rows import own_column
from wildcal.io.files import replacing

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
        path = self.folder / f"{len(self.paths):0{_DIGITS}d}.npz"
        joined = {
            name: np.concatenate([waiting[name] for waiting in self._waiting])
            for name in self._waiting[0]
        }
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.savez(file, **joined)  # type: ignore[arg-type]
        self.paths.append(str(path))
        self._waiting = []


def write_shards(
    calibrator: Calibrator,
    source: Any,
    folder: str | Path,
    *,
    proba: bool = True,
    shard_bytes: int = _SHARD_BYTES,
) -> list[str]:
    """Write what a fitted calibrator says of a source to shards, in memory of one of them.

    They are .npz files named by their number, with `proba` unless it is left out, `confidence`,
    `pred`, where there is one the `temperature`, and the labels, if the source has any. A shard
    that is there already is written anew. Returns their paths.
    """
    writer = ShardWriter(Path(folder), shard_bytes)
    n, k = source.shape
    rows = max(1, shard_bytes // (np.dtype(source.dtype).itemsize * (k if proba else 1) + 16))
    y, distances = own_column(source, "y"), own_column(source, "distances")
    for start in range(0, n, rows):
        piece = slice(start, start + rows)
        beside = None
        if distances is not None and "distances" in calibrator.reads:
            beside = distances[piece]
        found = calibrator.apply(source[piece], proba=proba, distances=beside)
        if y is not None:
            found["y"] = y[piece]
        writer.add(found)
    return writer.finish()
