"""ACE, adaptive calibrator ensemble (Zou, Deng and Zheng, ICCV 2023)."""

from dataclasses import dataclass, field

import numpy as np

from rivals.common import WindowTemperature, confidence, source_of
from wildcal.calibrators.temperature import fit_temperature
from wildcal.core.calibrator import FitInfo, fit_base
from wildcal.core.validation import Samples


@dataclass(kw_only=True, eq=False, repr=False)
class AdaptiveEnsemble(WindowTemperature):
    """1 / T = a / T0 + (1 - a) / T1, a = mean confidence of the window / that of the source.

    T0 is fitted on source samples; T1 on those misclassified and a tenth as many others. Both lie
    in [0.5, 3].
    """

    name = "ace"
    title = "adaptive calibrator ensemble"

    hard_: float = field(init=False)
    confidence_: float = field(init=False)

    def _fit(self, data: Samples) -> FitInfo:
        self.base_ = fit_base(self._inner(), data, self.input_)
        source = source_of(data)
        wrong = source.logits.argmax(axis=1) != source.y
        right = np.flatnonzero(~wrong)
        n = min(int(0.1 * wrong.sum()), len(right))
        hard = wrong.copy()
        hard[np.random.default_rng(333).choice(right, n, replace=False)] = True
        fit = fit_temperature(source.subset(hard), bounds=(0.5, 3.0)) if n else None
        self.hard_ = fit.temperature if fit else self.base_.temperature_
        self.confidence_ = float(confidence(source.logits).mean())
        return FitInfo()

    def _log_temperature(self, u: np.ndarray) -> float:
        t0 = self.base_.temperature_
        a = float(confidence(u * t0).mean()) / self.confidence_
        return float(-np.log(max(t0 * (a / t0 + (1 - a) / self.hard_), 1e-3)))
