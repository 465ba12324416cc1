"""The bootstrap over rows, for every metric: sets of the same rows share the draws."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from wildcal._old.core.arrays import FloatArray
from wildcal._old.metrics.registry import Metric
from wildcal._old.metrics.seen import Counts, Seen

if TYPE_CHECKING:  # slow to import, and seldom needed
    from numpy.random import Generator

Draw = Callable[[int], FloatArray]
"""Returns how often each row is drawn in the next so many replicates, a column for each."""
# Counts that exist at the same time: 4 MB, which the caches hold.
_MOST_COUNTS: Final = 1 << 19
# Rows drawn in all for a metric that is costly to resample, and the fewest replicates.
_MOST_DRAWS: Final = 20_000_000
_FEWEST: Final = 100
# The same for many sets, as those of nine methods on 97 splits: replicates of all sets together.
_MOST_REPLICATES: Final = 400_000


def draw_counts(n: int, *, seed: int = 0) -> Draw:
    """Return draws of n rows; all sets of as many rows share them."""
    rng = np.random.default_rng([seed, n])
    return lambda b: rng.multinomial(n, np.full(n, 1 / n), size=b).T.astype(np.float64, order="C")


def draw_rows(n: int, rng: "Generator") -> Draw:
    """Return draws of n rows one after the other, as `wildcal._old.metrics.bootstrap` draws them."""

    def draw(b: int) -> FloatArray:
        counts = np.empty((n, b))
        for i in range(b):
            counts[:, i] = np.bincount(rng.integers(0, n, n), minlength=n)
        return counts

    return draw


def resample(
    sets: Sequence[Seen],
    metrics: Sequence[Metric],
    n_boot: int,
    draws: tuple[Draw, Draw] | None = None,
) -> dict[str, FloatArray]:
    """Return metrics on resampled rows, each of shape (sets, replicates).

    Sets with as many rows hold the same images in the same order, so they share the draws: an image
    that is drawn twice counts twice in every set. Metrics without an interval are left out. With
    many rows or sets, those that are costly to resample get fewer replicates; the rest of theirs
    are NaN.

    Parameters
    ----------
    draws
        How rows with and without a class are drawn, where all sets have as many.
    """
    wanted = [metric for metric in metrics if metric.drawn is not None]
    found = {metric.name: np.full((len(sets), n_boot), np.nan) for metric in wanted}
    sizes = [tuple(len(part) for part in seen.told_apart) for seen in sets]
    some = max(_FEWEST, _MOST_REPLICATES // max(1, len(sets)))
    for known, others in sorted(set(sizes)):
        same = [i for i, size in enumerate(sizes) if size == (known, others)]
        mine = [sets[i] for i in same]
        draw, draw_others = draw_counts(known), draw_counts(others, seed=0 if not known else 1)
        if draws is not None:
            draw, draw_others = draws
        step = max(1, min(n_boot, some, _MOST_COUNTS // max(1, known + others)))
        enough = min(some, max(_FEWEST, _MOST_DRAWS // max(1, known + others)))
        for start in range(0, n_boot, step):
            n = min(step, n_boot - start)
            counts = Counts(_drawn(draw, known, n), _drawn(draw_others, others, n))
            for metric in wanted:
                if metric.costly and start >= enough:
                    continue
                assert metric.drawn is not None
                found[metric.name][same, start : start + n] = metric.drawn(mine, counts)
    return found


def _drawn(draw: Draw, rows: int, n: int) -> FloatArray:
    return draw(n) if rows else np.empty((0, n))
