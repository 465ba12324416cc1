"""The bootstrap for many sets at once: who gets all replicates, and that all share the draws."""

import numpy as np
import pytest

from wildcal._old.evaluation.resample import resample
from wildcal._old.metrics.registry import choose_metrics
from wildcal._old.metrics.seen import Seen
from wildcal._old.metrics.top_label import TopLabelAccumulator

METRICS = choose_metrics(["ece", "ks_error"])


@pytest.fixture(scope="module")
def sets():
    rng = np.random.default_rng(0)
    confidence = rng.random((2000, 20))
    correct = rng.random((2000, 20)) < confidence
    tops = [TopLabelAccumulator().update(*rows) for rows in zip(correct, confidence, strict=True)]
    return [Seen(*rows) for rows in zip(correct, confidence, tops, strict=True)]


def test_of_many_sets_costly_metrics_get_fewer_replicates(sets):
    drawn = resample(sets, METRICS, 300)
    assert not np.isnan(drawn["ece"]).any()
    # 2,000 sets and 400,000 replicates in all.
    assert np.isnan(drawn["ks_error"]).sum(axis=1).tolist() == [100] * 2000
    assert not np.isnan(drawn["ks_error"][:, :200]).any()


def test_what_is_drawn_does_not_depend_on_the_other_sets(sets):
    many, few = resample(sets, METRICS, 300), resample(sets[:3], METRICS, 300)
    assert np.array_equal(many["ece"][:3], few["ece"])
    assert np.array_equal(many["ks_error"][:3, :200], few["ks_error"][:, :200])
    assert not np.isnan(few["ks_error"]).any()
