"""Isotonic regression of the confidence: scikit-learn's numbers, monotone, best of its kind."""

import numpy as np
import pytest

from wildcal.calibrators import TopLabelIsotonic
from wildcal.core.convert import softmax
from wildcal.testing import make_suite

SUITE = make_suite(0, n_ood_tuning=0)


@pytest.mark.parametrize("weighted", [False, True])
def test_equals_scikit_learn(needs, weighted):
    needs("sklearn")
    from sklearn.isotonic import IsotonicRegression

    logits, y = SUITE.tuning.logits.astype(np.float64), SUITE.tuning.y
    weight = np.random.default_rng(0).random(len(y)) if weighted else None
    confidence, pred = softmax(logits).max(axis=1), logits.argmax(axis=1)
    theirs = IsotonicRegression(out_of_bounds="clip")
    theirs.fit(confidence, pred == y, sample_weight=weight)
    ours = TopLabelIsotonic().fit(logits, y, sample_weight=weight)
    test = SUITE.shifted.logits.astype(np.float64)
    expected = theirs.predict(softmax(test).max(axis=1))
    np.testing.assert_allclose(ours.confidence(test), expected, atol=1e-9)


def test_monotone_in_the_confidence():
    fitted = TopLabelIsotonic().fit(*SUITE.tuning)
    order = np.argsort(softmax(SUITE.clean.logits.astype(np.float64)).max(axis=1))
    assert (np.diff(fitted.confidence(SUITE.clean.logits.astype(np.float64))[order]) > -1e-12).all()


def test_mean_confidence_on_the_tuning_rows_is_their_accuracy():
    logits, y = SUITE.tuning
    fitted = TopLabelIsotonic().fit(logits, y)
    accuracy = (logits.argmax(axis=1) == y).mean()
    assert fitted.confidence(logits).mean() == pytest.approx(accuracy, rel=1e-5)


def test_checks_of_what_a_file_may_hold():
    fitted = TopLabelIsotonic().fit(*SUITE.tuning)
    fitted._check_fitted()
    fitted.values_ = fitted.values_[::-1]
    with pytest.raises(ValueError, match="not decrease"):
        fitted._check_fitted()
