"""Environments that may not show what their labels say are named in a fit."""

import warnings

import numpy as np
import pytest

from wildcal import ContextScaling
from wildcal.core.errors import CalibrationWarning
from wildcal.testing import make_suite

SUITE = make_suite(1, n_tuning=200, n_ood_tuning=0, n_test=500)
LOGITS = np.concatenate([SUITE.tuning.logits, SUITE.shifted.logits])
Y = np.concatenate([SUITE.tuning.y, SUITE.shifted.y])
ENVIRONMENT = np.r_[np.zeros(200, int), 1 + np.repeat(np.arange(5), 100)]


def test_a_fit_warns_of_an_environment_that_changed_its_labels():
    wrong = np.where(ENVIRONMENT == 2, (Y + 1) % 10, Y)
    with pytest.warns(CalibrationWarning, match=r"environment 2: \d+ % right, \d+ points below"):
        fitted = ContextScaling().fit(LOGITS, wrong, environment=ENVIRONMENT)
    assert fitted.fit_.notes[-1].endswith("If not, leave it out.")


def test_strengths_of_one_shift_are_no_reason():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ContextScaling().fit(LOGITS, Y, environment=ENVIRONMENT)
