"""A method of the user that needs a column says so in one line when it is not there."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from wildcal import TemperatureScaling
from wildcal.core.calibrator import FitSummary
from wildcal.core.rows import Rows

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(40, 3))
Y = RNG.integers(0, 3, 40)


@dataclass
class Means(TemperatureScaling):
    """Counts environments before it fits."""

    name = "means-of-tests"
    reads = frozenset({"logits", "environment"})
    counts_: list[int] = field(init=False, default_factory=list)

    def _fit(self, rows: Rows) -> FitSummary:
        self.counts_ = [int((rows.environment == 0).sum()), int(rows.environment.max())]
        return super()._fit(rows)


@dataclass
class Broken(TemperatureScaling):
    """Fails whatever it is given."""

    name = "broken-of-tests"
    reads = frozenset({"logits", "environment"})

    def _fit(self, rows: Rows) -> FitSummary:
        raise TypeError("of its own")


def test_a_missing_column_is_named():
    with pytest.raises(ValueError, match="Means needs environment: an integer for each row, 0 for"):
        Means().fit(LOGITS, Y)
    assert Means().fit(LOGITS, Y, environment=np.arange(40) % 2).counts_ == [20, 1]


def test_other_errors_of_a_method_stay_what_they_are():
    with pytest.raises(TypeError, match="of its own"):
        Broken().fit(LOGITS, Y, environment=np.zeros(40, int))
