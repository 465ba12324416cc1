"""What a worker does: some groups of a walk, or one item of many."""

import pickle
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from numpy.typing import NDArray

from wildcal._old.core.errors import FileFormatError, WildcalError
from wildcal._old.core.parallel import use_threads
from wildcal._old.io.sources.collections import rows_here


@lru_cache(4)
def _loaded(payload: bytes) -> Any:
    return pickle.loads(payload)  # made by this very program, sent by Dask


def do_groups(
    payload: bytes,
    numbers: Sequence[int],
    start: int = 0,
    pieces: Mapping[str, NDArray[Any]] | None = None,
) -> tuple[list[Any], int]:
    """Return what is left of some groups, and how many bytes that is."""
    walk = _loaded(payload)
    found = {token: (start, piece) for token, piece in (pieces or {}).items()}
    try:
        with use_threads(1), rows_here(found):
            results = [walk.group(number) for number in numbers]
    except (FileFormatError, OSError) as error:
        raise FileFormatError(f"on the worker {_address()}: {error}") from error
    return results, len(pickle.dumps(results))


def do_item(payload: bytes, item: Any) -> tuple[Any, int]:
    """Return what a function makes of an item, and how many bytes went and came."""
    try:
        with use_threads(1):
            result = _loaded(payload)(item)
    except (WildcalError, OSError, ValueError) as error:
        raise FileFormatError(f"on the worker {_address()}: {error}") from error
    return result, len(pickle.dumps((item, result)))


def keep(payload: bytes) -> bytes:
    """Return what was sent, so that it is a result: one that can be made again if it is lost."""
    return payload


def _address() -> str:
    from distributed import get_worker

    return str(get_worker().address)
