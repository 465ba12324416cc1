"""Density-aware calibration keeps the contract too, with distances made up from the rows."""

import pytest

from wildcal.calibrators import make_calibrator
from wildcal.testing import CALIBRATOR_CHECKS


@pytest.mark.parametrize("check", CALIBRATOR_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", ["dac", "dac+ets", "dac+spline", "dac+energy", "dac+context"])
def test_contract(name, check):
    check(lambda: make_calibrator(name))
