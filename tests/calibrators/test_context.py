"""Context scaling: its formula written out slowly, hostile rows and windows, odd environments."""

import warnings
from copy import copy
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import log_softmax, softmax
from scipy.stats import poisson

import wildcal
import wildcal._old.evaluation
from wildcal._old.calibrators.context import Context, ContextScaling
from wildcal._old.calibrators.context.belief import BELIEFS
from wildcal._old.calibrators.context.constants import shipped, steepest
from wildcal._old.calibrators.context.sums import environment_sums
from wildcal._old.calibrators.temperature import TemperatureScaling
from wildcal._old.core.errors import CalibrationWarning, FileFormatError
from wildcal._old.core.rows import Rows
from wildcal._old.io.artifact import load, save
from wildcal._old.testing import join, make_suite


def environments_of(seed=0, n_classes=4, n=300, dtype=np.float64):
    """Rows of a clean environment (0), five shifted ones (1 to 5) and OOD rows (6)."""
    suite = make_suite(seed, n_classes=n_classes, n_tuning=n, n_ood_tuning=n // 10, n_test=n)
    z, y = join(suite.tuning, suite.shifted)
    clean = np.where(suite.tuning.y >= 0, 0, 6)
    return z.astype(dtype), y, np.r_[clean, 1 + np.repeat(np.arange(5), n // 5)]


Z, Y, E = environments_of()
FITTED = ContextScaling().fit(Z, Y, environment=E)
SHIFTED = make_suite(5, n_classes=4, n_test=500).shifted.logits.astype(np.float64)
CONTEXT = FITTED.context(SHIFTED)
LEARNT = ("beta_p_", "beta_2_", "beta_g_", "lam_", "beta_h_", "counted_")
SECOND = ("border_", "clean_unsure_", "beta_h_", "counted_")
"""What files of versions without a second opinion do not have."""


def fit(z, y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return ContextScaling().fit(z, y, **options)


def learned(fitted):
    return [getattr(fitted, name) for name in LEARNT]


def unsure_rows(fitted):
    return fitted.border_, fitted.clean_unsure_


# The method once more, from the formula.


def slow_temperature(fitted, z, a=0.0):
    """T of each row in a window with an offset."""
    ordered = np.sort(z, axis=1)
    margin = ordered[:, -1] - ordered[:, -2]
    m = np.clip((margin - fitted.clean_margin_[0]) / fitted.clean_margin_[1], -6, 6)
    clean = fitted.clean_temperature_ * np.log1p(np.exp(fitted.bias_ - fitted.margin_weight_ * m))
    steep = fitted.steepest_ * (1 - np.exp(-4 * a)) if a > 0 else 0.0
    return clean * np.exp(a - steep * m)


def slow_confidence(z, t):
    return softmax(z / t[:, None], axis=1).max(axis=1)


def slow_unsure(fitted, z):
    """1 for rows that are unsure when warmest, 0 for the others, on a ramp of 0.1 in between."""
    sure = slow_confidence(z, slow_temperature(fitted, z, 0.9))
    return np.array([min(1, max(0, (fitted.border_ + 0.05 - c) / 0.1)) for c in sure])


def slow_hidden(fitted, z):
    """Of each class that is predicted, the part of all rows that are too many and not unsure."""
    pred, shy, found = z.argmax(axis=1), slow_unsure(fitted, z), {}
    for k in np.unique(pred):
        many, expected = (pred == k).sum(), len(z) * fitted.clean_shares_[k]
        square = (many - expected) ** 2 - 4 * (expected + 1.5)
        beyond = np.sqrt(square) if many > expected and square > 0 else 0
        found[k] = max(0, beyond - shy[pred == k].sum()) / len(z)
    return found


def slow_mean(fitted, z, signs, hidden):
    """The gap that signs and unsure rows tell together, `hidden` as far as it is believed."""
    sure = slow_confidence(z, slow_temperature(fitted, z)).mean()
    second = sure - fitted.clean_confidence_[0] + fitted.beta_h_ * hidden
    second += slow_unsure(fitted, z).mean() - fitted.clean_unsure_
    weight = fitted.counted_ * len(z) / (len(z) + 100)
    return (1 - weight) * signs + weight * second


def slow_chance(q, n, clean_rows):
    k, total = np.arange(500), 0.0
    for share in q:
        rate = n * (clean_rows * share + 1) / (clean_rows + len(q))
        if rate > 60:
            sd, d = np.sqrt(rate), rate - n * share
            phi = np.exp(-((d / sd) ** 2) / 2) / np.sqrt(2 * np.pi)
            from scipy.stats import norm

            total += 2 * sd * phi + d * (2 * norm.cdf(d / sd) - 1)
        else:
            total += (poisson.pmf(k, rate) * np.abs(k - n * share)).sum()
    return total / (2 * n)


def slow_offset(fitted, z):
    """The log temperature of a window."""
    n = len(z)
    c0, c1, c2 = (slow_confidence(z, slow_temperature(fitted, z, a)).mean() for a in (0, 0.4, 0.9))
    f, f_warm = fitted.clean_confidence_[0] - c0, fitted.clean_confidence_[1] - c1
    g, g_warm = (x * n / (n + (2 if x > 0 else 20)) + 0.04 * 2 / (n + 2) for x in (f, f_warm))
    pred, sure = z.argmax(axis=1), slow_confidence(z, slow_temperature(fitted, z))
    q = fitted.clean_shares_
    share = np.bincount(pred, minlength=z.shape[1]) / n
    tv = 0.5 * np.abs(share - q).sum()
    chance = slow_chance(q, n, fitted.clean_rows_)
    v, up = np.sqrt(max(0, tv**2 - chance**2)), max(g, 0)
    price, grown = 0.0, 0.0
    for k in np.unique(pred):
        mean, usual = sure[pred == k].mean(), fitted.clean_by_class_[k]
        mu, x = max(0.02, 2 * mean - 1), max(0, 1 - q[k] / share[k])
        price += share[k] * mu * x ** (1 / mu) + max(0, share[k] * mean - q[k])
        grown += max(0, share[k] - q[k]) * (usual - mean)
    price *= (v / tv) ** 3
    like = fitted.lam_ * max(0, grown) / tv / 0.17
    q2 = ((c2 - c0) / 0.9 - (c1 - c0) / 0.4) / 0.5
    s = -((c1 - c0) / 0.4 - 0.4 * q2)
    mu, spread = fitted.lam_ * up, 0.6 * chance / np.sqrt(n)
    width = 0.43 * mu + 0.01 + 1.2 * np.sqrt(spread)
    far = max(0, v - 0.6 * mu) / width / (1 + like**4)
    far = 0 if fitted.class_mix == "clean" else far
    no_mix = np.exp(-(far**4)) / (1 + (chance / 0.5) ** 8)
    r = no_mix * (v**2 + spread) ** 2 / ((v**2 + spread) ** 2 + (1.35 * mu) ** 4)
    gap = r * (fitted.beta_p_ * price + fitted.beta_2_ * up**2) + (1 - r) * fitted.beta_g_ * g_warm
    gap = slow_mean(fitted, z, gap, no_mix * sum(slow_hidden(fitted, z).values()))
    gap = min(gap, max(c0 - 1 / z.shape[1], 0))
    if s <= 0:  # a sure row that the first steps leave sure
        return 0.0
    return np.clip((s - np.sqrt(max(s * s - 4 * q2 * gap, 0))) / (2 * q2), -1, 2.5)


@pytest.mark.parametrize("n", [1, 2, 32, 200])
def test_the_prediction_is_that_of_the_formula(n):
    window = SHIFTED[:n]
    around, a = FITTED.context(window), slow_offset(FITTED, window)
    assert FITTED.offset(around) == pytest.approx(a, rel=1e-5, abs=1e-8)
    for context, more in ((None, 0.0), (around, a)):
        t = slow_temperature(FITTED, SHIFTED, more)
        expected = softmax(SHIFTED / t[:, None], axis=1)
        got = FITTED.predict_proba(SHIFTED, context=context)
        np.testing.assert_allclose(got, expected, atol=1e-7)
        got = FITTED.temperature(SHIFTED, context=context)
        np.testing.assert_allclose(got, t, rtol=1e-6)


def slow_offset_of_many(fitted, z):
    """The same from 32 classes on, where each class is judged by itself."""
    n, n_classes = z.shape
    c0, c1, c2 = (slow_confidence(z, slow_temperature(fitted, z, a)).mean() for a in (0, 0.4, 0.9))
    falls = fitted.clean_confidence_[:2] - (c0, c1)
    up, g = (f * n / (n + (2 if f > 0 else 20)) + 0.04 * 2 / (n + 2) for f in falls)
    pred, sure = z.argmax(axis=1), slow_confidence(z, slow_temperature(fitted, z))
    price, hidden, sure_of_it = 0.0, 0.0, slow_hidden(fitted, z)
    for k in np.unique(pred):
        many, expected = (pred == k).sum(), n * fitted.clean_shares_[k]
        square = (many - expected) ** 2 - 4 * (expected + 1.5)
        if many <= expected or square <= 0:
            continue
        mean, surplus = sure[pred == k].mean(), np.sqrt(square)
        mu = max(0.02, 2 * mean - 1)
        cost = many * mu * (surplus / many) ** (1 / mu)
        cost += max(0, min(many * mean - expected, surplus))
        less = max(0, fitted.clean_by_class_[k] - mean)
        gate = 1.0 if fitted.class_mix == "clean" else less**4 / (less**4 + 0.07**4)
        price += cost * gate / n
        hidden += sure_of_it[k] * gate
    gap = fitted.beta_p_ * price + fitted.beta_2_ * max(up, 0) ** 2 + fitted.beta_g_ * g
    gap = slow_mean(fitted, z, gap, hidden)
    gap = min(gap, max(c0 - 1 / n_classes, 0))
    q2 = ((c2 - c0) / 0.9 - (c1 - c0) / 0.4) / 0.5
    s = -((c1 - c0) / 0.4 - 0.4 * q2)
    return np.clip((s - np.sqrt(max(s * s - 4 * q2 * gap, 0))) / (2 * q2), -1, 2.5)


def test_rows_far_ahead_lose_less_in_a_shifted_window():
    """And in a clean one all have one temperature; with a thousand classes, everywhere."""
    shape = FITTED._shape()
    m = np.array([-1.0, 0.0, 2.0])
    assert np.ptp(shape.at(m, 0.0)) == np.ptp(shape.at(m, -0.3)) == 0
    moved = np.log(shape.at(m, 0.5) / shape.at(m, 0.0))
    assert moved[0] > moved[1] > moved[2] > 0
    assert moved[1] == pytest.approx(0.5)
    assert steepest(1000) == 0 < steepest(100) < steepest(10) == FITTED.steepest_


def test_the_clean_rows_as_they_were_fitted():
    clean = E == 0
    z, y = Z[clean], Y[clean]
    expected = TemperatureScaling().fit(z, y).temperature_
    assert FITTED.clean_temperature_ == pytest.approx(expected, rel=1e-6)
    # Without a context, mean confidence is accuracy.
    accuracy = (z.argmax(axis=1) == y).mean()
    assert FITTED.confidence(z).mean() == pytest.approx(accuracy, abs=1e-8)
    shares = np.bincount(z.argmax(axis=1), minlength=4) / len(z)
    np.testing.assert_allclose(FITTED.clean_shares_, shares)
    sure = [slow_confidence(z, slow_temperature(FITTED, z, a)) for a in (0, 0.4, 0.9)]
    np.testing.assert_allclose(FITTED.clean_confidence_, [c.mean() for c in sure])
    spread = [c.std() for c in (sure[0], sure[2])]
    np.testing.assert_allclose(FITTED.clean_spread_, spread)
    assert FITTED.clean_rows_ == clean.sum()


def test_about_as_many_clean_rows_are_unsure_as_are_wrong():
    """With weights and without; of rows that are all right, half a one might have been wrong."""
    clean = E == 0
    z, y, n = Z[clean], Y[clean], clean.sum()
    wrong = (z.argmax(axis=1) != y).mean()
    assert FITTED.clean_unsure_ == pytest.approx(slow_unsure(FITTED, z).mean(), rel=1e-9)
    assert FITTED.clean_unsure_ == pytest.approx(wrong, abs=0.003)
    assert 0.1 < FITTED.border_ < 0.9
    weight = np.random.default_rng(0).uniform(0.2, 3, n)
    weighted = fit(z, y, sample_weight=weight)
    wrong = weight @ (z.argmax(axis=1) != y) / weight.sum()
    share = weight @ slow_unsure(weighted, z) / weight.sum()
    assert weighted.clean_unsure_ == pytest.approx(share, rel=1e-9)
    assert weighted.clean_unsure_ == pytest.approx(wrong, abs=0.003)
    right = fit(z, z.argmax(axis=1))
    assert right.clean_unsure_ == pytest.approx(0.5 / (n + 1), rel=0.1)
    assert right.clean_unsure_ == pytest.approx(slow_unsure(right, z).mean(), rel=1e-9)


def test_what_environments_say_by_hand():
    """Each as a window of its rows, by their weights; unsure ones by class, too."""
    known, weight = Y >= 0, np.random.default_rng(0).uniform(0.5, 2, len(Y)) * (Y >= 0)
    found = environment_sums(Z, Y, weight, E, FITTED._features())
    assert found.numbers.tolist() == [0, 1, 2, 3, 4, 5]
    points, pred = found.points(4), Z.argmax(axis=1)
    sure = [slow_confidence(Z, slow_temperature(FITTED, Z, a)) for a in (0, 0.4, 0.9)]
    shy = slow_unsure(FITTED, Z)
    for number in range(6):
        mine = known & (E == number)
        w = weight[mine] / weight[mine].sum()
        each = (pred[mine] == np.arange(4)[:, None]) * w
        assert points.n[number] == points.counted[number] == pytest.approx(weight[mine].sum())
        np.testing.assert_allclose(points.means[number], [c[mine] @ w for c in sure])
        np.testing.assert_allclose(points.shares[number], each.sum(axis=1))
        np.testing.assert_allclose(points.inside[number], each @ sure[0][mine])
        np.testing.assert_allclose(points.unsure[number], each @ shy[mine], atol=1e-12)
        assert points.accuracy[number] == pytest.approx(w @ (pred[mine] == Y[mine]))
    assert (points.unsure[1:].sum(axis=1) > 0).all()


def test_a_shifted_window_is_less_confident_and_the_clean_one_as_it_was():
    assert FITTED.offset(CONTEXT) > 0.1
    assert abs(FITTED.offset(FITTED.context(Z[E == 0]))) < 1e-4


def test_a_window_more_confident_than_clean_rows_is_not_made_less_so():
    sure = Z[(E == 0) & (FITTED.confidence(Z) > 0.95)]
    assert FITTED.offset(FITTED.context(sure)) < 0


# What the environments may be.


def test_numbers_and_order_of_environments_are_irrelevant():
    renamed = np.array([0, 100, 7, 9, 2**40, 1, 3])[E]
    order = np.random.default_rng(0).permutation(len(Y))
    for got in (
        fit(Z, Y, environment=renamed),
        fit(Z[order], Y[order], environment=E[order]),
    ):
        np.testing.assert_allclose(learned(got), learned(FITTED), rtol=1e-9)
        np.testing.assert_allclose(unsure_rows(got), unsure_rows(FITTED), rtol=1e-9)
        assert got.accuracy_error_ == pytest.approx(FITTED.accuracy_error_, rel=1e-9)


def test_weight_two_is_a_row_twice():
    weight = 1.0 + (np.arange(len(Y)) % 3 == 0)
    twice = np.repeat(np.arange(len(Y)), weight.astype(int))
    weighted = fit(Z, Y, environment=E, sample_weight=weight)
    doubled = fit(Z[twice], Y[twice], environment=E[twice])
    np.testing.assert_allclose(learned(weighted), learned(doubled), rtol=1e-6)
    np.testing.assert_allclose(unsure_rows(weighted), unsure_rows(doubled), rtol=1e-6)
    assert weighted.clean_rows_ == doubled.clean_rows_
    around = doubled.context(SHIFTED)
    assert weighted.offset(around) == pytest.approx(doubled.offset(around), rel=1e-5)


@pytest.mark.parametrize("size", [1e10, 1e200, 1e300])
def test_a_huge_row_of_weight_zero_is_no_row(size):
    z, weight = Z.copy(), np.ones(len(Y))
    row = int(np.flatnonzero((E == 0) & (Y >= 0))[5])
    z[row], weight[row] = size * (np.arange(4) == Y[row]), 0.0
    got = fit(z, Y, environment=E, sample_weight=weight)
    kept = weight > 0
    expected = fit(z[kept], Y[kept], environment=E[kept])
    np.testing.assert_allclose(got.clean_margin_, expected.clean_margin_, rtol=1e-9)
    np.testing.assert_allclose(learned(got), learned(expected), rtol=1e-9)


def test_weight_zero_is_no_row():
    weight = (E != 5).astype(float)
    weight[::7] = 0
    some = weight > 0
    weighted = fit(Z, Y, environment=E, sample_weight=weight)
    fewer = fit(Z[some], Y[some], environment=E[some])
    np.testing.assert_allclose(learned(weighted), learned(fewer), rtol=1e-9)
    np.testing.assert_allclose(unsure_rows(weighted), unsure_rows(fewer), rtol=1e-9)
    assert weighted.environments_ == fewer.environments_ == 4


def test_weights_that_sum_to_one_are_warned_about():
    with pytest.warns(CalibrationWarning, match=r"environment of row 0 sum to 0.476.*mean of 1"):
        ContextScaling().fit(Z, Y, environment=E, sample_weight=np.full(len(Y), 1 / len(Y)))


def test_rows_of_other_classes_are_left_out():
    known = Y >= 0
    fewer = fit(Z[known], Y[known], environment=E[known])
    np.testing.assert_array_equal(learned(fewer), learned(FITTED))
    np.testing.assert_array_equal(unsure_rows(fewer), unsure_rows(FITTED))
    assert fewer.environments_ == FITTED.environments_ == 5
    ood = Z[E == 6]
    around = FITTED.context(ood)
    assert FITTED.confidence(ood, context=around).mean() < FITTED.confidence(ood).mean()


@pytest.mark.parametrize("environment", [None, np.zeros(len(Y), int), np.where(E == 6, 6, 0)])
def test_without_shifted_environments_it_takes_what_is_shipped(environment):
    """And does not warn, but says so."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        given = ContextScaling().fit(Z, Y, environment=environment)
    assert learned(given) == list(shipped(Z.shape[1]).numbers())
    assert learned(given)[4:] == learned(FITTED)[4:]  # which environments do not teach
    assert given.environments_ == 0
    assert "networks that come with wildcal" in " ".join(given.describe())
    assert given.offset(given.context(SHIFTED)) > 0.05
    assert np.isinf(given.accuracy_error(0.3))


def test_an_environment_of_one_row_is_no_harm():
    z, y, e = np.vstack([Z, Z[:1]]), np.r_[Y, Y[:1]], np.r_[E, 50]
    fitted = fit(z, y, environment=e)
    np.testing.assert_allclose(learned(fitted), learned(FITTED), rtol=0.2)


def test_one_shifted_environment_is_enough():
    some = E <= 1
    fitted = fit(Z[some], Y[some], environment=E[some])
    assert fitted.environments_ == 1
    assert np.isfinite(learned(fitted)).all()
    assert np.isfinite(fitted.accuracy_error(1.0))


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (E[1:], r"environment must have shape \(630,\), got \(629,\)"),
        (E.astype(float), "environment must be integers, got dtype float64"),
        (E - 1, "environment must not be negative, got -1"),
        (E + 1, "environment 0, the clean one, must have labeled rows"),
    ],
)
def test_environments_that_cannot_be(environment, message):
    with pytest.raises(ValueError, match=message):
        ContextScaling().fit(Z, Y, environment=environment)


# Odd data.


def test_all_right_and_all_wrong_clean_rows():
    right = Z.argmax(axis=1)
    for y in (right, (right + 1) % 4):
        fitted = fit(Z, np.where(E == 0, y, Y), environment=E)
        t = fitted.temperature(SHIFTED, context=fitted.context(SHIFTED))
        assert ((t >= 0.01) & (t <= 100)).all()


def test_a_class_that_clean_rows_never_had():
    z = Z.copy()
    z[E == 0, 3] = -30.0
    y = np.where((E == 0) & (Y == 3), 0, Y)
    fitted = fit(z, y, environment=E)
    assert fitted.clean_shares_[3] == 0
    for window in (SHIFTED[SHIFTED.argmax(axis=1) == 3], SHIFTED):
        assert np.isfinite(fitted.offset(fitted.context(window)))


def test_a_window_all_of_one_class_and_one_of_identical_rows():
    clean = make_suite(6, n_classes=4, n_tuning=3000).tuning.logits[:3000].astype(np.float64)
    one_class = clean[clean.argmax(axis=1) == 2]
    assert FITTED.offset(FITTED.context(one_class)) < 0.05  # and not taken for shift
    same = np.repeat(SHIFTED[:1], 50, axis=0)
    assert -1 <= FITTED.offset(FITTED.context(same)) <= 2.5


def test_a_window_of_one_row_may_lower_confidence_and_hardly_raises_it():
    offset = [FITTED.offset(FITTED.context(row[None])) for row in SHIFTED[:50]]
    assert -0.2 < min(offset) <= 0 < max(offset) <= 2.5


@pytest.mark.parametrize("k", [2, 100, 1000])
def test_few_and_many_classes(k):
    """With 1000 classes there are fewer rows than classes, in the fit and in the window."""
    z, y, e = environments_of(3, n_classes=k, n=200, dtype=np.float32)
    fitted = fit(z, y, environment=e)
    assert fitted.fit_.converged
    x = make_suite(4, n_classes=k, n_test=100).shifted.logits
    proba = fitted.predict_proba(x, context=fitted.context(x))
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(proba.argmax(axis=1), x.argmax(axis=1))
    assert proba.max(axis=1).mean() < fitted.confidence(x).mean()


def test_log_probabilities_will_do():
    fitted = fit(log_softmax(Z, axis=1), Y, environment=E)
    np.testing.assert_allclose(learned(fitted), learned(FITTED), rtol=1e-6)
    x = log_softmax(SHIFTED, axis=1)
    got = fitted.predict_proba(x, context=fitted.context(x))
    expected = FITTED.predict_proba(SHIFTED, context=CONTEXT)
    np.testing.assert_allclose(got, expected, atol=1e-7)


def test_the_unit_of_the_logits_does_not_matter():
    fitted = fit(7 * Z, Y, environment=E)
    got = fitted.predict_proba(7 * SHIFTED, context=fitted.context(7 * SHIFTED))
    np.testing.assert_allclose(got, FITTED.predict_proba(SHIFTED, context=CONTEXT), atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_precision_of_the_logits_hardly_matters(dtype):
    z, x = Z.astype(dtype), SHIFTED.astype(dtype)
    exact, fitted = fit(z.astype(np.float64), Y, environment=E), fit(z, Y, environment=E)
    np.testing.assert_allclose(learned(fitted), learned(exact), atol=1e-4)
    proba = fitted.predict_proba(x, context=fitted.context(x))
    assert proba.dtype == np.float32
    np.testing.assert_allclose(
        proba, exact.predict_proba(x.astype(np.float64), context=exact.context(x)), atol=1e-4
    )


def test_equal_logits():
    fitted = fit(np.full_like(Z, 2.0), Y, environment=E)
    np.testing.assert_allclose(fitted.predict_proba(np.full((3, 4), 2.0)), 0.25)


def test_all_rows_with_a_single_possible_class():
    z = np.where(np.arange(4) == Y[:, None], 3.0, -np.inf)
    z[Y < 0, 0] = 1.0
    fitted = fit(z, Y, environment=E)
    assert np.isfinite(fitted.predict_proba(SHIFTED, context=fitted.context(SHIFTED))).all()


@pytest.mark.parametrize("factor", [1e-30, 1e-3, 1e6, 1e30, 1e250])
def test_tiny_and_huge_logits(factor):
    fitted = fit(Z * factor, Y, environment=E)
    x = SHIFTED * factor
    proba = fitted.predict_proba(x, context=fitted.context(x))
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert np.isfinite(learned(fitted)).all()


def test_nan_is_refused():
    bad = SHIFTED.copy()
    bad[3, 1] = np.nan
    with pytest.raises(ValueError, match="row 3 holds NaN"):
        FITTED.context(bad)


HOSTILE = [
    [1e38, -1e38, 0, 0],
    [3e38, 3e38, 3e38, 3e38],
    [-3e38, -3e38, -3e38, -3e38],
    [5, -np.inf, -np.inf, -np.inf],
    [-np.inf, 2, 2, -np.inf],
    [0, 0, 0, 0],
    [1e4, 0, 0, 0],
    [1e-30, 0, 0, 0],
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_hostile_rows(dtype):
    x = np.array(HOSTILE, dtype)
    for around in (None, CONTEXT, FITTED.context(x), FITTED.context(x[3:4])):
        t = FITTED.temperature(x, context=around)
        assert ((t >= 0.01) & (t <= 100)).all()
        proba = FITTED.predict_proba(x, context=around)
        np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-6)
        chosen = proba[np.arange(len(x)), x.argmax(axis=1)]
        np.testing.assert_array_equal(chosen, proba.max(axis=1))


entries = st.floats(-(2.0**100), 2.0**100, width=32) | st.floats(-20, 20, width=32)
entries |= st.just(-np.inf)
rows = arrays(np.float32, (3, 4), elements=entries).filter(
    lambda z: np.isfinite(z.max(axis=1)).all()
)


@given(rows, rows, rows)
def test_any_rows_in_any_context(x, first, second):
    a, b = FITTED.context(first), FITTED.context(second)
    both = FITTED.context(np.vstack([first, second]))
    merged = a + b
    assert (merged.n, merged.counts) == (both.n, both.counts)
    assert merged.sums == pytest.approx(both.sums, abs=1e-12)
    assert merged.by_class == pytest.approx(both.by_class, abs=1e-12)
    proba = FITTED.predict_proba(x, context=merged)
    assert np.isfinite(proba).all()
    chosen = proba[np.arange(3), x.argmax(axis=1)]
    np.testing.assert_array_equal(chosen, proba.max(axis=1))
    for i in range(3):
        alone = FITTED.predict_proba(x[i : i + 1], context=merged)[0]
        np.testing.assert_array_equal(alone, proba[i])


# Contexts.

sums = st.lists(st.floats(-6, 6), min_size=4, max_size=4)


@settings(max_examples=200)
@given(
    st.lists(st.integers(0, 2**50), min_size=4, max_size=4),
    sums,
    st.lists(st.floats(-6, 6), min_size=8, max_size=8),
)
def test_whatever_a_context_says_the_temperature_is_in_its_bounds(counts, means, parts):
    n = sum(counts)
    inside = [float(count * part) for count, part in zip(counts * 2, parts, strict=True)]
    around = Context(n, tuple(float(n * m) for m in means), tuple(counts), tuple(inside))
    assert -1 <= FITTED.offset(around) <= 2.5
    t = FITTED.temperature(SHIFTED[:5], context=around)
    assert ((t >= 0.01) & (t <= 100)).all()


def test_without_a_context_rows_do_not_depend_on_each_other():
    whole = FITTED.predict_proba(SHIFTED)
    np.testing.assert_array_equal(FITTED.predict_proba(SHIFTED[7:9]), whole[7:9])
    empty = Context(n=0, sums=(0.0,) * 4, counts=(0, 0, 0, 0), by_class=(0.0,) * 8)
    np.testing.assert_array_equal(FITTED.predict_proba(SHIFTED, context=empty), whole)


def test_windows_that_refute_a_known_class_mix_are_warned_of_once():
    """Clean windows and shifted ones are not; nor is anything where the mix is not known."""
    clean, one = E == 0, Z[(E == 0) & (Z.argmax(axis=1) == 1)]
    known = ContextScaling(class_mix="clean").fit(Z, Y, environment=E)
    rows = np.concatenate([one, Z[clean], one])
    window = np.repeat([0, 1, 2], [len(one), clean.sum(), len(one)])
    with pytest.warns(CalibrationWarning, match="context: in 2 of 3 windows the predicted") as all_:
        known.bind(Rows(rows, window=window))
    assert len(all_) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in range(6):
            known.context(Z[E == number])
        ContextScaling().fit(Z, Y, environment=E).context(one)


@pytest.mark.parametrize("learns", [True, False])
def test_a_thousand_classes_and_few_rows_are_no_harm(learns):
    """Environments of 20 rows say nothing of prices; their slope was 242 and spoiled streams."""
    suite = wildcal._old.suites.load("imagenet-resnet18")
    rows = wildcal._old.evaluation.environments(suite)
    clean = rows.environment == 0
    plain = TemperatureScaling().fit(rows.logits[clean], rows.y[clean])
    if learns:
        context = ContextScaling().fit(rows.logits, rows.y, environment=rows.environment)
        assert context.beta_p_ < 2
    else:
        context = ContextScaling().fit(rows.logits[clean], rows.y[clean])
    stream = rows.logits[~clean][rows.y[~clean] >= 0]
    right = (stream.argmax(axis=1) == rows.y[~clean][rows.y[~clean] >= 0]).mean()
    told = context.confidence(stream, context=context.context(stream)).mean()
    assert abs(told - right) < abs(plain.confidence(stream).mean() - right) + 0.01


def test_contexts_of_another_kind_are_refused():
    two = Context(n=1, sums=(0.5, 0.4, 0.3, 0.0), counts=(1, 0))
    with pytest.raises(ValueError, match="context must be of 4 classes, got 2"):
        FITTED.predict_proba(SHIFTED, context=two)
    with pytest.raises(ValueError, match="same number of classes, got 4 and 2"):
        CONTEXT + two
    first = Context(n=1, sums=(0.5, 0.4), counts=(1, 0, 0, 0))
    with pytest.raises(
        ValueError, match="must have 4 sums and 8 by class, those of context, got 2 and 0"
    ):
        FITTED.predict_proba(SHIFTED, context=first)
    with pytest.raises(ValueError, match="from the same calibrator"):
        CONTEXT + first
    with pytest.raises(ValueError, match="context must be what the method `context` returns"):
        FITTED.predict_proba(SHIFTED, context=SHIFTED)


def test_contexts_that_do_not_say_who_made_them_are_read_as_before():
    other = ContextScaling().fit(2 * Z, Y, environment=E)
    silent = replace(CONTEXT, made_by="")
    assert silent == CONTEXT
    assert other.predict_proba(SHIFTED, context=silent).shape == SHIFTED.shape
    with pytest.raises(ValueError, match="context must be made by this calibrator"):
        other.predict_proba(SHIFTED, context=silent + CONTEXT)
    known = ContextScaling(class_mix="clean").fit(Z, Y, environment=E)
    assert known.maker() == FITTED.maker()  # it reads the same sums otherwise


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"n": -5}, "count each of its -5 rows in one class"),
        ({"n": CONTEXT.n + 1}, "count each of its"),
        ({"counts": (-1, *CONTEXT.counts[1:])}, "count each of its"),
        ({"sums": (np.nan, *CONTEXT.sums[1:])}, "finite sums"),
        ({"by_class": (np.inf, *CONTEXT.by_class[1:])}, "finite sums"),
    ],
)
def test_contexts_that_no_window_has_are_refused(changes, said):
    with pytest.raises(ValueError, match=said):
        FITTED.predict_proba(SHIFTED, context=replace(CONTEXT, **changes))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"border_": 0.0}, "border and clean_unsure must be there"),
        ({"clean_unsure_": 0.0}, "border and clean_unsure must be there"),
        ({"belief_": 5}, "belief is not that of 4 classes"),
    ],
)
def test_numbers_of_two_forms_do_not_mix(changes, said):
    other = copy(FITTED)
    for name, value in changes.items():
        setattr(other, name, value)
    with pytest.raises(ValueError, match=said):
        other._check_fitted()


def test_row_statistics_are_what_a_context_adds_up():
    kept = FITTED.row_statistics(SHIFTED)
    assert CONTEXT.sums == pytest.approx(kept.features.sum(axis=1))
    np.testing.assert_array_equal(CONTEXT.counts, np.bincount(kept.pred, minlength=4))
    inside = [kept.features[i, kept.pred == k].sum() for i in (0, 3) for k in range(4)]
    assert CONTEXT.by_class == pytest.approx(inside)


def test_a_context_counts_unsure_rows_by_class():
    """In all, and of each class; whole ones and those on the border."""
    shy, pred = slow_unsure(FITTED, SHIFTED), SHIFTED.argmax(axis=1)
    assert FITTED.features == ("confidence", "warmer", "warmest", "unsure")
    np.testing.assert_allclose(FITTED.row_statistics(SHIFTED).features[3], shy, atol=1e-6)
    assert (len(CONTEXT.sums), len(CONTEXT.by_class)) == (4, 8)
    assert CONTEXT.sums[3] == pytest.approx(shy.sum())
    by_class = [shy[pred == k].sum() for k in range(4)]
    assert CONTEXT.by_class[4:] == pytest.approx(by_class)
    sure = slow_confidence(SHIFTED, slow_temperature(FITTED, SHIFTED))
    assert CONTEXT.by_class[:4] == pytest.approx([sure[pred == k].sum() for k in range(4)])
    assert min(by_class) > 0
    assert {0.0, 1.0} < set(shy)


# Files.


@pytest.mark.parametrize("environment", [E, None])
def test_saved_and_loaded_bit_for_bit(environment, tmp_path):
    fitted = fit(Z, Y, environment=environment)
    save(fitted, tmp_path / "context.json")
    loaded = load(tmp_path / "context.json")
    around = fitted.context(SHIFTED)
    assert loaded.context(SHIFTED) == around
    for context in (None, around):
        assert (
            loaded.predict_proba(SHIFTED, context=context).tobytes()
            == fitted.predict_proba(SHIFTED, context=context).tobytes()
        )
    assert loaded.describe() == fitted.describe()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("clean_margin_", np.zeros(3)),
        ("clean_margin_", np.array([1.0, 0.0])),
        ("clean_confidence_", np.array([0.9, 0.8])),
        ("clean_confidence_", np.array([1.9, 0.8, 0.7])),
        ("clean_spread_", np.array([0.1, 0.0])),
        ("clean_shares_", np.full(5, 0.2)),
        ("clean_shares_", np.array([0.5, 0.5, 0.5, -0.5])),
        ("clean_shares_", np.full(4, 0.2)),
        ("clean_temperature_", 1e-300),
        ("clean_correlation_", 1.1),
        ("clean_rows_", 0),
        ("environments_", -1),
        ("beta_p_", -0.1),
        ("beta_2_", -0.1),
        ("beta_g_", float("inf")),
        ("lam_", -0.1),
        ("beta_h_", -0.1),
        ("beta_h_", float("nan")),
        ("counted_", -0.1),
        ("counted_", 1.1),
        ("clean_unsure_", -0.1),
        ("clean_unsure_", 1.1),
        ("border_", 2.1),
        ("border_", -2.1),
        ("belief_", -1),
        ("belief_", len(BELIEFS)),
        ("accuracy_error_", -1.0),
        ("accuracy_error_slope_", -1.0),
    ],
)
def test_fitted_values_that_cannot_be(name, value, tmp_path):
    fitted = fit(Z, Y, environment=E)
    setattr(fitted, name, value)
    with pytest.raises((ValueError, FileFormatError)):
        save(fitted, tmp_path / "context.json")


@pytest.mark.parametrize("value", [1e300, 0.0])
@pytest.mark.parametrize("name", ["bias_", *LEARNT, "clean_unsure_", "border_", "clean_margin_"])
def test_absurd_fitted_values_still_give_a_temperature_in_its_bounds(name, value):
    fitted = fit(Z, Y, environment=E)
    setattr(fitted, name, np.array([-value, 1e-300]) if name == "clean_margin_" else value)
    for sign in (1, -1):
        if name == "bias_":
            fitted.bias_ = sign * value
        with np.errstate(over="ignore"):
            for around in (replace(CONTEXT, made_by=""), fitted.context(SHIFTED)):
                t = fitted.temperature(SHIFTED, context=around)
                assert ((t >= 0.01) & (t <= 100)).all()


def test_it_stores_as_many_numbers_as_it_says():
    stored = [getattr(FITTED, f.name) for f in fields(FITTED) if not f.init]
    n = sum(np.size(value) for value in stored) - 8
    assert ContextScaling.stores == f"{n} numbers and 2 for each class"


# What it is for, on the shipped suite, by leaving a tuning type out.


@pytest.fixture(scope="module")
def real():
    suite = wildcal._old.suites.load("cifar10-resnet20")

    def other(split):
        return split.corruption != "speckle_noise"

    z, y, e = wildcal._old.evaluation.environments(suite, only=other)
    plain = TemperatureScaling().fit(z[e == 0], y[e == 0])
    return (
        suite.tune("covariate", corruption="speckle_noise", severity=5)[0],
        plain,
        ContextScaling().fit(z, y, environment=e),
    )


def off(split, confidence):
    return abs(confidence.mean() - (split.logits.argmax(axis=1) == split.y).mean())


def test_confidence_is_near_accuracy_on_a_type_left_out(real):
    split, plain, context = real
    before = off(split, plain.confidence(split.logits))
    for size in (1000, 128, 32):
        windows = np.split(split.logits, range(size, len(split.logits), size))
        found = [context.confidence(w, context=context.context(w)) for w in windows]
        assert off(split, np.concatenate(found)) < 0.35 * before


def test_the_error_of_the_accuracy_grows_with_the_offset(real):
    _, _, context = real
    assert 0.005 < context.accuracy_error(0.0) < context.accuracy_error(0.5) < 0.2


def test_numbers_of_others_are_told_with_what_they_may_do():
    clean = ContextScaling().fit(Z[E == 0], Y[E == 0])
    assert "may not, and is made too unsure" in " ".join(clean.describe())
    assert "too unsure" not in " ".join(FITTED.describe())
