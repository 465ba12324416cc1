"""The temperature of the domain with the nearest accuracy (Salvador et al., 2021)."""

from dataclasses import dataclass, field, replace

import numpy as np

from rivals.common import WindowTemperature
from wildcal.accuracy import ATC
from wildcal.calibrators.temperature import fit_temperature
from wildcal.core.calibrator import FitInfo, fit_base
from wildcal.core.validation import Samples


@dataclass(kw_only=True, eq=False, repr=False)
class NearestDomain(WindowTemperature):
    """The accuracy of the window is estimated by ATC; AP of arXiv 2106.03762."""

    name = "nearest"
    title = "nearest domain"

    threshold_: float = field(init=False)
    accuracies_: np.ndarray = field(init=False)
    log_temperatures_: np.ndarray = field(init=False)

    def _fit(self, data: Samples) -> FitInfo:
        self.base_ = fit_base(self._inner(), data, self.input_)
        source = data.subset(data.is_source)
        self.threshold_ = ATC().fit_samples(replace(source, domain=None)).threshold_
        groups = [source] + [data.subset(data.domain == d) for d in range(1, data.n_domains)]
        self.accuracies_ = np.array([(g.logits.argmax(axis=1) == g.y).mean() for g in groups])
        found = [fit_temperature(g).temperature for g in groups]
        self.log_temperatures_ = np.log(np.array(found) / self.base_.temperature_)
        return FitInfo()

    def _log_temperature(self, u: np.ndarray) -> float:
        p = np.exp(u - np.logaddexp.reduce(u, axis=1)[:, None])
        accuracy = ((p * np.log(np.maximum(p, 1e-300))).sum(axis=1) >= self.threshold_).mean()
        nearest = int(np.argmin(np.abs(self.accuracies_ - accuracy)))
        return float(self.log_temperatures_[nearest])
