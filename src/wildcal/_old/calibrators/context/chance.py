"""How far the predicted classes of clean rows lie from their usual shares by chance alone."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from wildcal._old.core.arrays import FloatArray

# From here on a Poisson count is as good as normal.
_NORMAL_FROM: Final = 60.0
# Every size of window up to here is in the table, and from there on sizes in steps of 2 %.
_EACH_UP_TO: Final = 256
_LARGEST: Final = 1e7
_STEP: Final = 1.02
_ROOT: Final = np.sqrt(2 * np.pi)


def mean_distance(rate: ArrayLike, center: ArrayLike) -> FloatArray:
    """Return E|X - c| of a Poisson count X, c >= 0; from a mean of 60 that of a normal X.

    With F the distribution function and m = floor(c), E|X - c| = r - c + 2 ((c - r) F(m) + r f(m)).

    >>> print(mean_distance(1.0, 1.0).round(6))  # 2 / e
    0.735759
    """
    from scipy.special import gammaln, ndtr, pdtr  # here: `import wildcal` stays quick

    rate, center = np.broadcast_arrays(np.asarray(rate, np.float64), np.asarray(center, np.float64))
    low = np.minimum(rate, _NORMAL_FROM)
    m = np.minimum(np.floor(center), 1e9)
    with np.errstate(divide="ignore", invalid="ignore"):  # a rate of 0, and m of 0
        log_f = np.where(m > 0, m * np.log(low), 0.0) - low - gammaln(m + 1)
    f, below = np.exp(log_f), pdtr(m, low)
    counted = low - center + 2 * ((center - low) * below + low * f)
    spread, apart = np.sqrt(np.maximum(rate, 1.0)), rate - center
    x = apart / spread
    normal = 2 * spread * np.exp(-x * x / 2) / _ROOT + apart * (2 * ndtr(x) - 1)
    return np.asarray(np.maximum(np.where(rate > _NORMAL_FROM, normal, counted), 0.0))


def chance_variation(n: ArrayLike, shares: FloatArray, clean_rows: float) -> FloatArray:
    """Return t(n), the total variation from `shares` that n clean rows show by chance.

    The shares q_k are those of `clean_rows` rows, so a class that none of them had may still come:
    p_k = (N q_k + 1) / (N + K). Counts are as good as independent:
    t(n) = Σ_k E|Poisson(n p_k) - n q_k| / (2 n).
    """
    n = np.asarray(n, np.float64)
    # Classes of the same share have the same term.
    q, times = np.unique(shares, return_counts=True)
    p = (clean_rows * q + 1) / (clean_rows + len(shares))
    total = np.zeros(n.shape)
    for share, rate, many in zip(q.tolist(), p.tolist(), times.tolist(), strict=True):
        total += many * mean_distance(n * rate, n * share)
    return np.asarray(total / (2 * n))


@dataclass(frozen=True, slots=True, eq=False)
class ChanceTable:
    """t(n) at some sizes of a window, straight lines between them: fast, and fit for a graph.

    Exact for every size up to 256; beyond, within 0.0005.
    """

    sizes: FloatArray
    values: FloatArray

    @classmethod
    def of(cls, shares: FloatArray, clean_rows: float) -> "ChanceTable":
        """Return the table for the shares that so many clean rows had."""
        steps = np.arange(1, np.log(_LARGEST / _EACH_UP_TO) / np.log(_STEP))
        beyond = np.rint(_EACH_UP_TO * _STEP**steps)
        sizes = np.concatenate([np.arange(1.0, _EACH_UP_TO + 1), np.unique(beyond)])
        return cls(sizes, chance_variation(sizes, shares, clean_rows))

    def __call__(self, n: ArrayLike) -> FloatArray:
        """Return t(n); beyond the ends, that of the end."""
        return np.asarray(np.interp(np.asarray(n, np.float64), self.sizes, self.values))
