"""The ECE that a perfectly calibrated model would show on the same confidences."""

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wildcal._old.core.arrays import BoolArray, FloatArray
from wildcal._old.core.checks import MOST_BINS, check_confidence, check_count
from wildcal._old.metrics.binning import bin_index
from wildcal._old.metrics.inputs import is_empty, top_label, undefined
from wildcal._old.metrics.top_label import TopLabelAccumulator

# Above this variance of the number of right rows in a bin the expansion below is good to 1e-4.
_EXPAND_ABOVE = 10.0
# Below it the number is within 32 of its mean but for a chance of 1e-12, so its distribution is
# known from 64 residues.
_RESIDUES = 64
_FOURS = 128


def noise_floor(confidence: ArrayLike, *, n_bins: int = 15) -> float:
    """Return the expected ECE if every confidence were exactly right.

    With independent labels, row i being right with probability confidence_i, the floor is
    Σ_b E|X_b - μ_b| / n, where X_b counts the right rows in bin b and μ_b = Σ confidence_i. It is
    computed, not simulated: exactly in bins of small variance, and by an Edgeworth expansion with
    the correction for whole numbers, good to 1e-4 of the value, in the others. So there is no
    seed, and the cost is O(n). It falls like 1 / sqrt(n).

    Parameters
    ----------
    confidence
        Probabilities (n,) of the predicted classes.
    n_bins
        Number of equal-width bins (lo, hi], as in `ece`.

    Returns
    -------
    float
        NaN, with a warning, if there are no rows.

    References
    ----------
    Bröcker and Smith (2007), "Increasing the reliability of reliability diagrams", for the idea;
    Vaicenavicius et al. (2019), "Evaluating model calibration in classification".

    Examples
    --------
    >>> round(noise_floor([0.5, 0.5]), 12)  # 0, 1, 1 or 2 right: (1 + 0 + 0 + 1) / 4 off, of 2 rows
    0.25
    """
    n_bins = check_count("n_bins", n_bins, most=MOST_BINS)
    if is_empty(confidence):
        return undefined("noise_floor")
    p = check_confidence(confidence)
    gaps = ExpectedGaps(n_bins).add(p, bin_index(p, n_bins)).values()
    return float(gaps.sum() / len(p))


class NoiseFloor:
    """The noise floor of rows that arrive piece by piece, in constant memory.

    The state is the cumulants of each bin, and the transform that small bins need: a product over
    their rows. `merge` adds the one and multiplies the other.

    >>> floor = NoiseFloor(15).update(np.array([0.5])).merge(NoiseFloor(15).update(np.array([0.5])))
    >>> round(floor.value(), 12)
    0.25
    """

    def __init__(self, n_bins: int) -> None:
        self.n_bins, self.n = check_count("n_bins", n_bins), 0
        self.cumulants: FloatArray = np.zeros((4, n_bins))
        self.transform = np.ones((n_bins, _RESIDUES // 2 + 1), dtype=np.complex128)

    def update(self, confidence: ArrayLike) -> Self:
        """Take in the confidences of some rows, and return self."""
        p = check_confidence(confidence)
        index = bin_index(p, self.n_bins)
        self.cumulants = self.cumulants + _cumulants(p, index, self.n_bins)
        self.n += len(p)
        narrow = self.cumulants[1] <= _EXPAND_ABOVE  # a wide bin stays one
        rows, counts = _in_runs(narrow, index)
        used = np.flatnonzero(counts)
        self.transform[used] *= _transforms(p[rows], counts[used])
        return self

    def merge(self, other: "NoiseFloor") -> Self:
        """Add the rows that `other` has seen, and return self."""
        self.n += other.n
        self.cumulants = self.cumulants + other.cumulants
        self.transform = self.transform * other.transform
        return self

    def value(self) -> float:
        """Return the expected ECE if every confidence were exactly right."""
        if not self.n:
            return undefined("noise_floor")
        variance = self.cumulants[1]
        wide = variance > _EXPAND_ABOVE
        narrow = (variance > 0) & ~wide
        gaps = np.zeros(self.n_bins)
        gaps[wide] = _expanded(*self.cumulants[:, wide])
        gaps[narrow] = _mean_gaps(self.transform[narrow], self.cumulants[0, narrow])
        return float(gaps.sum() / self.n)


def _cumulants(p: FloatArray, index: NDArray[np.intp], n_bins: int) -> FloatArray:
    """Return the first four cumulants of the number of right rows of each bin, (4, bins)."""
    found = np.empty((4, n_bins))
    found[0] = np.bincount(index, p, n_bins)
    spread = 1 - p
    spread *= p
    found[1] = np.bincount(index, spread, n_bins)
    row = 2 * p  # spread (1 - 2 p), in few arrays: they stay in the cache
    np.subtract(1, row, out=row)
    row *= spread
    found[2] = np.bincount(index, row, n_bins)
    np.multiply(6, spread, out=row)
    np.subtract(1, row, out=row)
    row *= spread
    found[3] = np.bincount(index, row, n_bins)
    return found


class ExpectedGaps:
    """E|X_b - μ_b| of each bin b, of several tables of rows with their bins.

    What is exact is computed for all of them at once, because a few rows cost calls.
    """

    def __init__(self, n_bins: int) -> None:
        self.n_bins = n_bins
        self._gaps: list[FloatArray] = []
        self._narrow: list[BoolArray] = []
        self._trials: list[FloatArray] = []
        self._counts: list[NDArray[np.intp]] = []

    def add(self, p: FloatArray, index: NDArray[np.intp]) -> Self:
        """Take in a table: confidences p in the bins `index`."""
        cumulants = _cumulants(p, index, self.n_bins)
        variance = cumulants[1]
        wide = variance > _EXPAND_ABOVE
        narrow = (variance > 0) & ~wide
        gaps = np.zeros(self.n_bins)
        gaps[wide] = _expanded(*cumulants[:, wide])
        rows, counts = _in_runs(narrow, index)
        self._gaps.append(gaps)
        self._narrow.append(narrow)
        self._trials.append(p[rows])
        self._counts.append(counts[narrow])
        return self

    def values(self) -> FloatArray:
        """Return the gaps, shape (tables, bins)."""
        gaps = np.array(self._gaps)
        exact = _exact(np.concatenate(self._trials), np.concatenate(self._counts))
        gaps[np.array(self._narrow)] = exact
        return gaps


def _in_runs(
    wanted: BoolArray, index: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows in wanted bins, bin by bin, and how many of them each bin has."""
    rows = np.flatnonzero(wanted[index])
    n_bins = len(wanted)
    # NumPy sorts numbers of 16 bits in two passes.
    mine = index[rows].astype(np.uint16 if n_bins <= 1 << 16 else np.intp)
    return rows[np.argsort(mine, kind="stable")], np.bincount(mine, minlength=n_bins)


def _expanded(
    mean: FloatArray, variance: FloatArray, third: FloatArray, fourth: FloatArray
) -> FloatArray:
    """Return E|X - mean| of a whole number X from its cumulants.

    The normal value is sqrt(2 variance / π). Skewness g and excess kurtosis k change it by the
    factor 1 + (g² - k) / 24, and the steps of X (Euler-Maclaurin at the kink, which lies at the
    fraction t between two whole numbers) by - (t² - t + 1/6) / (2 variance).
    """
    t = mean - np.floor(mean)
    shape = (third**2 / variance**3 - fourth / variance**2) / 24
    steps = (t**2 - t + 1 / 6) / (2 * variance)
    return np.asarray(np.sqrt(2 * variance / np.pi) * (1 + shape - steps))


def _exact(p: FloatArray, counts: NDArray[np.intp]) -> FloatArray:
    """Return E|X - Σ p| of the number X of successes in each of several runs of trials.

    The trials with chances p stand one run after the other; `counts` has their lengths, none 0.
    """
    run = np.repeat(np.arange(len(counts)), counts)
    means = np.bincount(run, p, len(counts)).astype(np.float64)
    return _mean_gaps(_transforms(p, counts), means)


def _transforms(p: FloatArray, counts: NDArray[np.intp]) -> NDArray[np.complex128]:
    """Return the transform of the distribution of X modulo 64, of each run of trials.

    It is the product of 1 + p_i w over the trials, at each of 33 points w. Four trials are
    multiplied out first, to a polynomial in w: so there is a quarter of the complex products.
    """
    turn = np.exp(-2j * np.pi * np.arange(_RESIDUES // 2 + 1) / _RESIDUES) - 1
    powers = np.stack([turn, turn**2, turn**3, turn**4]).view(np.float64)
    # Each run is filled up with trials that never succeed, which changes nothing.
    fours = -(-counts // 4)
    starts = np.cumsum(fours) - fours
    filled = np.zeros(4 * int(fours.sum()))
    filled[np.arange(len(p)) + np.repeat(4 * starts - (np.cumsum(counts) - counts), counts)] = p
    a, b, c, d = filled.reshape(-1, 4).T
    ab, cd, s, t = a * b, c * d, a + b, c + d
    polynomial = np.column_stack([s + t, ab + cd + s * t, ab * t + cd * s, ab * cd])
    transform = np.ones((len(counts), len(turn)), dtype=np.complex128)
    run = np.repeat(np.arange(len(counts)), fours)
    # Parts of at most 512 trials, counted from the first of a run, so that the order of the
    # multiplications does not depend on the other runs; a table of them stays in cache.
    place = np.arange(len(run)) - np.repeat(starts, fours)
    begins = np.flatnonzero(place % _FOURS == 0)
    for first in range(0, len(run), _FOURS):
        low, high = np.searchsorted(begins, [first, first + _FOURS])
        if low < high:
            parts = begins[low:high]
            stop = begins[high] if high < len(begins) else len(run)
            # Not a matrix product: its last bits would depend on the number of rows.
            table = np.einsum("gi,ij->gj", polynomial[parts[0] : stop], powers)
            table[:, ::2] += 1
            values = table.view(np.complex128)
            transform[run[parts]] *= np.multiply.reduceat(values, parts - parts[0], axis=0)
    return transform


def _mean_gaps(transform: NDArray[np.complex128], means: FloatArray) -> FloatArray:
    """Return E|X - mean| from the transforms of the distributions of X modulo 64."""
    chance = np.fft.irfft(transform, _RESIDUES)
    # Of the numbers with the same residue, the one nearest to the mean.
    mean, residue = np.asarray(means)[:, None], np.arange(_RESIDUES)
    number = residue + _RESIDUES * np.rint((mean - residue) / _RESIDUES)
    return np.asarray(np.vecdot(chance, np.abs(number - mean)))


def excess_ece(
    y: ArrayLike, proba: ArrayLike, *, pred: ArrayLike | None = None, n_bins: int = 15
) -> float:
    """Return `ece` minus its `noise_floor`: about 0 for a calibrated model of any sample size.

    Negative values are left as they are: the sample happened to look better than expected. Where
    the true error is large the floor hardly matters, and this subtracts too much of it.
    Parameters as in `ece`.

    Examples
    --------
    >>> round(excess_ece(np.array([True, False]), np.array([0.5, 0.5])), 12)
    -0.25
    """
    correct, confidence = top_label(y, proba, pred)
    if len(confidence) == 0:
        return undefined("excess_ece")
    plain = TopLabelAccumulator(n_bins).update(correct, confidence).ece()
    return plain - noise_floor(confidence, n_bins=n_bins)
