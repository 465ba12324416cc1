"""scikit-learn's own checks of an estimator, passed but for those that are listed with reasons."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ShuffleSplit, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import check_estimator

from wildcal import CALIBRATORS
from wildcal.interop.sklearn import CalibratedClassifier, expected_failed_checks
from wildcal.interop.sklearn.method import usable_methods

MODELS = {
    "default": CalibratedClassifier(),
    "default, 3 folds": CalibratedClassifier(cv=3),
    "logistic": CalibratedClassifier(LogisticRegression(), cv=3),
    "no-decision-function": CalibratedClassifier(GaussianNB(), "ts", cv=3),
    "changes-classes": CalibratedClassifier(LogisticRegression(), "vector", cv=3),
    "steps": CalibratedClassifier(LogisticRegression(), "irova", cv=3),
    "ts, 5 folds": CalibratedClassifier(LogisticRegression(), "ts"),
    "vector, 5 folds": CalibratedClassifier(LogisticRegression(), "vector"),
    "irova, 5 folds": CalibratedClassifier(LogisticRegression(), "irova"),
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
    model = CalibratedClassifier(LogisticRegression(), name, cv=3)
    expected = expected_failed_checks(model)
    assert (expected == {}) == CALIBRATORS[name]().preserves_accuracy
    assert all(len(reason) > 20 for reason in expected.values())


@pytest.mark.parametrize(
    ("cv", "many"),
    [
        (2, False),
        (3, False),
        (4, True),
        (None, True),
        (StratifiedKFold(3), False),
        (StratifiedKFold(5), True),
        (ShuffleSplit(5), False),
        ("prefit", False),
    ],
)
def test_few_rows_and_many_folds(cv, many, ten_rows):
    """The check with few rows is expected to fail where fit does refuse so few."""
    model = CalibratedClassifier(LogisticRegression(), "ts", cv=cv)
    assert ("check_fit2d_1feature" in expected_failed_checks(model)) == many
    if many:
        with pytest.raises(ValueError, match="rows of each class, but class 2 has 3"):
            model.fit(*ten_rows)


@pytest.fixture
def ten_rows():
    """The rows of that check: seven of one class, three of another."""
    X = np.linspace(0, 1, 10)[:, None]
    return X, np.where(np.arange(10) < 7, 1, 2)
