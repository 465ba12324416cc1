"""WindowScaling: small domains are named."""

import numpy as np
import pytest

from wildcal import WindowScaling
from wildcal.core.exceptions import CalibrationWarning
from wildcal.testing import make_suite


def test_small_domains_are_named():
    suite = make_suite(1000, 5, seed=0)
    known = suite.calibration.y >= 0
    X = np.concatenate([suite.calibration.logits[known], suite.shifted.logits[:45]])
    y = np.concatenate([suite.calibration.y[known], suite.shifted.y[:45]])
    domain = np.concatenate([np.zeros(known.sum(), int), np.ones(45, int)])
    with pytest.warns(CalibrationWarning, match="smallest domain has 45 samples. Try merging"):
        WindowScaling().fit(X, y, domain=domain)
