"""The images of a cell in pieces: what is prepared at once, and what a cluster does as one task."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from wildcal.vision.ahead import ahead
from wildcal.vision.batches import Pixels
from wildcal.vision.cells import Cell

# What is prepared while the network works on other images: enough to share the cost of a call.
_PIXELS_AHEAD: Final = 2_000_000
_MOST_AHEAD: Final = 512


@dataclass(frozen=True, slots=True)
class Piece:
    """Neighboring rows of a cell."""

    cell: Cell
    first: int
    last: int
    skip: int
    """How many rows at its beginning are only there because the network reads whole blocks."""

    @property
    def rows(self) -> slice:
        """Which of the cell's it reads."""
        return slice(self.first, self.last)


def pieces_of(cell: Cell, start: int, *, block: int, side: int) -> list[Piece]:
    """Return the pieces of a cell from a row on; none where no row is left.

    The network reads blocks of one size that begin at its multiples, the last one filled up. So
    the bits of a row do not depend on where a run began or how many rows there are.
    """
    n = len(cell.rows)
    if start == n:
        return []
    size = max(1, min(_MOST_AHEAD, _PIXELS_AHEAD // side**2) // block) * block
    return [
        Piece(cell, i, min(i + size, n), max(0, start - i))
        for i in range(start - start % block, n, size)
    ]


def pixels_of(pieces: Sequence[Piece], seed: int) -> Iterator[Pixels]:
    """Yield the images of each piece; the next are prepared while the network works on these."""
    return ahead(_pixels(pieces, seed))


def _pixels(pieces: Sequence[Piece], seed: int) -> Iterator[Pixels]:
    cell = None
    for piece in pieces:
        if piece.cell is not cell:
            cell, source = piece.cell, piece.cell.source()
        yield cell.pixels(source, cell.rows[piece.rows], seed)
