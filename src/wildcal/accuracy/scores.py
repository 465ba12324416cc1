"""Scores of a window that a straight line over environments turns into an accuracy."""

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from wildcal.accuracy.estimator import AccuracyEstimator, Reading
from wildcal.accuracy.means import Scaled, mean_reading
from wildcal.accuracy.rows import energy, log_proba, proba
from wildcal.accuracy.state import WindowState
from wildcal.core.arrays import BoolArray, FloatArray, Logits
from wildcal.core.one_thread import one_thread

# MaNo's bound: networks whose mean -log softmax is below are taken for badly calibrated.
_CALIBRATED: Final = 5.0
# Logits may be of any size; sums must stay finite.
_FAR: Final = 1e6


@dataclass(kw_only=True, eq=False)
class _Score(AccuracyEstimator):
    needs_environments = True
    learns_from_environments = True
    fits_line = True
    mergeable = True

    def _read(self, logits: Logits, second: Logits | None) -> Reading:
        return self._read_state(self._state(logits, second))


@final
@dataclass(kw_only=True, eq=False)
class NuclearNorm(Scaled, _Score):
    """The nuclear norm of the m x K matrix P of probabilities, ‖P‖ / √(min(m, K) m), and a line.

    The norm, the sum of singular values, is large where rows are confident and classes are many. It
    is computed from PᵀP, which adds up over parts of a window. (A public copy multiplies by the
    root instead of dividing; that is the same up to the line only while m stays the same.)

    In an interval, drawing the rows anew counts as for a share: v (1 - v) / n.
    """

    name = "nuclear-norm"
    title = "nuclear norm of the probabilities"
    reference = "Deng et al., ICML 2023"
    assumes_clean_class_mix = True
    smallest_window = 128

    def _own_sums(
        self, logits: FloatArray, second: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        p = proba(logits, self._unit(self.temperature_))
        with one_thread():
            return np.asarray((p.T @ p).ravel()), np.zeros(0)

    def _read_state(self, state: WindowState) -> Reading:
        k = self.n_classes_
        with one_thread():
            squares = np.linalg.eigvalsh(state.sums[2:].reshape(k, k))
        norm = float(np.sqrt(np.maximum(squares, 0.0)).sum())
        score = norm / float(np.sqrt(min(state.n, k) * state.n))
        value = min(1.0, max(0.0, self.line_[0] + self.line_[1] * score))
        slope = self.line_[1]
        return Reading(score, value * (1 - value) / state.n / slope**2 if slope else 0.0)


@final
@dataclass(kw_only=True, eq=False)
class MatrixNorm(_Score):
    """MaNo: (Σ q⁴ / (m K))^(1/4) of normalized rows q, and a line. It reads raw logits.

    Where the mean of -log softmax over rows and classes is above 5, q is the softmax; else it is
    v = 1 + z + z²/2 minus its smallest entry, divided by its sum. That v is not invariant to a
    constant added to a row. A class that is ruled out by -inf has q = 0, and no part in that mean
    or in the smallest entry. Of two classes one is the smallest, so that q is (1, 0) whatever they
    are: there the score tells hardly anything, and intervals are wide.

    The authors' script scores batches of 128 in training mode and takes the mean of -log softmax
    from one batch of the first set for all of them; a public copy shifts rows before v. Here all is
    of the window itself, as in the paper.
    """

    name = "mano"
    title = "MaNo, a matrix norm of the normalized logits"
    reference = "Xie et al., NeurIPS 2024"
    assumes_clean_class_mix = False
    smallest_window = 128
    shift_invariant = False

    def _own_sums(
        self, logits: FloatArray, second: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        log = log_proba(logits, 1.0)
        possible = ~np.isneginf(logits)
        distance = np.minimum(-log, _FAR).mean(axis=1, where=possible)
        fourth = [(q**4).mean(axis=1) for q in (np.exp(log), _taylor(logits, possible))]
        sums = [distance.sum(), *(f(x) for x in fourth for f in (np.sum, _sum_of_squares))]
        return np.array(sums, np.float64), np.zeros(0)

    def _read_state(self, state: WindowState) -> Reading:
        distance, *sums = state.sums[2:]
        total, squares = sums[:2] if distance / state.n > _CALIBRATED else sums[2:]
        mean, variance = mean_reading(float(total), float(squares), state.n)
        # d mean^(1/4) = mean^(-3/4) / 4
        return Reading(mean**0.25, variance * mean**-1.5 / 16 if mean > 0 else 0.0)


def _taylor(logits: FloatArray, possible: BoolArray) -> FloatArray:
    z = np.clip(logits, -_FAR, _FAR)
    v = 1 + z + z**2 / 2
    v -= v.min(axis=1, keepdims=True, where=possible, initial=np.inf)
    v[~possible] = 0.0
    total = v.sum(axis=1, keepdims=True)
    # All logits of a row equal: no class stands out.
    even = possible / possible.sum(axis=1, keepdims=True)
    return np.where(total > 0, v / np.where(total > 0, total, 1.0), even)


def _sum_of_squares(x: FloatArray) -> float:
    return float((x**2).sum())


@final
@dataclass(kw_only=True, eq=False)
class MetaDistributionEnergy(_Score):
    """MDE: mean e + log mean exp(-e) of the energies e = logsumexp(z), and a line.

    The published sum contains log m; here it is a mean, so that windows of different sizes compare.
    It reads raw logits, as the authors do. (The script's default takes a logarithm of it, and
    public copies apply logsumexp to probabilities; both are other scores.)

    The interval takes the two terms for independent. They pull against each other, so it is wide.
    """

    name = "mde"
    title = "meta-distribution energy"
    reference = "Peng et al., ICLR 2024"
    assumes_clean_class_mix = False
    smallest_window = 128
    shift_invariant = False
    reads_energy = True

    def _own_sums(
        self, logits: FloatArray, second: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        e = energy(logits)
        logs = [np.logaddexp.reduce(-e), np.logaddexp.reduce(-2 * e)]
        with np.errstate(over="ignore"):  # the squares of huge logits: see `mean_reading`
            return np.array([e.sum(), (e**2).sum()]), np.array(logs)

    def _read_state(self, state: WindowState) -> Reading:
        total, squares = state.sums[2:]
        mean, variance = mean_reading(float(total), float(squares), state.n)
        log_mean = float(state.log_sums[0] - np.log(state.n))
        log_square = float(state.log_sums[1] - np.log(state.n))
        of_log = max(0.0, np.exp(min(700.0, log_square - 2 * log_mean)) - 1) / state.n
        return Reading(mean + log_mean, variance + of_log)
