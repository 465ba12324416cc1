"""WindowScaling: the warning about small domains, and errors."""

import numpy as np
import pytest

from wildcal import WindowScaling
from wildcal.core.exceptions import CalibrationWarning, InputError, NotFittedError
from wildcal.testing import make_suite
from wildcal.window.base import WindowStatistics


def test_warning_about_small_domains():
    suite = make_suite(1000, 5, seed=0)
    known = suite.calibration.y >= 0
    X = np.concatenate([suite.calibration.logits[known], suite.shifted.logits[:45]])
    y = np.concatenate([suite.calibration.y[known], suite.shifted.y[:45]])
    domain = np.concatenate([np.zeros(known.sum(), int), np.ones(45, int)])
    with pytest.warns(CalibrationWarning, match="smallest domain has 45 samples. Try merging"):
        WindowScaling().fit(X, y, domain=domain)


@pytest.mark.filterwarnings("ignore::wildcal.core.exceptions.CalibrationWarning")
def test_statistics_have_the_classes_of_the_calibrator():
    calibrator = WindowScaling().fit(*make_suite(500, 5, seed=0).test)
    for counts, sums in ((np.ones(4), np.ones(4)), (np.ones(5), np.ones(4))):
        with pytest.raises(InputError, match="window must have two sums for 5 classes"):
            calibrator.adapt(WindowStatistics(counts, sums))
    with pytest.raises(NotFittedError):
        WindowScaling().window_statistics(np.zeros((3, 5)))
