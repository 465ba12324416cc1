"""One temperature so that mean confidence is an estimated accuracy: any estimator calibrates."""

import warnings
from dataclasses import dataclass, field
from typing import Final, final

import numpy as np

from wildcal._old.accuracy.artifact import describe_file, rebuild
from wildcal._old.accuracy.estimator import AccuracyEstimator
from wildcal._old.accuracy.registry import ESTIMATORS, make_estimator
from wildcal._old.core.arrays import Logits
from wildcal._old.core.calibrator import FitSummary
from wildcal._old.core.checks import check_choice, check_temperature
from wildcal._old.core.errors import CalibrationWarning
from wildcal._old.core.rows import Rows
from wildcal._old.core.stored import REAL, TEXT, Written, stored
from wildcal._old.window.clean import clean_rows, counted, scaled, summary
from wildcal._old.window.matching import match_temperature, matchable
from wildcal._old.window.reader import Told, WindowTemperature

ESTIMATOR: Final = Written(describe_file, rebuild)
"""How a fitted accuracy estimator stands in the file of a calibrator."""
MATCHABLE: Final = tuple(name for name, kind in ESTIMATORS.items() if not kind.needs_second)
"""Estimators that a calibrator can ask: those that need no second network."""

_OUT_OF_RANGE: Final = (
    "the estimated accuracy is below 1/K + 0.001 or above 0.9999, which no mean confidence is; the"
    " nearest of these was matched."
)
_OTHER_MIX: Final = (
    "the predicted classes differ from the clean ones more than chance and lost confidence explain,"
    " but the estimate assumes the clean class mix. Use match+atc-ne or context."
)


@final
@dataclass(kw_only=True, eq=False)
class MatchedConfidence(WindowTemperature):
    """p = softmax(z / T), T such that the mean confidence of the window is its estimated accuracy.

    The estimate is that of any method of `wildcal._old.accuracy`; it inherits their assumptions (about
    the class mix, or the size of the window), and warns where they are refuted. A row without a
    window is divided by the temperature of the clean rows.

    Parameters
    ----------
    estimator
        Short name of an accuracy estimator, such as "cot" or "atc-ne".

    Notes
    -----
    The objective, one-bin ECE, is that of Wang et al. (TransCal, NeurIPS 2020); Penso and
    Goldberger (2024) match bin by bin, Kim et al. (NeurIPS 2024) match an estimate by agreement.
    The estimate is cut to [1/K + 0.001, 0.9999], log T to [-4, 5], with a warning. Weights of rows
    must be whole numbers, since estimators count rows.

    Examples
    --------
    >>> import wildcal
    >>> suite = wildcal._old.suites.load("cifar10-resnet20")
    >>> clean, window = suite.split("validation"), suite.split("validation-spatter-4").logits
    >>> calibrator = MatchedConfidence(estimator="atc-ne").fit(clean.logits, clean.y)
    >>> around = calibrator.context(window)
    >>> mean = calibrator.confidence(window, context=around).astype(float).mean()
    >>> abs(mean - calibrator.estimator_.estimate(window).value) < 1e-6
    np.True_
    """

    reference = "after Wang et al., NeurIPS 2020 (TransCal)"

    estimator: str = field(default="atc-ne", metadata=stored(TEXT))
    temperature_: float = field(init=False, repr=False, metadata=stored(REAL))
    estimator_: AccuracyEstimator = field(init=False, repr=False, metadata=stored(ESTIMATOR))

    @property
    def name(self) -> str:  # type: ignore[override]
        """Its short name, with that of the estimator."""
        return f"match+{self.estimator}"

    @property
    def title(self) -> str:  # type: ignore[override]
        """What to call it in a sentence, with the estimator."""
        kind = ESTIMATORS.get(self.estimator)
        return f"one temperature matched to {kind.title if kind else self.estimator}"

    @property
    def stores(self) -> str:  # type: ignore[override]
        """What it stores."""
        return "1 number and an accuracy estimator"

    @property
    def reads(self) -> frozenset[str]:  # type: ignore[override]
        """A window, and environments where the estimator learns from them."""
        kind = ESTIMATORS.get(self.estimator)
        more = {"environment"} if kind is not None and kind.learns_from_environments else set()
        return frozenset({"logits", "window"} | more)

    @property
    def shift_invariant(self) -> bool:  # type: ignore[override]
        """Whether the estimator is; without a window it always is."""
        kind = ESTIMATORS.get(self.estimator)
        return kind is None or kind.shift_invariant

    def _check_options(self) -> None:
        check_choice("estimator", self.estimator, MATCHABLE)

    def _check_fitted(self) -> None:
        check_temperature("temperature_", self.temperature_)
        found = self.estimator_.name, self.estimator_.n_classes_
        if found != (self.estimator, self.n_classes_):
            raise ValueError(f"the estimator must be {self.estimator} of {self.n_classes_} classes")

    def _fit(self, rows: Rows) -> FitSummary:
        clean = clean_rows(rows)
        fit = scaled(clean)
        estimator = make_estimator(self.estimator)
        mine = counted(rows, self.name)
        with warnings.catch_warnings():  # what the clean rows deserve is said once, by us
            warnings.simplefilter("ignore", CalibrationWarning)
            self.estimator_ = estimator.fit(
                mine.logits[:], mine.labels, mine.environment, errors=False
            )
        self.temperature_ = fit.temperature
        return summary(clean, fit)

    def _read(self, logits: Logits) -> Told:
        value = self.estimator_.value(logits)
        temperature, no_match = match_temperature(logits, value)
        doubt = _OTHER_MIX if self.estimator_.refutes_class_mix(logits) else ""
        if not doubt and matchable(value, self.n_classes_) != value:
            doubt = _OUT_OF_RANGE
        return Told(np.array([temperature]), tuple(note for note in (doubt, no_match) if note))

    def _describe(self) -> list[str]:
        return [
            "The logits of a window are divided by what makes its mean confidence the estimated"
            f" accuracy; a row without a window by {self.temperature_:.4g}.",
            *self.estimator_.describe(),
        ]
