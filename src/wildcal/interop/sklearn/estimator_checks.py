"""Which of scikit-learn's own checks the wrapper does not pass, and why."""

from typing import Any

from wildcal.interop.sklearn.method import make_calibrator

EXPECTED_FAILED_CHECKS = {
    "the method does not preserve accuracy": {
        "check_classifiers_train": "predict returns the class of the largest score, and a method"
        " that does not preserve accuracy may give another class the largest probability",
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
    if not make_calibrator(model.method).preserves_accuracy:
        expected |= EXPECTED_FAILED_CHECKS["the method does not preserve accuracy"]
    if model.estimator is None:
        expected |= EXPECTED_FAILED_CHECKS["the default estimator"]
    return expected
