"""Rows past memory: shards, Zarr and Dask arrays, and batches, read piece by piece."""

from wildcal._old.io.sources.batches import from_batches
from wildcal._old.io.sources.collections import from_dask
from wildcal._old.io.sources.opening import open_rows, open_shards
from wildcal._old.io.sources.shards import Shards
from wildcal._old.io.sources.writing import write_shards
from wildcal._old.io.sources.zarr_group import open_zarr

__all__ = [
    "Shards",
    "from_batches",
    "from_dask",
    "open_rows",
    "open_shards",
    "open_zarr",
    "write_shards",
]
