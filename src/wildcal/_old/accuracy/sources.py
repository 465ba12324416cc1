"""Windows and tuning rows that are read from a source, and windows read in pieces."""

from collections.abc import Callable
from typing import Any

from wildcal._old.accuracy.rows import PIECE
from wildcal._old.accuracy.state import WindowState
from wildcal._old.core.arrays import Source
from wildcal._old.core.blocks import added, map_pieces
from wildcal._old.core.room import loaded_for
from wildcal._old.core.rows import Rows, is_source, own_column


def in_pieces(logits: Source, state: Callable[[slice], WindowState]) -> WindowState:
    """Return the states of pieces of a window added, in the order of the rows."""
    n, k = logits.shape
    step = max(1, PIECE // k)
    if n <= step and not is_source(logits):
        return state(slice(0, n))
    found: WindowState = map_pieces(logits, state, step, added)
    return found


def held(window: Any, who: str) -> Any:
    """Return the rows of a source as an array, if there is room for them; others as given."""
    return loaded_for(Rows(window), who).logits if is_source(window) else window


def column(logits: Any, given: Any, name: str) -> Any:
    """Return a column that was given, or that of a source, as an array."""
    found = own_column(logits, name) if given is None else given
    return found[:] if hasattr(found, "portable") else found
