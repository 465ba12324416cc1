"""IROvA and IROvATS: a map per class, exact, with absent classes at zero."""

import numpy as np
import pytest

from wildcal.calibrators import (
    IsotonicMultiClass,
    IsotonicOneVsAll,
    ScaledIsotonicOneVsAll,
    TemperatureScaling,
)
from wildcal.core.convert import softmax
from wildcal.core.parallel import use_threads
from wildcal.testing import make_suite

SUITE = make_suite(0, n_ood_tuning=0)
BOTH = [IsotonicOneVsAll, ScaledIsotonicOneVsAll]


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_scikit_learn_per_class(needs, kind, weighted):
    needs("sklearn")
    from sklearn.isotonic import IsotonicRegression

    logits, y = SUITE.tuning.logits.astype(np.float64), SUITE.tuning.y
    weight = np.random.default_rng(0).integers(0, 4, len(y)) / 2 if weighted else None
    test = SUITE.shifted.logits.astype(np.float64)
    fitted = kind(normalize="none").fit(logits, y, sample_weight=weight)
    temperature = getattr(fitted, "temperature_", 1.0)
    got = fitted.predict_proba(test)
    seen, p = softmax(logits, temperature), softmax(test, temperature)
    for k in range(10):
        theirs = IsotonicRegression(out_of_bounds="clip")
        theirs.fit(seen[:, k], y == k, sample_weight=weight)
        expected = np.minimum(theirs.predict(p[:, k]) + 1e-9 * p[:, k], 1)
        np.testing.assert_allclose(got[:, k], expected, atol=1e-12)


@pytest.mark.parametrize("kind", [IsotonicMultiClass, *BOTH])
def test_networks_that_are_far_too_sure_get_the_same_numbers_in_float32(kind):
    """Most of these confidences are 1 in float32, and right ones among them are the surer ones."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(1500, 5))
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    sure = (30 * z).astype(np.float32)
    narrow = kind().fit(sure[:1000], y[:1000])
    wide = kind().fit(sure[:1000].astype(np.float64), y[:1000])
    expected = wide.predict_proba(sure[1000:].astype(np.float64))
    for fitted in (narrow, wide):
        got = fitted.predict_proba(sure[1000:])
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, expected, atol=2e-6)
        one = np.concatenate([fitted.predict_proba(row[None]) for row in sure[1000:1100]])
        np.testing.assert_array_equal(one, got[:100])
    top = wide.confidence(sure[1000:].astype(np.float64))
    np.testing.assert_allclose(narrow.confidence(sure[1000:]), top, atol=2e-6)


def test_the_temperature_is_that_of_the_squared_error():
    fitted = ScaledIsotonicOneVsAll().fit(*SUITE.tuning)
    alone = TemperatureScaling(loss="mse").fit(*SUITE.tuning)
    assert fitted.temperature_ == alone.temperature_


@pytest.mark.parametrize("kind", BOTH)
def test_chunks_and_threads_do_not_matter(monkeypatch, kind):
    expected = kind().fit(*SUITE.tuning)
    proba = expected.predict_proba(SUITE.shifted.logits)
    monkeypatch.setattr("wildcal.calibrators.pairs.CHUNK_ELEMENTS", 1)
    monkeypatch.setattr("wildcal.core.blocks.CLASSES_FIRST_ELEMENTS", 70)
    with use_threads(3):
        pieces = kind().fit(*SUITE.tuning)
        for ours, other in zip(expected.values_, pieces.values_, strict=True):
            np.testing.assert_array_equal(ours, other)
        np.testing.assert_allclose(pieces.predict_proba(SUITE.shifted.logits), proba, rtol=1e-6)


@pytest.mark.parametrize("kind", BOTH)
def test_an_absent_class_is_zero_and_an_empty_row_uniform(kind):
    logits, y = SUITE.tuning
    fitted = kind().fit(logits[y != 3], y[y != 3])
    assert fitted.values_[3].tolist() == [0.0]
    proba = fitted.predict_proba(SUITE.clean.logits)
    assert proba[:, 3].max() <= 0.1 + 1e-6
    alone = np.full((1, 10), -50.0)
    alone[0, 3] = 50.0
    np.testing.assert_allclose(fitted.predict_proba(alone), 0.1, atol=1e-6)


@pytest.mark.parametrize("kind", BOTH)
def test_one_class_only(kind):
    logits, y = SUITE.tuning
    fitted = kind().fit(logits[y == 2], y[y == 2])
    assert [values.max() for values in fitted.values_] == [0, 0, 1] + [0] * 7


def test_the_unnormalized_rows_are_cut_at_one():
    fitted = IsotonicOneVsAll(normalize="none").fit(*SUITE.tuning)
    proba = fitted.predict_proba(SUITE.clean.logits.astype(np.float64))
    assert proba.max() == 1.0
    assert np.abs(proba.sum(axis=1) - 1).max() > 0.05


def test_a_bad_row_is_named_by_its_place_in_the_whole_matrix():
    fitted = IsotonicOneVsAll().fit(*SUITE.tuning)
    many = np.tile(SUITE.clean.logits, (8, 1))
    many[39_000, 2] = np.nan
    with pytest.raises(ValueError, match="row 39000 holds NaN"):
        fitted.predict_proba(many)


@pytest.mark.parametrize("kind", BOTH)
def test_checks_of_what_a_file_may_hold(kind):
    fitted = kind().fit(*SUITE.tuning)
    fitted._check_fitted()
    fitted.values_ = fitted.values_[:-1]
    with pytest.raises(ValueError, match="10 maps"):
        fitted._check_fitted()
    fitted = kind().fit(*SUITE.tuning)
    fitted.thresholds_[4] = fitted.thresholds_[4][::-1]
    with pytest.raises(ValueError, match="must increase"):
        fitted._check_fitted()


def test_the_temperature_in_a_file_is_positive():
    fitted = ScaledIsotonicOneVsAll().fit(*SUITE.tuning)
    fitted.temperature_ = -1.0
    with pytest.raises(ValueError, match="temperature_ must be positive"):
        fitted._check_fitted()
