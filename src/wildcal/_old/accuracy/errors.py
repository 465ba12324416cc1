"""How far an estimator is off on environments that it has not seen, by the size of the window."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from wildcal._old.accuracy.rows import Rows
from wildcal._old.core.arrays import FloatArray, Labels

SIZES: Final = (32, 128, 512)
"""Windows that are drawn from each environment, besides the whole of it."""
_DRAWS: Final = 2
_FOLDS: Final = 5
_UNSEEN: Final = 1.4
"""Shifts in use are harder than those at hand; the same factor as in `ContextScaling`."""

Reader = Callable[[Rows], tuple[float, float]]
"""From a window to the estimate and its sampling variance."""


@dataclass(frozen=True, slots=True)
class Errors:
    """Root mean square errors beyond sampling, as one standard deviation."""

    sizes: Labels
    """Rows of the windows, rising."""
    error: FloatArray
    """Beyond sampling, for windows of each size."""
    slope: float
    """Error per unit of lost accuracy."""

    def at(self, n: int, fall: float) -> float:
        """Return how far an estimate may be off for n rows, where it fell by so much."""
        base = float(np.interp(np.log(n), np.log(self.sizes), self.error)) if len(self.sizes) else 0
        return float(np.hypot(base, _UNSEEN * self.slope * fall))


def folds(environments: list[int]) -> list[list[int]]:
    """Return groups of environments to leave out together, at most five.

    Neighbors in number are left out together: severities of a corruption, days of a camera. Each
    would be too easy to guess from the others.
    """
    n = min(_FOLDS, len(environments))
    return [part.tolist() for part in np.array_split(np.array(environments), n)] if n else []


def measure(rows: Rows, reader: Callable[[list[int]], Reader], usual_slope: float) -> Errors:
    """Return the errors on left-out environments; `reader(left_out)` must not know these.

    Where there are none, an estimated fall is taken to be wrong as on other networks.
    """
    found: dict[int, list[tuple[float, float]]] = {}
    falls, whole_sizes, whole = [], [], []
    clean = rows.of(0).accuracy()
    for left_out in folds(rows.shifted):
        read = reader(left_out)
        for number in left_out:
            group = rows.of(number)
            for size, window in _windows(group, number):
                value, variance = read(window)
                error = value - window.accuracy()
                if size is None:
                    whole.append((error, variance))
                    whole_sizes.append(len(window.y))
                    falls.append(clean - window.accuracy())
                else:
                    found.setdefault(size, []).append((error, variance))
    if not whole:
        return Errors(np.zeros(0, np.int64), np.zeros(0), usual_slope)
    typical = int(np.median(whole_sizes))
    sizes = [size for size in sorted(found) if size < typical]
    errors = [_beyond_sampling(found[size]) for size in sizes] + [_beyond_sampling(whole)]
    fall = float(np.sqrt(np.mean(np.square(falls))))
    slope = float(np.sqrt(np.mean([error**2 for error, _ in whole]))) / fall if fall > 0 else 0.0
    return Errors(np.array([*sizes, typical], np.int64), np.array(errors), slope)


def _beyond_sampling(found: list[tuple[float, float]]) -> float:
    squares = float(np.mean([error**2 - variance for error, variance in found]))
    return float(np.sqrt(max(0.0, squares)))


def _windows(group: Rows, number: int) -> Iterator[tuple[int | None, Rows]]:
    """Yield the whole environment, and smaller windows drawn from it, the same ones every time."""
    yield None, group
    # Environments may be the same rows under several shifts: draw others from each.
    rng = np.random.default_rng(number)
    for size in SIZES:
        for _ in range(_DRAWS if size < len(group.y) else 0):
            yield size, group.where(rng.permutation(len(group.y))[:size])
