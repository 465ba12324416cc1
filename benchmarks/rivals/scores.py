"""Scores of a window that a line through the domains turns into an accuracy.

Nuclear norm (Deng et al., ICML 2023), MaNo (Xie et al., NeurIPS 2024) and MDE (Peng et al., ICLR
2024). They are accuracy estimators: `ConfidenceMatching(estimator=NuclearNorm())`.
"""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from scipy.special import log_softmax, logsumexp, softmax

from wildcal.accuracy.base import AccuracyEstimator, AccuracyStatistics
from wildcal.core.validation import Samples


@dataclass(kw_only=True, eq=False, repr=False)
class _Score(AccuracyEstimator):
    summable = False
    default_relative_error = 1.0

    line_: np.ndarray = field(init=False)

    def _score(self, z: np.ndarray) -> float:
        """Return the score of raw logits; `self.calibrator_` has the temperature."""
        raise NotImplementedError

    def _values(self, p: np.ndarray, second_logits: Any = None) -> np.ndarray:
        return p.max(axis=1)

    def fit_samples(self, samples: Samples, *, input: str = "logits") -> Self:
        """Fit a line through source and domains by least squares."""
        super().fit_samples(samples, input=input)
        domain = np.zeros(len(samples), int) if samples.domain is None else samples.domain
        groups = [samples.subset(domain == d) for d in range(samples.n_domains)]
        x = [self._score(g.logits) for g in groups]
        y = [float((g.logits.argmax(axis=1) == g.y).mean()) for g in groups]
        self.line_ = np.polyfit(x, y, 1) if np.ptp(x) > 1e-12 else np.array([0.0, y[0]])
        return self

    def _statistics(self, window: Any, second_logits: Any) -> AccuracyStatistics:
        z = self._checked(window)
        value = float(np.polyval(self.line_, self._score(z)))
        return AccuracyStatistics(self.name, len(z), len(z) * value)


@dataclass(kw_only=True, eq=False, repr=False)
class NuclearNorm(_Score):
    """Sum of singular values of the probabilities, divided by sqrt(min(m, K) m)."""

    name = "nuclear"
    title = "nuclear norm"

    def _score(self, z: np.ndarray) -> float:
        p = softmax(z / self.calibrator_.temperature_, axis=1)
        m, k = p.shape
        gram = p.T @ p if k <= m else p @ p.T
        roots = np.sqrt(np.maximum(np.linalg.eigvalsh(gram), 0))
        return float(roots.sum() / np.sqrt(min(m, k) * m))


@dataclass(kw_only=True, eq=False, repr=False)
class MaNo(_Score):
    """Fourth-power mean of softmax, or of a Taylor map where mean -log softmax is at most 5."""

    name = "mano"
    title = "matrix norm"

    def _score(self, z: np.ndarray) -> float:
        if -log_softmax(z, axis=1).mean() > 5:
            v = softmax(z, axis=1)
        else:
            v = 1 + z + z * z / 2
            v -= v.min(axis=1, keepdims=True)
            v /= np.maximum(v.sum(axis=1, keepdims=True), 1e-12)
        return float((v**4).mean() ** 0.25)


@dataclass(kw_only=True, eq=False, repr=False)
class MDE(_Score):
    """Mean free energy plus logsumexp over samples of minus the free energy, less log m."""

    name = "mde"
    title = "meta-distribution energy"

    def _score(self, z: np.ndarray) -> float:
        energy = logsumexp(z, axis=1)
        return float(energy.mean() + logsumexp(-energy) - np.log(len(z)))
