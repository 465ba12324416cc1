"""The (probability, is it the label) pairs of a tuning set, walked over and never stored."""

from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import TypeAlias

import numpy as np

from wildcal.core.arrays import FloatArray, Labels, Logits, Source
from wildcal.core.blocks import joined, map_blocks
from wildcal.core.checks import row_slices
from wildcal.core.columns import PIECE_ROWS, in_memory, loaded
from wildcal.core.parallel import run_parts, thread_count, use_threads
from wildcal.core.span import span

# Large enough that looking up N ones in each sorted chunk is cheap beside sorting it, and no more
# than what a machine has room for, whatever N is.
CHUNK_ELEMENTS = 1 << 20
MOST_ELEMENTS = 1 << 23

# Between two thresholds this small a slope would overflow; nothing there is worth telling apart.
_NOTHING = 1e-290

Take: TypeAlias = Callable[[FloatArray, FloatArray | None, Lock], None]


def label_proba(logits: Source, y: Labels, temperature: float = 1.0) -> FloatArray:
    """Return softmax(z / T)_y for each row, the same bits as in the whole matrix."""
    beta = 1.0 / temperature
    found = map_blocks(logits, lambda b: b.steady_at_label(beta, y[b.rows]), joined)
    return _flushed(np.asarray(found))


def label_pieces(
    logits: Source, y: Labels, weight: FloatArray | None, temperature: float = 1.0
) -> Iterator[tuple[FloatArray, Labels, FloatArray | None]]:
    """Yield softmax(z / T)_y, labels and weights piece by piece; weight 0 is left out."""
    step = len(logits) if in_memory(logits) else PIECE_ROWS
    for start in range(0, len(logits), step):
        piece = (start, min(start + step, len(logits)))
        x = label_proba(span(logits, *piece), span(y, *piece), temperature)
        labels, w = loaded(span(y, *piece)), loaded(span(weight, *piece))
        if w is None or (w > 0).all():
            yield x, labels, w
        else:
            yield x[w > 0], labels[w > 0], w[w > 0]


def steady_proba(logits: Logits, temperature: float) -> FloatArray:
    """Return `Block.steady_softmax` at z / T: what tables are made of, and asked for."""
    beta, out = 1.0 / temperature, np.empty(logits.shape)
    map_blocks(logits, lambda block: block.steady_softmax(beta, out[block.rows]))
    return out


def _flushed(proba: FloatArray) -> FloatArray:
    proba[proba < _NOTHING] = 0
    return proba


def for_each_chunk(
    logits: Source, weight: FloatArray | None, take: Take, temperature: float = 1.0
) -> None:
    """Call take(softmax(z / T), row weights, lock) on chunks of rows; weight 0 is left out.

    Chunks run in threads, so `take` must hold the lock where it writes. With weights there is a
    single thread: sums of fractions depend on their order, and a fit must not.
    """
    lock = Lock()
    elements = min(max(CHUNK_ELEMENTS, 4 * len(logits)), MOST_ELEMENTS)

    def run(pieces: Sequence[slice]) -> None:
        with use_threads(1):
            for piece in pieces:
                rows, w = logits[piece], None
                if weight is not None:
                    w = weight[piece]
                    rows, w = rows[w > 0], w[w > 0]
                if len(rows):
                    # Not kept under a name: the next chunk would then be a second one in memory.
                    take(_flushed(steady_proba(rows, temperature)), w, lock)
                del rows  # likewise

    run_parts(run, list(row_slices(logits, elements)), 1 if weight is not None else thread_count())
