"""What all maps of the confidence share: the matrix around it, precision, and degenerate sets."""

import numpy as np
import pytest

from wildcal.calibrators import CALIBRATORS
from wildcal.calibrators.top_label import TopLabelMap
from wildcal.core.convert import softmax
from wildcal.core.errors import CalibrationWarning
from wildcal.testing import make_suite

SUITE = make_suite(0, n_ood_tuning=0)
NAMES = [name for name, kind in CALIBRATORS.items() if issubclass(kind, TopLabelMap)]


def test_there_are_five():
    assert sorted(NAMES) == ["bbq", "beta", "histogram", "isotonic", "spline"]


@pytest.mark.parametrize("name", NAMES)
def test_the_other_classes_share_the_rest_in_proportion(name):
    fitted = CALIBRATORS[name]().fit(*SUITE.tuning)
    test = SUITE.shifted.logits[:500].astype(np.float64)
    rows, pred = np.arange(len(test)), test.argmax(axis=1)
    p, got = softmax(test), fitted.predict_proba(test)
    q = fitted.confidence(test)
    expected = p * ((1 - q) / (1 - p[rows, pred]))[:, None]
    expected[rows, pred] = q
    np.testing.assert_allclose(got, expected, atol=1e-7)  # 1 - p loses digits here


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_certain_row_shares_the_rest_equally(name, dtype):
    fitted = CALIBRATORS[name]().fit(SUITE.tuning.logits.astype(dtype), SUITE.tuning.y)
    certain = np.full((1, 10), -1e4, dtype)
    certain[0, 4] = 1e4
    proba = fitted.predict_proba(certain)[0]
    np.testing.assert_allclose(np.delete(proba, 4), (1 - proba[4]) / 9, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_float32_tells_confidences_near_one_apart(name):
    """1 - 1e-9 is 1 in float32, but the sum of the other classes is not 0."""
    rng = np.random.default_rng(0)
    gap = rng.uniform(18, 30, 2000)  # confidences from 1 - 1e-8 to 1 - 1e-13
    logits = np.column_stack([gap, np.zeros(2000)]).astype(np.float32)
    y = (rng.random(2000) > (gap - 15) / 16).astype(int)
    single = CALIBRATORS[name]().fit(logits, y)
    double = CALIBRATORS[name]().fit(logits.astype(np.float64), y)
    np.testing.assert_allclose(
        single.confidence(logits), double.confidence(logits.astype(np.float64)), atol=2e-3
    )
    if name != "histogram":  # its bins are as wide as ever
        assert np.ptp(single.confidence(logits)) > 0.3


@pytest.mark.parametrize("name", NAMES)
def test_better_on_unseen_rows_of_the_same_kind(name):
    fitted = CALIBRATORS[name]().fit(*SUITE.tuning)
    logits, y = SUITE.clean
    correct = logits.argmax(axis=1) == y
    before, after = softmax(logits).max(axis=1), fitted.confidence(logits)
    assert np.square(after - correct).mean() < np.square(before - correct).mean()
    assert abs(after.mean() - correct.mean()) < 0.02
    assert fitted.fit_.loss_after < fitted.fit_.loss_before


@pytest.mark.parametrize("name", NAMES)
def test_all_right_and_all_wrong(name):
    logits = SUITE.tuning.logits[:400]
    pred = logits.argmax(axis=1)
    with pytest.warns(CalibrationWarning, match="every held-out row is right"):
        right = CALIBRATORS[name]().fit(logits, pred)
    assert right.confidence(logits).mean() > 0.95
    with pytest.warns(CalibrationWarning, match="every held-out row is wrong"):
        wrong = CALIBRATORS[name]().fit(logits, (pred + 1) % 10)
    assert wrong.confidence(logits).mean() < 0.05


@pytest.mark.parametrize("name", NAMES)
def test_equal_logits_get_their_accuracy(name):
    y = np.where(np.arange(400) % 4 == 0, 0, 1 + np.arange(400) % 3)
    fitted = CALIBRATORS[name]().fit(np.full((400, 4), 2.0), y)
    np.testing.assert_allclose(fitted.confidence(np.full((1, 4), 2.0)), 0.25, atol=0.01)


@pytest.mark.parametrize("name", NAMES)
def test_weight_zero_is_a_row_left_out(name):
    logits, y = SUITE.tuning.logits[:600], SUITE.tuning.y[:600]
    weight = (np.arange(600) % 3 > 0).astype(float)
    some = CALIBRATORS[name]().fit(logits, y, sample_weight=weight)
    fewer = CALIBRATORS[name]().fit(logits[weight > 0], y[weight > 0])
    test = SUITE.shifted.logits
    np.testing.assert_allclose(some.confidence(test), fewer.confidence(test), atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_the_label_is_kept_even_where_the_matrix_prefers_another(name):
    fitted = CALIBRATORS[name]().fit(*SUITE.tuning)
    test = SUITE.ood.logits
    np.testing.assert_array_equal(fitted.predict(test), test.argmax(axis=1))
    chosen = fitted.predict_proba(test)[np.arange(len(test)), fitted.predict(test)]
    np.testing.assert_array_equal(fitted.confidence(test), chosen)


def test_certain_rows_say_the_same_in_either_precision():
    rng = np.random.default_rng(0)
    z = (60 * rng.normal(size=(400, 10))).astype(np.float32)
    y = (z / 30 + rng.gumbel(size=z.shape)).argmax(axis=1)
    fitted = CALIBRATORS["histogram"]().fit(z, y)
    rows = (60 * rng.normal(size=(2000, 10))).astype(np.float32)
    np.testing.assert_allclose(
        fitted.predict_proba(rows), fitted.predict_proba(rows.astype(np.float64)), atol=1e-6
    )
