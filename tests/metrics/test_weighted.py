"""Metrics of resampled rows, where a replicate drew one kind of row alone."""

import numpy as np
import pytest

from wildcal._old.metrics.weighted import weighted_auroc, weighted_fpr95, weighted_precision


@pytest.mark.parametrize(
    ("metric", "both"), [(weighted_auroc, 0.75), (weighted_precision, 5 / 6), (weighted_fpr95, 0.5)]
)
def test_a_replicate_without_one_of_the_kinds_is_nan(metric, both):
    # By hand: of positives .9 .4 and negatives .6 .1, three pairs of four stand in order.
    positive, scores = np.array([True, True, False, False]), np.array([0.9, 0.4, 0.6, 0.1])
    every, no_negative, no_positive = [1, 1, 1, 1], [2, 2, 0, 0], [0, 0, 3, 1]
    counts = np.array([every, no_negative, no_positive], float).T
    assert metric(positive, scores, counts) == pytest.approx([both, np.nan, np.nan], nan_ok=True)
