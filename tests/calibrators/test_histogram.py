"""Histogram binning: bins (lo, hi], empty ones left alone."""

import numpy as np
import pytest

from wildcal.calibrators import HistogramBinning
from wildcal.core.convert import logits_from_proba
from wildcal.testing import make_suite


def two_classes(confidence):
    confidence = np.asarray(confidence)
    return logits_from_proba(np.column_stack([confidence, 1 - confidence]))


def test_by_hand():
    # (.5, .75]: two of three right; (.75, 1]: one of one. The other bins are empty.
    logits, y = two_classes([0.6, 0.7, 0.7, 0.9]), np.array([0, 0, 1, 0])
    fitted = HistogramBinning(n_bins=4).fit(logits, y)
    np.testing.assert_allclose(fitted.values_, [0, 0, 2 / 3, 1])
    np.testing.assert_array_equal(fitted.weights_, [0, 0, 3, 1])
    got = fitted.confidence(two_classes([0.55, 0.74, 0.76, 0.99]))
    np.testing.assert_allclose(got, [2 / 3, 2 / 3, 1, 1])


def test_an_edge_belongs_to_the_bin_below():
    fitted = HistogramBinning(n_bins=4)
    assert fitted._bin(np.array([0.0, 0.25, 0.26, 0.5, 1.0])).tolist() == [0, 0, 1, 1, 3]


def test_an_empty_bin_leaves_the_confidence_alone():
    fitted = HistogramBinning(n_bins=10).fit(two_classes([0.95, 0.96]), np.array([0, 1]))
    np.testing.assert_allclose(fitted.confidence(two_classes([0.62, 0.97])), [0.62, 0.5])


def test_options_and_files():
    suite = make_suite(0, n_ood_tuning=0)
    with pytest.raises(ValueError, match="n_bins must be a whole number of at least 1"):
        HistogramBinning(n_bins=0).fit(*suite.tuning)
    fitted = HistogramBinning().fit(*suite.tuning)
    fitted._check_fitted()
    fitted.values_ = fitted.values_ + 0.5
    with pytest.raises(ValueError, match="must lie in"):
        fitted._check_fitted()
    fitted.values_ = fitted.values_[:3]
    with pytest.raises(ValueError, match="15 entries"):
        fitted._check_fitted()


def test_round_numbers_stay_in_the_bin_below_in_every_precision():
    """A forest of a hundred trees answers in hundredths; 0.6 is the edge 9 / 15."""
    confidence = np.arange(51, 100) / 100
    logits = two_classes(confidence)
    fitted = HistogramBinning().fit(two_classes(confidence), np.arange(len(confidence)) % 3 % 2)
    expected = np.ceil(np.arange(51, 100) * 15 / 100 - 1e-9).astype(int) - 1
    for given in (logits, logits.astype(np.float32)):
        np.testing.assert_allclose(fitted.confidence(given), fitted.values_[expected], rtol=1e-6)
