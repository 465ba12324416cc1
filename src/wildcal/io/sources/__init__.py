"""Rows past memory: shards, Zarr and Dask arrays, and batches, read piece by piece."""

from wildcal.io.sources.batches import from_batches
from wildcal.io.sources.collections import from_dask
from wildcal.io.sources.opening import open_rows, open_shards
from wildcal.io.sources.shards import Shards
from wildcal.io.sources.writing import write_shards
from wildcal.io.sources.zarr_group import open_zarr

__all__ = [
    "Shards",
    "from_batches",
    "from_dask",
    "open_rows",
    "open_shards",
    "open_zarr",
    "write_shards",
]
