"""Which of scikit-learn's own checks the wrapper does not pass, and why."""

from typing import Any, Final

import numpy as np
from sklearn.model_selection import StratifiedKFold, check_cv

from wildcal.interop.sklearn.method import fresh_calibrator

# Rows of the rarest class in the smallest data that the checks fit.
_FOLDS_OF_THE_CHECKS: Final = 3

EXPECTED_FAILED_CHECKS = {
    "the method does not preserve accuracy": {
        "check_classifiers_train": "predict returns the class of the largest score, and a method"
        " that does not preserve accuracy may give another class the largest probability",
    },
    "cv asks for more than three folds": {
        "check_fit2d_1feature": "it fits ten rows, three of them of one class, and each fold needs"
        " a row of every class",
    },
    "the default estimator": {
        "check_sample_weight_equivalence_on_dense_data": "LinearSVC itself does not pass: its"
        " solver visits the rows in random order",
        "check_sample_weight_equivalence_on_sparse_data": "LinearSVC itself does not pass: its"
        " solver visits the rows in random order",
    },
}
"""When, which, and why."""


def expected_failed_checks(model: Any) -> dict[str, str]:
    """Return the checks that a CalibratedClassifier fails by design, each with the reason.

    It goes into `sklearn.utils.estimator_checks.parametrize_with_checks`, and its result into
    `check_estimator`, as `expected_failed_checks`. With an estimator of your own, what that
    estimator does not pass comes on top.
    """
    expected: dict[str, str] = {}
    if not fresh_calibrator(model.method).preserves_accuracy:
        expected |= EXPECTED_FAILED_CHECKS["the method does not preserve accuracy"]
    if _stratified_folds(model.cv) > _FOLDS_OF_THE_CHECKS:
        expected |= EXPECTED_FAILED_CHECKS["cv asks for more than three folds"]
    if model.estimator is None:
        expected |= EXPECTED_FAILED_CHECKS["the default estimator"]
    return expected


def _stratified_folds(cv: Any) -> int:
    """Return how many folds `cv` stands for, each with rows of every class; 0 for other splits."""
    if isinstance(cv, StratifiedKFold):
        return int(cv.get_n_splits())
    if cv is None:
        return int(check_cv(cv).get_n_splits())
    return int(cv) if isinstance(cv, int | np.integer) else 0
