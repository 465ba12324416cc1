"""Batches, such as a loader gives, kept in shards so that they can be walked in a fixed order."""

import tempfile
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wildcal._old.io.sources.opening import open_shards
from wildcal._old.io.sources.shards import Shards
from wildcal._old.io.sources.writing import ShardWriter

_SHARD_BYTES: Final = 64 << 20


def from_batches(batches: Iterable[Any], *, folder: str | Path | None = None) -> Shards:
    """Return batches as a source; they are walked once, and kept on disk.

    A loader may shuffle, and a network is dear to run: so the order is that of the first walk, and
    the rows are read from shards from then on.

    Parameters
    ----------
    batches
        Logits, pairs (logits, y), or dicts of arrays by role: logits, y, weight, environment,
        distances. Tensors of torch will do.
    folder
        Where to keep the shards; without it they go when the source does.

    Examples
    --------
    >>> batches = [(np.zeros((2, 3)), np.array([0, 1])), (np.ones((1, 3)), np.array([2]))]
    >>> rows = from_batches(batches)
    >>> rows.shape, rows.y[:].tolist()
    ((3, 3), [0, 1, 2])
    """
    room = None if folder is not None else tempfile.TemporaryDirectory(prefix="wildcal-")
    writer = ShardWriter(Path(room.name if room is not None else str(folder)), _SHARD_BYTES)
    for batch in batches:
        writer.add(_arrays(batch))
    rows = open_shards(writer.finish())
    if room is not None:
        weakref.finalize(rows, room.cleanup)
    return rows


def _arrays(batch: Any) -> dict[str, NDArray[Any]]:
    if isinstance(batch, dict):
        named = batch
    elif isinstance(batch, tuple | list) and len(batch) == 2:
        named = {"logits": batch[0], "y": batch[1]}
    else:
        named = {"logits": batch}
    return {role: _array(values) for role, values in named.items() if values is not None}


def _array(values: Any) -> NDArray[Any]:
    if type(values).__module__.split(".")[0] == "torch":
        from wildcal._old.io.tables.tensors import from_torch

        return from_torch(values, "the batch")
    return np.asarray(values)
