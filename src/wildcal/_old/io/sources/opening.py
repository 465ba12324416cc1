"""From a folder, a pattern or a list of files to a source of rows."""

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from wildcal._old.core.errors import FileFormatError
from wildcal._old.io.sources.part import ROLES, Part, Stamp
from wildcal._old.io.sources.plain_files import plain_part
from wildcal._old.io.sources.shards import Shards
from wildcal._old.io.sources.tables import table_parts

_PLAIN: Final = (".npy", ".npz", ".safetensors")
_TABLES: Final = (".parquet", ".arrow", ".feather")
_ENDINGS: Final = (*_PLAIN, *_TABLES)
_BESIDE: Final = tuple(f".{role}.npy" for role in ROLES[1:])


def open_shards(where: str | Path | Sequence[str | Path], *, verify: bool = False) -> Shards:
    """Return the rows of many files as one source, in the order of their names.

    Parameters
    ----------
    where
        A folder, a pattern such as ``logits/*.parquet``, or a list of files: .npy, .npz,
        .safetensors, .parquet, .arrow, .feather. Labels, weights, environments and distances are
        arrays or columns beside the logits, under their usual names; those of NAME.npy are in
        NAME.y.npy, NAME.weight.npy, NAME.environment.npy and NAME.distances.npy.
    verify
        Whether the SHA-256 of a file is compared too, in every pass; by default its size and time.
    """
    alone = isinstance(where, str | Path)
    files = _listed(str(where)) if alone else [str(path) for path in where]  # type: ignore[union-attr]
    parts = [part for path in files for part in _parts(path, verify)]
    return Shards(tuple(parts))


def open_rows(where: str | Path, *, verify: bool = False) -> Any:
    """Return the source at a place: shards, or a Zarr group or array."""
    path = Path(where)
    if path.suffix == ".zarr" or any((path / name).exists() for name in ("zarr.json", ".zgroup")):
        from wildcal._old.io.sources.zarr_group import open_zarr

        if verify:
            raise ValueError(f"{where} is a Zarr store: the content of shards alone is verified.")
        return open_zarr(path)
    return open_shards(where, verify=verify)


def is_sharded(where: str | Path) -> bool:
    """Return whether a path stands for a source: a folder or a pattern."""
    path = Path(where)
    return str(where) != "-" and (
        path.is_dir() or (not path.exists() and glob.has_magic(str(where)))
    )


def _listed(where: str) -> list[str]:
    if Path(where).is_dir():
        found = sorted(str(p) for p in Path(where).iterdir() if p.suffix in _ENDINGS)
    elif Path(where).exists():
        found = [where]
    else:
        found = sorted(glob.glob(where))  # noqa: PTH207  # the pattern may be absolute
    found = [path for path in found if not path.endswith(_BESIDE)]
    if not found:
        raise FileFormatError(
            f"{where} has no shards: there is no file that ends in {', '.join(_ENDINGS)}."
        )
    endings = {Path(path).suffix for path in found}
    if len(endings) > 1:
        raise FileFormatError(
            f"{where} has shards of several kinds, {', '.join(sorted(endings))}. Choose with a"
            f" pattern such as {where}/*{min(endings)}."
        )
    return found


def _parts(path: str, verify: bool) -> list[Part]:
    stamp = Stamp.of(path, hashed=verify)
    ending = Path(path).suffix
    if ending in _PLAIN:
        part = plain_part(path, ending, stamp)
        if part is not None:
            return [part] if part.n_rows else []
    return table_parts(path, ending, stamp)
