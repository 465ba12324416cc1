"""Every registered calibrator keeps every clause of the contract."""

import pytest

from wildcal import CALIBRATORS
from wildcal.testing import CALIBRATOR_CHECKS


@pytest.mark.parametrize("check", CALIBRATOR_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", CALIBRATORS)
def test_contract(name, check):
    check(CALIBRATORS[name])
