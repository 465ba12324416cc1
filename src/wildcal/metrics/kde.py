"""KDE-ECE: the calibration error with kernel densities instead of bins."""

from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wildcal.core.arrays import FloatArray
from wildcal.metrics._scores import Scores, mean, measure, per_replicate

# The grid of the published estimator: [0, 1], and space for the mirror images.
_GRID_SIZE: Final = 1 << 14
_GRID: Final = np.linspace(-0.6, 1.6, _GRID_SIZE)
_STEP: Final = float(_GRID[1] - _GRID[0])
_INSIDE: Final = slice(int(np.argmax(_GRID > 0)), int(np.argmax(_GRID >= 1)))
# A kernel below two grid steps falls between the points; the published code then takes 1e-3.
_NARROWEST, _FALLBACK = 2 * _STEP, 1e-3
_NO_DENSITY: Final = 1e-6


def kde_ece(y: ArrayLike, proba: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    r"""Return the calibration error by kernel density estimates.

    .. math:: \int |x - accuracy(x)| f(x) dx, \quad accuracy(x) = \min(1, accuracy g(x) / f(x))

    f is the density of all confidences, g that of the right ones. Both have a triweight kernel of
    standard deviation std(confidence of right samples) (2 n)^(-1/5), mirrored at 0 and 1. The
    published code measures class 1 of two; here two classes are like any other number. Parameters
    as in `ece`.

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
    return measure(compute_kde_ece, y, proba, sample_weight)


def compute_kde_ece(scores: Scores, weights: FloatArray, *, n_bins: int = 15) -> Any:
    """See `kde_ece`. Replicates share the bandwidth of the samples."""
    confidence, correct = scores.confidence, scores.correct
    if not correct.any():
        return mean(confidence, weights)
    w = weights if weights.ndim == 1 else scores.weight
    kernel = _kernel_transform(_bandwidth(confidence, correct * w, w.sum()))
    image = np.where(confidence < 0.5, -confidence, 2 - confidence)
    position = (np.concatenate([confidence, image]) - _GRID[0]) / _STEP
    left = position.astype(np.intp)
    share = position - left
    grid = _GRID[_INSIDE]

    def value(w: FloatArray) -> float:
        n, hits = w.sum(), correct * w
        if not hits.any():
            return float(confidence @ w / n)
        masses = np.stack([_on_grid(left, share, np.tile(v, 2)) for v in (hits, w)])
        right, both = _smooth(masses, kernel)[:, _INSIDE] / n
        accuracy = np.minimum(right / np.where(both > 0, both, np.inf), 1.0)
        is_dense = np.maximum(right * n / hits.sum(), both) > _NO_DENSITY
        gap = np.where(is_dense, np.abs(grid - accuracy) * both, 0.0)
        return float(np.trapezoid(gap, grid) / np.trapezoid(both, grid))

    return per_replicate(value, weights)


def _bandwidth(confidence: FloatArray, hits: FloatArray, n: float) -> float:
    average = confidence @ hits / hits.sum()
    variance = (confidence - average) ** 2 @ hits / hits.sum()
    h = float(np.sqrt(variance) * (2 * n) ** -0.2)
    return h if h >= _NARROWEST else _FALLBACK


def _on_grid(left: NDArray[np.intp], share: FloatArray, w: FloatArray) -> FloatArray:
    """Return weights shared out to the two neighbors on the grid: linear binning."""
    low = np.bincount(left, (1 - share) * w, _GRID_SIZE).astype(np.float64)
    low[1:] += np.bincount(left, share * w, _GRID_SIZE)[:-1]
    return low


def _kernel_transform(h: float) -> NDArray[np.complex128]:
    """Return the Fourier transform of the triweight kernel with standard deviation h."""
    offset = np.arange(_GRID_SIZE) * _STEP / (3 * h)
    kernel = 35 / 32 * np.clip(1 - offset**2, 0, None) ** 3 / (3 * h)
    # Twice the grid keeps the two ends apart; negative offsets are at the far end.
    return np.fft.rfft(np.concatenate([kernel, [0.0], kernel[:0:-1]]))


def _smooth(mass: FloatArray, kernel: NDArray[np.complex128]) -> FloatArray:
    """Return masses on the grid convolved with the kernel."""
    smooth = np.fft.irfft(np.fft.rfft(mass, 2 * _GRID_SIZE) * kernel, 2 * _GRID_SIZE)
    # The transform leaves a noise of about 1e-15 where there is nothing.
    return np.maximum(smooth[:, :_GRID_SIZE], 0.0)
