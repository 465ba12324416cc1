"""Temperature scaling with rows of other classes, which aim at the uniform distribution."""

import numpy as np
import pytest

from wildcal import TemperatureScaling
from wildcal.evaluation.methods import parse
from wildcal.testing import make_suite

SUITE = make_suite(3, n_classes=4, n_tuning=400, n_ood_tuning=40, n_test=10)


def test_a_row_of_no_class_is_one_of_each_in_parts():
    z, y = SUITE.tuning
    known = y >= 0
    repeated = np.concatenate([z[known], *(z[~known] for _ in range(4))])
    labels = np.concatenate([y[known], np.repeat(np.arange(4), 40)])
    weight = np.repeat([1.0, 0.25], [400, 160])
    plain = TemperatureScaling().fit(repeated, labels, sample_weight=weight)
    asked = TemperatureScaling(ood=True).fit(z, y)
    assert asked.temperature_ == pytest.approx(plain.temperature_, rel=1e-5)
    assert asked.temperature_ > TemperatureScaling().fit(z[known], y[known]).temperature_
    assert asked.fit_.n_ood == 40


def test_it_must_be_asked_for():
    with pytest.raises(ValueError, match="does not use out-of-distribution rows"):
        TemperatureScaling().fit(*SUITE.tuning)
    assert parse("ts@clean,ood").calibrator.takes_ood
    assert not parse("ts").calibrator.takes_ood
