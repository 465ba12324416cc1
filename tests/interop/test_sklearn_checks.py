"""scikit-learn's estimator checks."""

import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import parametrize_with_checks

from wildcal.interop.sklearn import CalibratedClassifier

pytestmark = pytest.mark.slow

MODELS = [
    CalibratedClassifier(),
    CalibratedClassifier(LogisticRegression()),
    CalibratedClassifier(LogisticRegression(), "energy", cv=3),
    CalibratedClassifier(LogisticRegression(), "vector", cv=3),
    CalibratedClassifier(LogisticRegression(), "irova", cv=3),
    CalibratedClassifier(GaussianNB(), "ts"),
    CalibratedClassifier(RandomForestClassifier(5, random_state=0), cv=3),
]


def expected_failed_checks(model):
    """LinearSVC and random forests do not pass these checks themselves."""
    reason = "weights do not repeat samples: the estimator draws them at random"
    names = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
    is_random = model.estimator is None or hasattr(model.estimator, "n_estimators")
    return dict.fromkeys(names, reason) if is_random else {}


# The checks fit a handful of samples, so calibrators and solvers warn.
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(MODELS, expected_failed_checks=expected_failed_checks)
def test_estimator_checks(estimator, check):
    check(estimator)
