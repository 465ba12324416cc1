"""scikit-learn's own checks of an estimator, passed but for those that are listed with reasons."""

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import check_estimator

from wildcal import CALIBRATORS
from wildcal.interop.sklearn import CalibratedClassifier, expected_failed_checks
from wildcal.interop.sklearn.method import usable_methods

MODELS = {
    "default": CalibratedClassifier(cv=3),
    "logistic": CalibratedClassifier(LogisticRegression(), cv=3),
    "no-decision-function": CalibratedClassifier(GaussianNB(), "ts", cv=3),
    "changes-classes": CalibratedClassifier(LogisticRegression(), "vector", cv=3),
    "steps": CalibratedClassifier(LogisticRegression(), "irova", cv=3),
}


# The checks fit on a handful of rows, about which calibrators and solvers complain with reason.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_check_estimator(name):
    model = MODELS[name]
    expected = expected_failed_checks(model)
    results = check_estimator(model, expected_failed_checks=expected, on_skip=None, on_fail="raise")
    assert {r["check_name"] for r in results if r["status"] == "xfail"} == set(expected)
    assert sum(r["status"] == "passed" for r in results) > 50


@pytest.mark.parametrize("name", usable_methods())
def test_every_expected_failure_has_a_reason(name):
    model = CalibratedClassifier(LogisticRegression(), name)
    expected = expected_failed_checks(model)
    assert (expected == {}) == CALIBRATORS[name].preserves_accuracy
    assert all(len(reason) > 20 for reason in expected.values())
