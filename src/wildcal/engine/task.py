"""What a worker does: some groups of a walk."""

import pickle
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from numpy.typing import NDArray

from wildcal.core.blocks import Walk
from wildcal.core.errors import FileFormatError
from wildcal.core.parallel import use_threads
from wildcal.io.sources.collections import rows_here


@lru_cache(4)
def _walk(payload: bytes) -> Walk:
    walk: Walk = pickle.loads(payload)  # made by this very program, sent by Dask
    return walk


def do_groups(
    payload: bytes,
    numbers: Sequence[int],
    start: int = 0,
    pieces: Mapping[str, NDArray[Any]] | None = None,
) -> tuple[list[Any], int]:
    """Return what is left of some groups, and how many bytes that is."""
    walk = _walk(payload)
    found = {token: (start, piece) for token, piece in (pieces or {}).items()}
    try:
        with use_threads(1), rows_here(found):
            results = [walk.group(number) for number in numbers]
    except (FileFormatError, OSError) as error:
        raise FileFormatError(f"on the worker {_address()}: {error}") from error
    return results, len(pickle.dumps(results))


def keep(payload: bytes) -> bytes:
    """Return what was sent, so that it is a result: one that can be made again if it is lost."""
    return payload


def _address() -> str:
    from distributed import get_worker

    return str(get_worker().address)
