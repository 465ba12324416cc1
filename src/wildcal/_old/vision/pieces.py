"""The images of a cell in pieces: what is prepared at once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from wildcal._old.vision.ahead import ahead
from wildcal._old.vision.batches import Pixels
from wildcal._old.vision.cells import Cell

# What is prepared while the network works on other images: enough to share the cost of a call.
_PIXELS_AHEAD: Final = 2_000_000
_MOST_AHEAD: Final = 512


@dataclass(frozen=True, slots=True)
class Piece:
    """Neighboring rows of a cell."""

    cell: Cell
    rows: slice


def pieces_of(cell: Cell, *, block: int, side: int) -> list[Piece]:
    """Return the pieces of a cell, each but the last a multiple of `block` rows."""
    n = len(cell.rows)
    size = max(1, min(_MOST_AHEAD, _PIXELS_AHEAD // side**2) // block) * block
    return [Piece(cell, slice(i, min(i + size, n))) for i in range(0, n, size)]


def pixels_of(pieces: Sequence[Piece], seed: int) -> Iterator[Pixels]:
    """Yield the images of each piece; the next are prepared while the network works on these."""
    return ahead(_pixels(pieces, seed))


def _pixels(pieces: Sequence[Piece], seed: int) -> Iterator[Pixels]:
    cell = None
    for piece in pieces:
        if piece.cell is not cell:
            cell, source = piece.cell, piece.cell.source()
        yield cell.pixels(source, cell.rows[piece.rows], seed)
