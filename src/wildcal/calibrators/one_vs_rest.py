"""Platt scaling and beta calibration: a logistic curve for each class against the rest.

The probabilities of the classes are divided by their sum. With two classes one curve is fitted, for
class 1, and class 0 has its complement.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from typing import Any, Final, Literal

import numpy as np

from wildcal.core.arrays import (
    LOG_TINY,
    Array,
    FloatArray,
    clip,
    in_blocks,
    is_top_class,
    softmax,
    softplus,
)
from wildcal.core.calibrator import Calibrator, FitInfo
from wildcal.core.optimize import Solution, fit_logistic
from wildcal.core.validation import Samples, absent_class_warnings, check_choice

# Beta calibration keeps probabilities this far from 0 and 1.
_LOG_EPS: Final = float(np.log(np.finfo(np.float64).eps))


def log_proba_and_rest(xp: Any, z: Array) -> tuple[Array, Array]:
    """Return log p and log(1 - p) of p = softmax(z), without cancellation where p is close to 1."""
    u = clip(xp, z - xp.max(z, axis=-1, keepdims=True), LOG_TINY, None)
    e, top = xp.exp(u), is_top_class(xp, z)
    total = xp.sum(e, axis=-1, keepdims=True)
    others = xp.sum(e * (1 - top), axis=-1, keepdims=True)
    rest = xp.where(top > 0, others, total - e)
    log_total = xp.log(total)
    return u - log_total, xp.log(rest) - log_total


def fit_nonnegative(
    design: FloatArray, target: FloatArray, weight: FloatArray, start: FloatArray
) -> Solution:
    """Return the solution of `fit_logistic` with coefficients >= 0 where `start` is not 0.

    The loss is convex: with as few of these at 0 as possible, the best minimum is the solution.
    """
    slopes, found = np.flatnonzero(start), []
    for n_zeros in range(len(slopes) + 1):
        for zeros in combinations(slopes, n_zeros):
            free = np.setdiff1d(np.arange(len(start)), zeros)
            solution = fit_logistic(design[:, free], target, weight, start[free])
            x = np.zeros(len(start))
            x[free] = solution.x
            if (x[slopes] >= 0).all():
                found.append(replace(solution, x=x))
        if found:
            break
    return min(found, key=lambda solution: solution.value)


def smoothed_target(positive: Any, weight: FloatArray) -> FloatArray:
    """Return Platt's targets (N+ + 1) / (N+ + 2) and 1 / (N- + 2) instead of 1 and 0."""
    n_positive, n_negative = float(weight @ positive), float(weight @ ~positive)
    return np.where(positive, (n_positive + 1) / (n_positive + 2), 1 / (n_negative + 2))


def fit_curves(
    data: Samples, features: FloatArray, expand: FloatArray, *, platt: bool
) -> tuple[FloatArray, FitInfo]:
    """Return the coefficients of the curve of each class, and the record of the fits.

    With two classes one curve is fitted, for class 1; class 0 gets its complement.

    Parameters
    ----------
    data
        Labels and weights.
    features
        Shape (n_samples, n_classes, m); their sum is the log-odds of the classifier.
    expand
        Coefficients of features and intercept per free parameter, shape (m + 1, n_free).
    platt
        Targets are those of `smoothed_target`, not 0 and 1, and slopes may be negative.
    """
    n, k, m = features.shape
    start = np.asarray(expand[:m].any(axis=0), dtype=np.float64)  # slopes of 1 change nothing
    coefficients = np.zeros((k, m + 1))
    solutions, before = [], 0.0
    for each in (1,) if k == 2 else range(k):
        is_class = data.y == each
        target = is_class.astype(np.float64)
        if platt or target.min() == target.max():
            target = smoothed_target(is_class, data.weight)
        design = np.column_stack([features[:, each], np.ones(n)]) @ expand
        fit = fit_logistic if platt else fit_nonnegative
        found = fit(design, target, data.weight, start)
        coefficients[each] = expand @ found.x
        solutions.append(found)
        t = features[:, each].sum(axis=1)
        before += float(np.average(np.logaddexp(0.0, t) - target * t, weights=data.weight))
    if k == 2:
        coefficients[0] = [*coefficients[1, -2::-1], -coefficients[1, -1]]
    info = FitInfo(
        "one-vs-rest nll",
        before,
        sum(s.value for s in solutions),
        max(s.n_iter for s in solutions),
        all(s.converged for s in solutions),
        warnings=tuple(absent_class_warnings(data)),
    )
    return coefficients, info


def normalized_sigmoid(xp: Any, t: Array) -> Array:
    """Return sigmoid(t) divided by its sum over classes."""
    return softmax(xp, -softplus(xp, -t))


@dataclass(kw_only=True, eq=False, repr=False)
class PlattScaling(Calibrator):
    """p_k proportional to sigmoid(a_k s_k + b_k), s_k the log-odds of class k against the rest.

    s_k = log q_k - log(1 - q_k), q = softmax(z). a_k and b_k are fitted by logistic regression with
    Platt's smoothed targets, (N+ + 1) / (N+ + 2) and 1 / (N- + 2) instead of 1 and 0, as in
    scikit-learn's ``CalibratedClassifierCV(method="sigmoid")``.

    Attributes
    ----------
    slope_, intercept_
        a and b, shape (n_classes,).

    References
    ----------
    Platt, Probabilistic outputs for support vector machines, 1999; more classes: Zadrozny and
    Elkan, Transforming classifier scores into accurate multiclass probability estimates, KDD 2002.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> score = rng.normal(size=10_000)
    >>> y = rng.random(10_000) < 1 / (1 + np.exp(1 - 2 * score))
    >>> calibrator = PlattScaling().fit(score, y.astype(int), input="score")
    >>> calibrator.slope_.round(1), calibrator.intercept_.round(1)
    (array([2., 2.]), array([ 1., -1.]))
    """

    name = "platt"
    title = "Platt scaling"
    reference = "Platt, 1999"

    slope_: FloatArray = field(init=False)
    intercept_: FloatArray = field(init=False)

    def _fit(self, data: Samples) -> FitInfo:
        log_odds = in_blocks(partial(_log_odds, np), data.logits)[:, :, None]
        curves, info = fit_curves(data, log_odds, np.eye(2), platt=True)
        self.slope_, self.intercept_ = curves.T.copy()
        return info

    def formula(self, xp: Any, z: Array, *inputs: Array) -> Array:
        """Return sigmoid(a s + b), normalized."""
        return normalized_sigmoid(xp, _log_odds(xp, z) * self.slope_ + self.intercept_)


@dataclass(kw_only=True, eq=False, repr=False)
class BetaCalibration(Calibrator):
    """p_k proportional to sigmoid(a_k log q_k - b_k log(1 - q_k) + c_k), q = softmax(z), a, b >= 0.

    This is the map that calibrates a class whose probabilities are Beta distributed among its
    samples and among the others. a = b = 1, c = 0 changes nothing.

    Parameters
    ----------
    parameters
        "abm" (default): a, b and c are free. "am": a = b. "ab": the curve maps 1/2 to 1/2.

    Attributes
    ----------
    a_, b_, c_
        Shape (n_classes,).

    Notes
    -----
    a, b and c maximize the likelihood under a, b >= 0. Published code drops a coefficient that is
    negative without bounds and fits again, which gives the same result unless the other one then
    becomes negative. A class without samples gets the targets of `PlattScaling`.

    References
    ----------
    Kull, Silva Filho and Flach, Beta calibration: a well-founded and easily implemented improvement
    on logistic calibration for binary classifiers, AISTATS 2017.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(20_000)
    >>> y = rng.random(20_000) < p**2 / (p**2 + 1 - p)  # a = 2, b = 1, c = 0
    >>> proba = np.stack([1 - p, p], axis=1)
    >>> calibrator = BetaCalibration().fit(proba, y.astype(int), input="proba")
    >>> calibrator.predict_proba(np.array([[0.5, 0.5]])).round(2)
    array([[0.67, 0.33]])
    """

    name = "beta"
    title = "beta calibration"
    reference = "Kull et al., AISTATS 2017"

    parameters: Literal["abm", "am", "ab"] = "abm"
    a_: FloatArray = field(init=False)
    b_: FloatArray = field(init=False)
    c_: FloatArray = field(init=False)

    def _check_options(self) -> None:
        check_choice("parameters", self.parameters, ("abm", "am", "ab"))

    def _fit(self, data: Samples) -> FitInfo:
        log_2 = np.log(2.0)
        # (a, b, c) of each free parameter.
        expand = {
            "abm": np.eye(3),
            "am": np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]),
            "ab": np.array([[1.0, 0.0], [0.0, 1.0], [log_2, -log_2]]),
        }[self.parameters]
        logs = in_blocks(lambda z: np.stack(_beta_logs(np, z), axis=2), data.logits)
        curves, info = fit_curves(data, logs, expand, platt=False)
        self.a_, self.b_, self.c_ = curves.T.copy()
        return info

    def formula(self, xp: Any, z: Array, *inputs: Array) -> Array:
        """Return sigmoid(a log q - b log(1 - q) + c), normalized."""
        log_p, minus_log_rest = _beta_logs(xp, z)
        return normalized_sigmoid(xp, self.a_ * log_p + self.b_ * minus_log_rest + self.c_)


def _log_odds(xp: Any, z: Array) -> Array:
    log_p, log_rest = log_proba_and_rest(xp, z)
    return log_p - log_rest


def _beta_logs(xp: Any, z: Array) -> tuple[Array, Array]:
    """Return log p and -log(1 - p), cut at the resolution of float64."""
    log_p, log_rest = log_proba_and_rest(xp, z)
    return clip(xp, log_p, _LOG_EPS, None), -clip(xp, log_rest, _LOG_EPS, None)
