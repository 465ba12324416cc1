"""Beta calibration of the top-label confidence (Kull et al., 2017)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, final

import numpy as np

from wildcal.calibrators.soft_rows import check_prior
from wildcal.calibrators.top_label import TopLabelMap
from wildcal.core.arrays import BoolArray, FloatArray
from wildcal.core.blocks import added
from wildcal.core.calibrator import FitSummary
from wildcal.core.checks import check_choice
from wildcal.core.objective import Point
from wildcal.core.optimize import WARM_START_ROWS, Solution, minimize_in_box
from wildcal.core.stored import REAL, TEXT, stored

Parameters: TypeAlias = Literal["abm", "am", "ab"]
PARAMETERS: tuple[Parameters, ...] = ("abm", "am", "ab")

# The logarithm of 0 is out of reach: confidences are kept this far from 0 and 1.
EPS = float(np.finfo(np.float64).eps)
# Reached only where rows right and wrong can be told apart by their confidence alone.
_LARGEST = 1e3
# Rows summed together, in the cache.
_PIECE = 1 << 13


def fit_beta(
    p: FloatArray, target: BoolArray, weight: FloatArray | None, parameters: Parameters = "abm"
) -> tuple[FloatArray, float, Solution]:
    """Return (a, b, c) of the beta map with a, b >= 0, the log loss of p itself, and the solution.

    The log loss is convex, so there is one minimum in the box a, b >= 0.
    """
    # Each column of `expand` is what one free parameter does to (a, b, c).
    log2 = np.log(2.0)
    expand = {
        "abm": np.eye(3),
        "am": np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]),
        "ab": np.array([[1.0, 0.0], [0.0, 1.0], [log2, -log2]]),  # the map crosses 1/2 at 1/2
    }[parameters]
    share = np.full(len(p), 1.0 / len(p)) if weight is None else weight / weight.sum()
    signed = np.empty((3, len(p)))
    signed[0], signed[1] = _logs(p)
    unchanged = -float(share @ np.where(target, signed[0], -signed[1]))
    signed[2] = np.where(target, 1.0, -1.0)
    signed[:2] *= signed[2]
    low = {"abm": [0.0, 0.0, -_LARGEST], "am": [0.0, -_LARGEST], "ab": [0.0, 0.0]}[parameters]
    box = np.array(low), np.full(len(low), _LARGEST)

    # The means of neighbors are a cheap place to start from: then a step is left for all of them.
    start, few = np.zeros(len(low)), len(p) // WARM_START_ROWS
    if few > 1:
        loss = _logistic(*_means(signed, share, few), expand)
        start = minimize_in_box(loss, start, *box, max_iter=200).x
    solution = minimize_in_box(_logistic(signed, share, expand), start, *box, max_iter=200)
    return expand @ solution.x, unchanged, solution


def _means(design: FloatArray, share: FloatArray, few: int) -> tuple[FloatArray, FloatArray]:
    """Return the means of so many columns at a time, which are sorted, and their shares."""
    starts = np.arange(0, len(share), few)
    total = np.add.reduceat(share, starts)
    return np.array([np.add.reduceat(row * share, starts) / total for row in design]), total


def _logistic(
    design: FloatArray, share: FloatArray, expand: FloatArray
) -> Callable[[FloatArray], Point]:
    """Return the mean of log(1 + exp(-margin)), margin = expand phi @ design, by phi."""
    pieces = [slice(i, i + _PIECE) for i in range(0, len(share), _PIECE)]

    def loss(phi: FloatArray) -> Point:
        abc = expand @ phi
        parts = [sums(abc, design[:, piece], share[piece]) for piece in pieces]
        value, gradient, hessian = added(parts)
        return Point(value, expand.T @ gradient, expand.T @ hessian @ expand)

    def sums(
        abc: FloatArray, rows: FloatArray, weight: FloatArray
    ) -> tuple[float, FloatArray, FloatArray]:
        margin = abc @ rows
        e = np.exp(-np.abs(margin))
        u = 1.0 + e
        wrong = np.where(margin > 0, e, 1.0) / u  # the probability of the other outcome
        # NumPy's log1p takes thrice as long as its log; the last term is what u is rounded by.
        value = weight @ (np.maximum(-margin, 0.0) + np.log(u) + (e - (u - 1.0)) / u)
        weighted = weight * wrong
        curved = rows * (weighted * (1.0 - wrong))
        # All nine dot products: faster than a matrix product of such a shape.
        return float(value), -rows @ weighted, np.vecdot(curved[:, None], rows)

    return loss


def apply_beta(p: FloatArray, a: float, b: float, c: float) -> FloatArray:
    """Return 1 / (1 + exp(-(a ln p - b ln(1 - p) + c)))."""
    plus, minus = _logs(p)
    return np.exp(-np.logaddexp(0.0, -(a * plus + b * minus + c)))


def _logs(p: FloatArray) -> tuple[FloatArray, FloatArray]:
    p = np.clip(p, EPS, 1.0 - EPS)
    return np.log(p), -np.log1p(-p)


@final
@dataclass(kw_only=True, eq=False)
class BetaCalibration(TopLabelMap):
    """q = 1 / (1 + exp(-(a ln s - b ln(1 - s) + c))) of the confidence s, with a, b >= 0.

    This is the map between calibrated and uncalibrated scores when those of right and wrong rows
    are Beta distributed. a = b = 1, c = 0 changes nothing.

    Parameters
    ----------
    parameters
        "abm" (default): all three free. "am": a = b. "ab": the map sends 1/2 to 1/2.
    prior
        Strength of soft rows, as in `TemperatureScaling`.

    Notes
    -----
    (a, b, c) maximize the likelihood under a, b >= 0. Published code drops one coefficient if the
    free maximum has it negative and fits again, which ends in the same place unless the other
    one then turns negative too.
    The paper's m is the s with q = 1/2: c = b ln(1 - m) - a ln m.
    Kull, Silva Filho and Flach, Beta calibration, AISTATS 2017.

    Examples
    --------
    >>> from wildcal.testing import make_suite
    >>> suite = make_suite(seed=0, n_ood_tuning=0)
    >>> calibrator = BetaCalibration().fit(*suite.tuning)
    >>> calibrator.fit_.loss_after < calibrator.fit_.loss_before
    True
    """

    name = "beta"
    title = "beta calibration"
    reference = "Kull et al., AISTATS 2017"
    stores = "3 numbers"

    parameters: Parameters = field(default="abm", metadata=stored(TEXT))
    prior: float = field(default=0.0, metadata=stored(REAL))
    a_: float = field(init=False, repr=False, metadata=stored(REAL))
    b_: float = field(init=False, repr=False, metadata=stored(REAL))
    c_: float = field(init=False, repr=False, metadata=stored(REAL))

    def _check_options(self) -> None:
        check_choice("parameters", self.parameters, PARAMETERS)
        check_prior(self.prior)

    def _check_fitted(self) -> None:
        if self.a_ < 0 or self.b_ < 0:
            raise ValueError(f"a_ and b_ must not be negative, got {self.a_} and {self.b_}.")
        if max(self.a_, self.b_, abs(self.c_)) > 2 * _LARGEST:
            raise ValueError(f"a_, b_ and c_ must be at most {2 * _LARGEST:g}.")

    def _fit_map(
        self, confidence: FloatArray, correct: BoolArray, weight: FloatArray | None
    ) -> FitSummary:
        abc, before, solution = fit_beta(confidence, correct, weight, self.parameters)
        self.a_, self.b_, self.c_ = map(float, abc)
        return FitSummary(
            loss="nll",
            loss_before=before,
            loss_after=solution.value,
            iterations=solution.iterations,
            converged=solution.converged,
        )

    def _map(self, confidence: FloatArray) -> FloatArray:
        return apply_beta(confidence, self.a_, self.b_, self.c_)
