"""AP: the temperature of the environment whose accuracy is nearest to the estimated one."""

import warnings
from dataclasses import dataclass, field
from typing import Final, final

import numpy as np

from wildcal.accuracy.estimator import AccuracyEstimator
from wildcal.accuracy.registry import make_estimator
from wildcal.core.arrays import FloatArray, Logits
from wildcal.core.calibrator import FitSummary
from wildcal.core.checks import check_choice, check_temperature
from wildcal.core.errors import CalibrationWarning
from wildcal.core.rows import Rows
from wildcal.core.softmax import predicted_class
from wildcal.core.stored import ARRAY, REAL, TEXT, stored
from wildcal.window.clean import clean_rows, counted, scaled, summary
from wildcal.window.match import ESTIMATOR
from wildcal.window.reader import Told, WindowTemperature

_SCORES: Final = ("atc-ne", "atc-mc")
_NO_ENVIRONMENTS: Final = (
    "there is no shifted environment to choose; fell back to temperature scaling. Give fit the"
    " environment of each row."
)


@final
@dataclass(kw_only=True, eq=False)
class NearestEnvironment(WindowTemperature):
    """p = softmax(z / T_e), e the environment whose accuracy is nearest to that of the window.

    One temperature is fitted in each labeled environment, the clean one included. The accuracy of
    a window is estimated by ATC, which reads the clean labels alone.

    Parameters
    ----------
    estimator
        "atc-ne" (negative entropy) or "atc-mc" (maximum confidence).

    Notes
    -----
    The AP form of Salvador et al., Improving post-hoc calibration under shift, arXiv 2106.03762,
    which has levels of Gaussian noise where we have environments. Of two environments that are
    equally near, the one with the larger temperature is taken.
    """

    name = "ap"
    title = "the temperature of the nearest environment"
    reference = "Salvador et al., 2021"
    stores = "2 numbers an environment, an estimator"
    reads = frozenset({"logits", "environment", "window"})

    estimator: str = field(default="atc-ne", metadata=stored(TEXT))
    temperature_: float = field(init=False, repr=False, metadata=stored(REAL))
    temperatures_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))
    accuracies_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))
    """Of the environments, the clean one first."""
    estimator_: AccuracyEstimator = field(init=False, repr=False, metadata=stored(ESTIMATOR))

    def _check_options(self) -> None:
        check_choice("estimator", self.estimator, _SCORES)

    def _check_fitted(self) -> None:
        if self.temperatures_.ndim != 1 or self.temperatures_.shape != self.accuracies_.shape:
            raise ValueError("there must be one temperature and one accuracy for each environment")
        for value in (self.temperature_, *self.temperatures_.tolist()):
            check_temperature("a temperature", value)
        if not ((self.accuracies_ >= 0) & (self.accuracies_ <= 1)).all():
            raise ValueError("accuracies must lie in [0, 1]")
        if (self.estimator_.name, self.estimator_.n_classes_) != (self.estimator, self.n_classes_):
            raise ValueError(f"the estimator must be {self.estimator} of {self.n_classes_} classes")

    @property
    def uses_window(self) -> bool:
        """Whether there is an environment to choose."""
        return len(self.temperatures_) > 1

    def _fit(self, rows: Rows) -> FitSummary:
        if rows.weight is not None:  # an environment without weight has no temperature
            rows = rows[rows.weight > 0]
        clean = clean_rows(rows)
        fit = scaled(clean)
        mine = counted(clean, self.name)
        with warnings.catch_warnings():  # what the clean rows deserve is said once, by us
            warnings.simplefilter("ignore", CalibrationWarning)
            self.estimator_ = make_estimator(self.estimator).fit(mine.logits[:], mine.labels)
        groups = [clean]
        if rows.environment is not None:
            numbers = np.unique(rows.environment)
            groups += [rows[rows.environment == e] for e in numbers[numbers > 0]]
        self.temperature_ = fit.temperature
        self.temperatures_ = np.array([scaled(group).temperature for group in groups])
        self.accuracies_ = np.array([_accuracy(group) for group in groups])
        return summary(clean, fit, () if len(groups) > 1 else (_NO_ENVIRONMENTS,))

    def _read(self, logits: Logits) -> Told:
        off = np.abs(self.accuracies_ - self.estimator_.value(logits))
        nearest = self.temperatures_[off == off.min()]
        return Told(np.array([nearest.max()]))

    def _describe(self) -> list[str]:
        low, high = self.temperatures_.min(), self.temperatures_.max()
        return [
            f"The logits of a window are divided by one of {len(self.temperatures_)} temperatures,"
            f" {low:.4g} to {high:.4g}: that of the environment with the nearest accuracy.",
            *self.estimator_.describe(),
        ]


def _accuracy(rows: Rows) -> float:
    return float(np.average(predicted_class(rows.logits) == rows.labels, weights=rows.weight))
