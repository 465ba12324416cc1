"""KDE-ECE: the calibration error with smooth densities in the place of bins."""

import warnings
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wildcal._old.core.arrays import BoolArray, FloatArray, Labels, Proba
from wildcal._old.core.errors import CalibrationWarning
from wildcal._old.core.one_thread import one_thread
from wildcal._old.metrics.accumulator import Accumulator
from wildcal._old.metrics.inputs import row_totals, take_columns, top_label_chunks, undefined
from wildcal._old.metrics.weighted import place_sums

# The grid of the published estimator: [0, 1] and room for the mirror images.
_GRID_SIZE = 1 << 14
_GRID_LOW, _GRID_HIGH = -0.6, 1.6
_STEP = (_GRID_HIGH - _GRID_LOW) / (_GRID_SIZE - 1)
# Below two grid steps a kernel falls between the points; density-aware calibration uses 1e-3 then.
_NARROWEST, _FALLBACK = 2 * _STEP, 1e-3
# A wider kernel (support 3 h) reaches past the half that is mirrored.
_WIDEST = 1 / 6
_NO_DENSITY = 1e-6
# For resamples: points of [0, 1] in a kernel's deviation, and at most, of which a kernel has two.
_POINTS, _MOST_POINTS = 6, 931


class KdeAccumulator(Accumulator):
    """KDE-ECE of rows that arrive piece by piece.

    The state is the confidences spread over a fixed grid, those of wrong rows (row 0 of `mass`) and
    of right rows (row 1) apart, and the moments from which the bandwidth follows at the end.

    Examples
    --------
    >>> seen = KdeAccumulator().update(np.array([False, False]), np.array([0.25, 0.75]))
    >>> seen.kde_ece()
    0.5
    """

    _sums = ("mass", "count", "confidence_sum", "square_sum")

    def __init__(self) -> None:
        self.mass: FloatArray = np.zeros((2, _GRID_SIZE))
        # Of wrong and of right rows.
        self.count: FloatArray = np.zeros(2)
        self.confidence_sum: FloatArray = np.zeros(2)
        self.square_sum: FloatArray = np.zeros(2)

    def update(self, y: ArrayLike, proba: ArrayLike, pred: ArrayLike | None = None) -> Self:
        """Take in rows, as (y, proba) or as (correct, confidence), and return self."""
        new = self._fresh()
        for correct, confidence in top_label_chunks(y, proba, pred, normalize=True):
            kind = correct.astype(np.intp)
            new.count += np.bincount(kind, minlength=2)
            new.confidence_sum += np.bincount(kind, confidence, 2)
            new.square_sum += np.bincount(kind, confidence**2, 2)
            # The grid is not symmetric about 0 or 1, so the images are spread like the points.
            image = np.where(confidence < 0.5, -confidence, 2 - confidence)
            new.mass += _spread(confidence, kind)
            new.mass += _spread(image, kind)
        return self.merge(new)

    def kde_ece(self) -> float:
        """Return the calibration error of the rows seen so far."""
        n, n_right = self.count.sum(), self.count[1]
        if n == 0:
            return undefined("kde_ece")
        if n_right == 0:  # no density of right rows; every calibration error is the confidence
            return float(self.confidence_sum.sum() / n)
        # A density over 2 n points, then doubled: division by n, that is.
        kernel_at = _kernel_transform(self._bandwidth(n))
        grid = np.linspace(_GRID_LOW, _GRID_HIGH, _GRID_SIZE)
        inside = (grid > 0) & (grid < 1)
        x = grid[inside]
        right = _smooth(self.mass[1] / n_right, kernel_at)[inside]
        both = _smooth(self.mass.sum(axis=0) / n, kernel_at)[inside]
        dense = np.maximum(right, both) > _NO_DENSITY
        accuracy = np.minimum((n_right / n) * right / np.where(both > 0, both, np.inf), 1.0)
        gap = np.where(dense, np.abs(x - accuracy) * both, 0.0)
        return float(np.trapezoid(gap, x) / np.trapezoid(both, x))

    def _bandwidth(self, n: float) -> float:
        # Where the subtraction loses digits, the result is below the floor anyway.
        mean = self.confidence_sum[1] / self.count[1]
        deviation = np.sqrt(max(self.square_sum[1] / self.count[1] - mean**2, 0.0))
        h = float(deviation * (2 * n) ** -0.2)
        if h < _NARROWEST:
            _warn(f"its bandwidth {h:.1e} is below two grid steps; {_FALLBACK} is used")
            return _FALLBACK
        if h > _WIDEST:
            _warn(f"its bandwidth {h:.2f} reaches past the mirrored half")
        return h


def share_rows(y: Labels, proba: Proba, pred: Labels) -> FloatArray:
    """Return the confidence of each row of a block as a share of its row, as the error reads it."""
    top = take_columns(proba, pred).astype(np.float64)
    return np.minimum(top / row_totals(proba), 1.0)


def _warn(what: str) -> None:
    warnings.warn(f"kde_ece is rough: {what}.", CalibrationWarning, stacklevel=4)


def _spread(points: FloatArray, kind: NDArray[np.intp]) -> FloatArray:
    """Return the points shared out to their two grid neighbors, (2, grid): linear binning."""
    position = (points - _GRID_LOW) / _STEP
    left = position.astype(np.intp)
    share = position - left
    place = left + kind * _GRID_SIZE
    to_right = np.asarray(np.bincount(place, share, 2 * _GRID_SIZE), dtype=np.float64)
    mass: FloatArray = np.bincount(place, minlength=2 * _GRID_SIZE) - to_right
    mass[1:] += to_right[:-1]  # points end at 1.5, so nothing crosses from one row to the next
    return mass.reshape(2, _GRID_SIZE)


def _kernel_transform(h: float) -> NDArray[np.complex128]:
    """Return the Fourier transform of the triweight kernel with standard deviation h."""
    support = 3 * h
    offset = np.arange(_GRID_SIZE) * _STEP
    kernel = 35 / 32 * np.clip(1 - (offset / support) ** 2, 0, None) ** 3 / support
    # Twice the grid keeps the two ends from touching; negative offsets sit at the far end.
    return np.fft.rfft(np.concatenate([kernel, [0.0], kernel[:0:-1]]))


def _smooth(mass: FloatArray, kernel_at: NDArray[np.complex128]) -> FloatArray:
    """Return the mass on the grid convolved with the kernel."""
    spectrum = np.fft.rfft(mass, 2 * _GRID_SIZE) * kernel_at
    # The transform leaves a noise of about 1e-15 where there is nothing.
    return np.maximum(np.fft.irfft(spectrum, 2 * _GRID_SIZE)[:_GRID_SIZE], 0.0)


@one_thread()
def weighted_kde_ece(correct: BoolArray, confidence: FloatArray, counts: FloatArray) -> FloatArray:
    """Return the KDE-ECE of rows that count several times, a number for each column of `counts`.

    The bandwidth is that of all rows, which hardly moves between resamples. A few hundred points
    of [0, 1] stand in for the grid, six to a deviation: fine enough for a spread.
    """
    if not correct.any():
        return np.asarray(confidence @ counts / counts.sum(axis=0))
    h = max(confidence[correct].std() * (2 * len(confidence)) ** -0.2, 2 / _MOST_POINTS)
    x = np.linspace(0, 1, min(round(_POINTS / h) + 1, _MOST_POINTS))
    mass = _drawn_mass(correct, confidence, len(x), counts)
    kernel = _mirrored_kernel(x, 3 * h)
    right, both = kernel @ mass[1], kernel @ mass.sum(axis=0)
    # Right over all rows is the accuracy; both are sums over the same points, so no n is left.
    gap = np.divide(right, both, out=np.zeros_like(both), where=both > 0)
    np.minimum(gap, 1.0, out=gap)
    np.abs(np.subtract(x[:, None], gap, out=gap), out=gap)
    gap *= both
    return np.asarray(np.trapezoid(gap, axis=0) / np.trapezoid(both, axis=0))


def _mirrored_kernel(x: FloatArray, support: float) -> FloatArray:
    """Return what every point gives to every point, its mirror image at 0 or 1 included.

    A constant is left out, which the error does not depend on.
    """
    last, here = len(x) - 1, np.arange(len(x))
    there = here[:, None]
    reach = np.clip(1 - (np.arange(2 * len(x)) / (last * support)) ** 2, 0, None) ** 3
    image = np.where(x < 0.5, there + here, 2 * last - there - here)
    return np.asarray(reach[np.abs(there - here)] + reach[image])


def _drawn_mass(
    correct: BoolArray, confidence: FloatArray, n: int, counts: FloatArray
) -> FloatArray:
    """Return the rows, as often as they count, shared out to n points: (2, n, replicates)."""
    position = confidence * (n - 1)
    left = np.minimum(position.astype(np.intp), n - 2)
    share = position - left
    place = left + n * correct
    owner = np.arange(len(confidence))
    return place_sums(
        np.concatenate([1 - share, share]),
        np.concatenate([place, place + 1]),
        np.concatenate([owner, owner]),
        2 * n,
        counts,
    ).reshape(2, n, -1)


def kde_ece(y: ArrayLike, proba: ArrayLike, *, pred: ArrayLike | None = None) -> float:
    """Return the calibration error ∫ |x - accuracy(x)| f(x) dx with kernel densities.

    f is the density of all confidences, g that of the right ones, and accuracy(x) = min(accuracy ·
    g(x) / f(x), 1). Both use a triweight kernel of standard deviation h = std(confidence of right
    rows) · (2 n)^(-1/5), are mirrored at 0 and 1, and live on 2^14 points of [-0.6, 1.6]. The cost
    is O(n) and a few Fourier transforms of the grid. The published code measures class 1 where
    there are two classes, and repeats the last value of the integrand where there is no density;
    here two classes are like any other number, and empty stretches count 0.

    Parameters
    ----------
    y, proba
        Integer labels (n,) in [-1, K-1] and probabilities (n, K), whose confidence is divided by
        the sum of its row; or a boolean `correct` (n,) and confidences (n,), used as they are.
        Rows with y = -1 count as wrong.
    pred
        Predicted classes (n,), best taken from the raw logits. Default: argmax of each row.

    Returns
    -------
    float
        The mean confidence if no row is right; NaN, with a warning, if there are no rows. A
        bandwidth below two grid steps becomes 1e-3, with a warning.

    References
    ----------
    Zhang, Kailkhura, Han (2020), "Mix-n-Match: ensemble and compositional methods for uncertainty
    calibration in deep learning".

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> confidence = rng.uniform(0.5, 1, 20_000)
    >>> correct = rng.random(20_000) < confidence - 0.1
    >>> round(kde_ece(correct, confidence), 2)
    0.1
    """
    return KdeAccumulator().update(y, proba, pred).kde_ece()
