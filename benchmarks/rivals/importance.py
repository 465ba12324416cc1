"""CPCS (Park et al., AISTATS 2020) and TransCal (Wang et al., NeurIPS 2020), of logits."""

from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from rivals.common import WindowTemperature, confidence, source_of
from wildcal.core.calibrator import FitInfo, fit_base
from wildcal.core.validation import Samples

_MOST = 2000


@dataclass(kw_only=True, eq=False, repr=False)
class CPCS(WindowTemperature):
    """T minimizes the Brier score of source samples, weighted by target / source density.

    The density ratio is that of a logistic regression on log-probabilities; the smaller set is
    resampled to the size of the larger one.
    """

    name = "cpcs"
    title = "covariate shift calibration"

    source_u_: np.ndarray = field(init=False)
    source_y_: np.ndarray = field(init=False)

    def _fit(self, data: Samples) -> FitInfo:
        self.base_ = fit_base(self._inner(), data, self.input_)
        source = source_of(data)
        some = np.random.default_rng(0).permutation(len(source))[:_MOST]
        p = self.base_.formula(np, source.logits[some])
        self.source_u_, self.source_y_ = np.log(np.maximum(p, 1e-30)), source.y[some]
        return FitInfo()

    def _weights(self, u: np.ndarray) -> np.ndarray:
        rng = np.random.default_rng(0)
        v = self.source_u_
        n = max(len(u), len(v))
        parts = [
            part[rng.integers(len(part), size=n)] if len(part) < n else part for part in (v, u)
        ]
        model = LogisticRegression(max_iter=200)
        model.fit(np.concatenate(parts), np.repeat([0, 1], n))
        return np.exp(model.decision_function(v))

    def _log_temperature(self, u: np.ndarray) -> float:
        w, v = self._weights(u), self.source_u_
        onehot = np.eye(v.shape[1])[self.source_y_]

        def loss(log_t: float) -> float:
            p = softmax(v / np.exp(log_t), axis=1)
            return float(w @ ((p - onehot) ** 2).sum(axis=1) / w.sum())

        return float(minimize_scalar(loss, bounds=(-3, 3), method="bounded").x)


@dataclass(kw_only=True, eq=False, repr=False)
class TransCal(CPCS):
    """Mean confidence at T is the accuracy by importance weights with two control variates.

    The exponent of the weights is fitted together with T >= 1, from (2, 0.5), as published.
    """

    name = "transcal"
    title = "transferable calibration"

    def _log_temperature(self, u: np.ndarray) -> float:
        w, v = self._weights(u), self.source_u_
        correct = (v.argmax(axis=1) == self.source_y_).astype(float)
        source_confidence = float(confidence(v).mean())
        t0 = self.base_.temperature_

        def loss(x: np.ndarray) -> float:
            weight = np.maximum(w, 1e-12) ** x[1]
            e = weight * (1 - correct)
            eta1 = -np.cov(e, weight)[0, 1] / max(weight.var(ddof=1), 1e-12)
            rest = e + eta1 * (weight - 1)
            eta2 = -np.cov(rest, correct)[0, 1] / max(correct.var(ddof=1), 1e-12)
            risk = e.mean() + eta1 * weight.mean() - eta1
            risk += eta2 * correct.mean() - eta2 * source_confidence
            return abs(float(confidence(u * t0, x[0]).mean()) - (1 - risk))

        bounds = [(1.0, 20.0), (0.0, 1.0)]
        found = minimize(loss, np.array([2.0, 0.5]), method="SLSQP", bounds=bounds)
        return float(np.log(max(found.x[0], 1.0) / t0))
