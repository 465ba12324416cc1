"""The first form of context scaling: its formula written out slowly, hostile rows, odd groups."""

import warnings
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import log_softmax, logsumexp, softmax

import wildcal
import wildcal.evaluation
from wildcal import EnergyScaling, FirstContextScaling, TemperatureScaling
from wildcal.calibrators.context.environments import (
    context_columns,
    group,
    light_note,
    same_class_rate,
)
from wildcal.calibrators.context.features import MARGIN, clean_units, raw_features
from wildcal.core.checks import check_environment
from wildcal.core.errors import CalibrationWarning, FileFormatError
from wildcal.testing import join, make_suite


def environments_of(seed=0, n_classes=4, n=300, dtype=np.float64):
    """Rows of a clean environment (0), five shifted ones (1 to 5) and OOD rows (6)."""
    suite = make_suite(seed, n_classes=n_classes, n_tuning=n, n_ood_tuning=n // 10, n_test=n)
    z, y = join(suite.tuning, suite.shifted)
    clean = np.where(suite.tuning.y >= 0, 0, 6)
    return z.astype(dtype), y, np.r_[clean, 1 + np.repeat(np.arange(5), n // 5)]


Z, Y, E = environments_of()
FITTED = FirstContextScaling().fit(Z, Y, environment=E)
SHIFTED = make_suite(5, n_classes=4, n_test=500).shifted.logits.astype(np.float64)
CONTEXT = FITTED.context(SHIFTED)


def fit(z, y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return FirstContextScaling().fit(z, y, **options)


def objective_of(fitted, z, y, environment, weight=None):
    """The loss that `fit` minimizes, with the temperature and the units it found."""
    weight = np.ones(len(y)) if weight is None else weight
    clean = (environment == 0) & (y >= 0)
    raw, pred = raw_features(z, fitted.clean_temperature_)
    units = clean_units(raw[:, clean], weight[clean], fitted.clean_temperature_)
    features = np.stack([units.of(row, i) for i, row in enumerate(raw)])
    k = z.shape[1]
    groups = group(features, pred, y, weight, environment, k, fitted.clean_same_class_)
    return fitted._objective(z, y, groups, features[MARGIN])


# The method once more, row by row, from its docstring.


def slow_features(z, temperature):
    ordered = np.sort(z, axis=1)
    return np.array(
        [
            logsumexp(z, axis=1),
            ordered[:, -1] - ordered[:, -2],
            softmax(z / temperature, axis=1).max(axis=1),
        ]
    )


def slow_rate(pred, weight):
    """How often two different rows share a class; row i stands there weight[i] times."""
    total = pairs = 0.0
    for i in range(len(pred)):
        for j in range(len(pred)):
            times = weight[i] * (weight[j] - (i == j))
            pairs += times * (pred[i] == pred[j])
            total += times
    return pairs / total


def slow_loss(phi, z, y, environment, weight, temperature, penalty, bounds=(0.01, 100)):
    raw = slow_features(z, temperature)
    clean = environment == 0
    mean = np.average(raw[:, clean], axis=1, weights=weight[clean])
    std = np.sqrt(np.average((raw[:, clean].T - mean) ** 2, axis=0, weights=weight[clean]))
    energy, margin, confidence = np.clip((raw.T - mean) / std, -6, 6).T
    pred = z.argmax(axis=1)

    def shares(rows):
        return np.array([weight[rows & (pred == k)].sum() for k in range(z.shape[1])]) / (
            weight[rows].sum()
        )

    clean_rate = (shares(clean) ** 2).sum()

    def mean_nll(rows, columns):
        total = 0.0
        for i in np.flatnonzero(rows):
            eta = phi @ [1.0, margin[i], *columns]
            log_p = log_softmax(z[i] / np.clip(np.log1p(np.exp(eta)), *bounds))
            total -= weight[i] * (log_p[y[i]] if y[i] >= 0 else log_p.mean())
        return total / weight[rows].sum()

    numbers = [e for e in np.unique(environment) if e]
    semantic = [e for e in numbers if (y[environment == e] < 0).all()]
    shifted = [e for e in numbers if e not in semantic]
    share = {0: 1.0}
    share.update({e: 5 / len(shifted) for e in shifted})
    share.update({e: 0.1 / len(semantic) for e in semantic})
    loss, pooled, classes = 0.0, np.zeros(2), np.zeros(z.shape[1])
    for e in share:
        rows = environment == e
        n = weight[rows].sum()
        means = np.average([energy[rows], confidence[rows]], axis=1, weights=weight[rows])
        g_e, g_c = n / (n + 4) * means
        r = n / (n + 4) * (slow_rate(pred[rows], weight[rows]) / clean_rate - 1)
        loss += share[e] * mean_nll(rows, [g_e, g_c, -g_c * np.clip(r, -0.5, 6)])
        if e not in semantic:
            pooled += share[e] / 6 * means
            classes += share[e] / 6 * shares(rows)
    g_e, g_c = pooled
    mixture = [g_e, g_c, -g_c * ((classes**2).sum() / clean_rate - 1)]
    for e in (0, *shifted):
        loss += len(shifted) / 6 * share[e] / 6 * mean_nll(environment == e, mixture)
    return loss / (sum(share.values()) + len(shifted) / 6) + penalty / 2 * (phi[1:] @ phi[1:])


@pytest.mark.parametrize(
    "phi", [[1.0, 0, 0, 0, 0], [0.5, -0.3, -0.2, -0.6, 0.4], [3.0, 0.8, 1.0, -2.0, -1.0]]
)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_is_that_of_the_formula(phi, weighted):
    z, y, e = environments_of(1, n=60)
    weight = 1.0 + np.arange(len(y)) % 3 if weighted else np.ones(len(y))
    fitted = fit(z, y, environment=e, sample_weight=weight)
    assert fitted.clean_temperature_ == pytest.approx(
        TemperatureScaling().fit(z[e == 0], y[e == 0], sample_weight=weight[e == 0]).temperature_,
        rel=1e-6,
    )
    got = objective_of(fitted, z, y, e, weight)(np.array(phi)).value
    expected = slow_loss(np.array(phi), z, y, e, weight, fitted.clean_temperature_, 1e-3)
    assert got == pytest.approx(expected, rel=1e-10)


def test_the_fit_is_where_the_slow_loss_is_flat():
    z, y, e = environments_of(1, n=60)
    fitted = fit(z, y, environment=e)
    assert fitted.fit_.converged

    def loss(phi):
        return slow_loss(phi, z, y, e, np.ones(len(y)), fitted.clean_temperature_, 1e-3)

    at, step = fitted.coefficients_, 1e-4
    assert fitted.fit_.loss_after == pytest.approx(loss(at), rel=1e-9)
    for unit in step * np.eye(5):
        assert abs(loss(at + unit) - loss(at - unit)) / (2 * step) < 1e-6
        assert loss(at) < loss(at + unit)
        assert loss(at) < loss(at - unit)


def test_the_prediction_is_that_of_the_formula():
    raw = slow_features(SHIFTED, FITTED.clean_temperature_)
    scaled = (raw - FITTED.clean_mean_[:, None]) / FITTED.clean_std_[:, None]
    energy, margin, confidence = np.clip(scaled, -6, 6)
    n, pred = len(SHIFTED), SHIFTED.argmax(axis=1)
    g_e, g_c = n / (n + 4) * np.array([energy.mean(), confidence.mean()])
    r = n / (n + 4) * (slow_rate(pred, np.ones(n)) / FITTED.clean_same_class_ - 1)
    offset = FITTED.coefficients_[2:] @ [g_e, g_c, -g_c * r]
    assert FITTED.offset(CONTEXT) == pytest.approx(offset, rel=1e-9)
    b, w = FITTED.coefficients_[:2]
    for context, more in ((None, 0.0), (CONTEXT, offset)):
        t = np.log1p(np.exp(b + w * margin + more))
        np.testing.assert_allclose(FITTED.temperature(SHIFTED, context=context), t, rtol=1e-9)
        expected = softmax(SHIFTED / t[:, None], axis=1)
        np.testing.assert_allclose(
            FITTED.predict_proba(SHIFTED, context=context), expected, atol=1e-10
        )
        np.testing.assert_allclose(
            FITTED.confidence(SHIFTED, context=context), expected.max(axis=1), atol=1e-10
        )


def test_derivatives_are_those_of_finite_differences():
    objective = objective_of(FITTED, Z, Y, E)
    phi, step = np.array([0.9, -0.4, 0.3, -0.8, 0.2]), 1e-5
    at = objective(phi)
    for i, unit in enumerate(step * np.eye(5)):
        up, down = objective(phi + unit), objective(phi - unit)
        slope = (up.value - down.value) / (2 * step)
        assert at.gradient[i] == pytest.approx(slope, rel=1e-6, abs=1e-9)
        curvature = (up.gradient - down.gradient) / (2 * step)
        np.testing.assert_allclose(at.hessian[i], curvature, rtol=1e-5, atol=1e-8)


def test_the_gradient_vanishes_at_the_fit():
    assert np.abs(objective_of(FITTED, Z, Y, E)(FITTED.coefficients_).gradient).max() < 1e-9


def test_the_subset_to_start_from_does_not_show_in_the_result():
    z, y, e = environments_of(2, n=5000)
    fitted = fit(z, y, environment=e)
    objective = objective_of(fitted, z, y, e)
    (few,) = objective.warm_up(2000)
    assert 2000 <= len(few.logits) < 4000
    assert np.shares_memory(few.logits, z)
    assert np.abs(objective(fitted.coefficients_).gradient).max() < 1e-8
    assert objective.warm_up(len(y)) == []


# What the environments may be.


def test_numbers_and_order_of_environments_are_irrelevant():
    renamed = np.array([0, 100, 7, 9, 2**40, 1, 3])[E]
    huge = np.array([0, 2**63, 2**64 - 1, 5, 2**63 + 1, 2**64 - 2, 9], np.uint64)[E]
    order = np.random.default_rng(0).permutation(len(Y))
    for got in (
        fit(Z, Y, environment=renamed),
        fit(Z, Y, environment=huge),
        fit(Z, Y, environment=E.astype(np.uint8)),
        fit(Z[order], Y[order], environment=E[order]),
    ):
        np.testing.assert_allclose(got.coefficients_, FITTED.coefficients_, rtol=1e-6)
        assert got.accuracy_error_ == pytest.approx(FITTED.accuracy_error_, rel=1e-6)
        assert got.clean_same_class_ == pytest.approx(FITTED.clean_same_class_)


def test_environments_are_numbered_anew():
    """So that numbers of any size can be counted on from; the clean one stays 0."""
    numbers = check_environment(np.array([2**63, 0, 2**64 - 1, 0], np.uint64), np.zeros(4), None)
    assert numbers.tolist() == [1, 0, 2, 0]
    assert numbers.dtype == np.int64


@settings(max_examples=15)
@given(st.permutations(range(1, 7)))
def test_shifted_environments_may_be_renamed(names):
    named = fit(Z, Y, environment=np.array([0, *names])[E])
    np.testing.assert_allclose(named.coefficients_, FITTED.coefficients_, rtol=1e-6)


def test_weight_two_is_a_row_twice():
    weight = 1.0 + (np.arange(len(Y)) % 3 == 0)
    twice = np.repeat(np.arange(len(Y)), weight.astype(int))
    weighted = fit(Z, Y, environment=E, sample_weight=weight)
    doubled = fit(Z[twice], Y[twice], environment=E[twice])
    np.testing.assert_allclose(weighted.coefficients_, doubled.coefficients_, rtol=1e-6)
    np.testing.assert_allclose(weighted.clean_mean_, doubled.clean_mean_, rtol=1e-12)
    np.testing.assert_allclose(weighted.clean_std_, doubled.clean_std_, rtol=1e-12)
    assert weighted.accuracy_error_ == pytest.approx(doubled.accuracy_error_, rel=1e-6)


def test_weights_that_sum_to_one_are_warned_about():
    """A weight counts rows, so these are windows of no rows, which are not believed."""
    with pytest.warns(CalibrationWarning, match=r"environment of row 330 sum to 0.0952.*mean of 1"):
        FirstContextScaling().fit(Z, Y, environment=E, sample_weight=np.full(len(Y), 1 / len(Y)))


def test_the_mixture_takes_in_ood_rows_of_labeled_environments():
    """And leaves out environments that are nothing else."""
    y = np.where(np.arange(len(Y)) == np.flatnonzero(E == 2)[0], -1, Y)
    raw, pred = raw_features(Z, 1.0)
    groups = group(raw, pred, y, np.ones(len(y)), E, 4, 0.25)
    assert (groups.mixture_weight[E == 2] > 0).all()
    assert (groups.mixture_weight[E == 6] == 0).all()


def test_many_environments_keep_their_rows():
    n, rng = 100_000, np.random.default_rng(0)
    y, environment = rng.integers(0, 4, n), rng.permutation(np.arange(n) // 5)
    pred = np.where(rng.uniform(size=n) < 0.6, y, rng.integers(0, 4, n))
    groups = group(rng.normal(size=(3, n)), pred, y, np.ones(n), environment, 4, 0.25)
    assert "environment of row" in light_note(np.full(n, 0.5), groups.rows)
    assert light_note(np.ones(n), groups.rows) is None
    mine = np.flatnonzero(environment == 12_345)
    np.testing.assert_array_equal(groups.rows[12_345], mine)
    np.testing.assert_allclose(groups.weight[mine], 5 / 19_999 / 5)


def test_weight_zero_is_no_row():
    weight = (E != 5).astype(float)
    weight[::7] = 0
    some = weight > 0
    weighted = fit(Z, Y, environment=E, sample_weight=weight)
    without = fit(Z[some], Y[some], environment=E[some])
    np.testing.assert_allclose(weighted.coefficients_, without.coefficients_, rtol=1e-6)
    assert weighted.clean_rows_ == without.clean_rows_


def test_other_classes_raise_the_temperature_of_ood_rows():
    ood = make_suite(8, n_classes=4, n_test=2000).ood.logits
    known = E != 6
    without = fit(Z[known], Y[known], environment=E[known])
    assert (FITTED.fit_.n_ood, without.fit_.n_ood) == (30, 0)
    colder = without.temperature(ood, context=without.context(ood)).mean()
    around = FITTED.context(ood)
    assert FITTED.temperature(ood, context=around).mean() > colder
    assert FITTED.confidence(ood, context=around).mean() < FITTED.confidence(ood).mean()


def test_an_environment_of_one_row_is_no_harm():
    z, y, e = np.vstack([Z, Z[:1]]), np.r_[Y, Y[:1]], np.r_[E, 50]
    fitted = fit(z, y, environment=e)
    assert fitted.fit_.converged
    assert np.isfinite(fitted.coefficients_).all()


@pytest.mark.parametrize("environment", [np.zeros(len(Y), int), np.where(E == 6, 6, 0)])
def test_without_shifted_environments_it_is_energy_scaling(environment):
    with pytest.warns(CalibrationWarning, match="no shifted environment"):
        fallen = FirstContextScaling().fit(Z, Y, environment=environment)
    expected = EnergyScaling().fit(Z, Y)
    assert fallen.fallback_ is not None
    assert fallen.fit_.loss == "mse"
    assert fallen.fit_.loss_after == expected.fit_.loss_after
    around = fallen.context(SHIFTED)
    for context in (None, around):
        got = fallen.predict_proba(SHIFTED, context=context)
        np.testing.assert_array_equal(got, expected.predict_proba(SHIFTED))
    assert fallen.offset(around) == 0
    assert "energy scaling" in fallen.describe()[0]


def test_a_fallback_says_everything_once():
    pred = Z.argmax(axis=1)
    with pytest.warns(CalibrationWarning) as caught:
        FirstContextScaling().fit(Z, pred)
    texts = [str(warning.message) for warning in caught]
    assert len(texts) == len(set(texts))
    assert sum("at its bound" in text for text in texts) == 1


def test_a_later_fit_with_environments_forgets_the_fallback():
    calibrator = fit(Z, Y)
    assert calibrator.fallback_ is not None
    calibrator.fit(Z, Y, environment=E)
    assert calibrator.fallback_ is None
    np.testing.assert_array_equal(calibrator.coefficients_, FITTED.coefficients_)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (E[1:], r"environment must have shape \(630,\), got \(629,\)"),
        (E[:, None], "environment must have shape"),
        (E.astype(float), "environment must be integers, got dtype float64"),
        (E.astype(str), "environment must be integers"),
        (E - 1, "environment must not be negative, got -1"),
        (E + 1, "environment 0, the clean one, must have labeled rows"),
        (np.where(Y < 0, 0, 1), "environment 0, the clean one, must have labeled rows"),
    ],
)
def test_environments_that_cannot_be(environment, message):
    with pytest.raises(ValueError, match=message):
        FirstContextScaling().fit(Z, Y, environment=environment)


def test_a_clean_environment_without_weight_is_refused():
    with pytest.raises(ValueError, match="zero on every labeled row of environment 0"):
        FirstContextScaling().fit(Z, Y, environment=E, sample_weight=(E != 0).astype(float))


def test_other_methods_refuse_environments():
    known = Y >= 0
    with pytest.raises(ValueError, match="TemperatureScaling does not read environments"):
        TemperatureScaling().fit(Z[known], Y[known], environment=E[known])


@pytest.mark.parametrize("penalty", [-1.0, np.nan, np.inf])
def test_penalties_that_cannot_be(penalty):
    with pytest.raises(ValueError, match="penalty must be finite"):
        FirstContextScaling(penalty=penalty).fit(Z, Y, environment=E)


def test_a_large_penalty_leaves_one_temperature():
    fitted = FirstContextScaling(penalty=1e6).fit(Z, Y, environment=E)
    np.testing.assert_allclose(fitted.coefficients_[1:], 0, atol=1e-4)


# Odd data.


def test_a_clean_environment_that_is_all_correct_still_learns_the_context():
    """Temperature scaling then ends at its bound, where the softplus hides the slope."""
    y = np.where(E == 0, Z.argmax(axis=1), Y)
    with pytest.warns(CalibrationWarning, match="at its bound"):
        fitted = FirstContextScaling().fit(Z, y, environment=E)
    assert fitted.fit_.loss_after < 0.5 * fitted.fit_.loss_before
    assert fitted.temperature(SHIFTED, context=fitted.context(SHIFTED)).mean() > 1


def test_one_predicted_class_only_in_the_clean_environment():
    z = Z.copy()
    z[E == 0, 0] = z[E == 0].max(axis=1) + 1
    fitted = fit(z, Y, environment=E)
    assert fitted.clean_same_class_ == 1
    assert np.isfinite(fitted.predict_proba(SHIFTED, context=fitted.context(SHIFTED))).all()


def test_constant_energies():
    """After log_softmax the context is read from confidences alone, with a warning."""
    z = log_softmax(Z, axis=1)
    with pytest.warns(CalibrationWarning, match="look normalized"):
        fitted = FirstContextScaling().fit(z, Y, environment=E)
    assert fitted.coefficients_[2] == 0
    x = log_softmax(SHIFTED, axis=1)
    around = fitted.context(x)
    assert fitted.confidence(x, context=around).mean() < fitted.confidence(x).mean()


def test_equal_logits():
    fitted = fit(np.full_like(Z, 2.0), Y, environment=E)
    np.testing.assert_allclose(fitted.predict_proba(np.full((3, 4), 2.0)), 0.25)


def test_normalized_logits_are_refused_where_the_energy_is_read():
    with pytest.raises(ValueError, match="every row is normalized"):
        FITTED.predict_proba(log_softmax(SHIFTED, axis=1))
    with pytest.raises(ValueError, match="every row is normalized"):
        FITTED.context(log_softmax(SHIFTED, axis=1))


@pytest.mark.parametrize("k", [2, 100, 1000])
def test_few_and_many_classes(k):
    z, y, e = environments_of(3, n_classes=k, n=200, dtype=np.float32)
    fitted = fit(z, y, environment=e)
    assert fitted.fit_.converged
    x = make_suite(4, n_classes=k, n_test=100).shifted.logits
    proba = fitted.predict_proba(x, context=fitted.context(x))
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(proba.argmax(axis=1), x.argmax(axis=1))


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_precision_of_the_logits_hardly_matters(dtype):
    z = Z.astype(dtype)
    exact = fit(z.astype(np.float64), Y, environment=E)
    fitted = fit(z, Y, environment=E)
    assert fitted.fit_.converged
    np.testing.assert_allclose(fitted.coefficients_, exact.coefficients_, atol=1e-4)
    x = SHIFTED.astype(dtype)
    proba = fitted.predict_proba(x, context=fitted.context(x))
    assert proba.dtype == np.float32
    np.testing.assert_allclose(
        proba, exact.predict_proba(x.astype(np.float64), context=exact.context(x)), atol=1e-4
    )


def test_rows_with_a_single_possible_class_do_not_spoil_the_units():
    z = Z.copy()
    z[:3, 1:] = -np.inf
    y = Y.copy()
    y[:3] = 0
    fitted = fit(z, y, environment=E)
    np.testing.assert_allclose(fitted.clean_std_, FITTED.clean_std_, rtol=0.2)
    np.testing.assert_allclose(fitted.coefficients_, FITTED.coefficients_, atol=0.2)
    proba = fitted.predict_proba(z[:3], context=fitted.context(z[:3]))
    np.testing.assert_array_equal(proba, [[1, 0, 0, 0]] * 3)


def test_all_rows_with_a_single_possible_class():
    z = np.where(np.arange(4) == Y[:, None], 3.0, -np.inf)
    z[Y < 0, 0] = 1.0
    fitted = fit(z, Y, environment=E)
    assert np.isfinite(fitted.predict_proba(SHIFTED)).all()


@pytest.mark.parametrize("factor", [1e-30, 1e-3, 1e6, 1e30, 1e250])
def test_tiny_and_huge_logits(factor):
    fitted = fit(Z * factor, Y, environment=E)
    x = SHIFTED * factor
    around = fitted.context(x)
    proba = fitted.predict_proba(x, context=around)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert np.isfinite(fitted.coefficients_).all()


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
        assert (t >= 0.01).all()
        assert (t <= 100).all()
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
    proba = FITTED.predict_proba(x, context=merged)
    assert np.isfinite(proba).all()
    np.testing.assert_array_equal(
        proba[np.arange(3), x.argmax(axis=1)],
        proba.max(axis=1),
    )
    for i in range(3):
        np.testing.assert_array_equal(
            FITTED.predict_proba(x[i : i + 1], context=merged)[0], proba[i]
        )


# Contexts.


def test_without_a_context_rows_do_not_depend_on_each_other():
    whole = FITTED.predict_proba(SHIFTED)
    np.testing.assert_array_equal(FITTED.predict_proba(SHIFTED[7:9]), whole[7:9])
    np.testing.assert_array_equal(FITTED.predict_proba(SHIFTED, context=None), whole)
    empty = wildcal.Context(n=0, sums=(0.0, 0.0), counts=(0, 0, 0, 0))
    np.testing.assert_array_equal(FITTED.predict_proba(SHIFTED, context=empty), whole)


def test_the_clean_rows_as_context_change_little():
    around = FITTED.context(Z[E == 0])
    assert abs(FITTED.offset(around)) < 0.02


def test_a_context_of_another_number_of_classes_is_refused():
    context = wildcal.Context(n=1, sums=(0.0, 0.0), counts=(1, 0))
    with pytest.raises(ValueError, match="context must be of 4 classes, got 2"):
        FITTED.predict_proba(SHIFTED, context=context)
    with pytest.raises(ValueError, match="same number of classes, got 4 and 2"):
        CONTEXT + context


@pytest.mark.parametrize("calibrator", [FITTED, fit(Z, Y)])
def test_a_window_is_no_context(calibrator):
    with pytest.raises(ValueError, match="context must be what the method `context` returns"):
        calibrator.predict_proba(SHIFTED, context=SHIFTED)


def test_row_statistics_are_what_a_context_adds_up():
    kept = FITTED.row_statistics(SHIFTED)
    assert CONTEXT.sums == pytest.approx(kept.features.sum(axis=1))
    np.testing.assert_array_equal(CONTEXT.counts, np.bincount(kept.pred, minlength=4))


@given(st.lists(st.integers(0, 50), min_size=2, max_size=6))
def test_same_class_rate_counts_pairs(counts):
    pred = np.repeat(np.arange(len(counts)), counts)
    if len(pred) < 2:
        assert same_class_rate(np.array(counts, float)) == 0
    else:
        pairs = (pred[:, None] == pred).sum() - len(pred)
        expected = pairs / (len(pred) * (len(pred) - 1))
        assert same_class_rate(np.array(counts, float)) == pytest.approx(expected)


def test_small_windows_are_believed_little():
    means = np.array([-1.0, -2.0])
    # One row makes no pair, so it says nothing about classes.
    np.testing.assert_allclose(context_columns(1, means, 0.0, 0.1), [-0.2, -0.4, 0])
    np.testing.assert_allclose(context_columns(4, means, 0.3, 0.1), [-0.5, -1, 1])
    np.testing.assert_allclose(context_columns(np.inf, means, 0.0, 0.1), [-1, -2, -1])
    # However many classes there are, a window of one of them is not infinitely far away.
    np.testing.assert_allclose(context_columns(np.inf, means, 1.0, 1e-9), [-1, -2, 12])


def test_windows_of_one_class_out_of_many_stay_within_reason():
    z, y, e = environments_of(3, n_classes=200, n=2000)
    fitted = fit(z, y, environment=e)
    clean = make_suite(6, n_classes=200, n_tuning=10_000).tuning
    usual = np.median(fitted.temperature(clean.logits))
    for k in range(10):
        window = clean.logits[clean.y == k]
        ratio = fitted.temperature(window, context=fitted.context(window)) / fitted.temperature(
            window
        )
        assert 0.2 < np.median(ratio) < 5
    assert 0.1 < usual < 10


# Files.


@pytest.mark.parametrize("environment", [E, None])
def test_saved_and_loaded_bit_for_bit(environment, tmp_path):
    fitted = fit(Z, Y, environment=environment)
    wildcal.save(fitted, tmp_path / "context.json")
    loaded = wildcal.load(tmp_path / "context.json")
    assert (loaded.fallback_ is None) == (environment is not None)
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
        ("coefficients_", np.zeros(4)),
        ("clean_mean_", np.zeros((3, 1))),
        ("clean_std_", np.array([1.0, 0.0, 1.0])),
        ("clean_temperature_", 1e-300),
        ("clean_same_class_", 0.0),
        ("clean_correlation_", 1.1),
        ("clean_rows_", 0),
        ("accuracy_error_", -1.0),
        ("accuracy_error_slope_", -1.0),
        ("fallback_", TemperatureScaling().fit(Z[E == 0], Y[E == 0])),
    ],
)
def test_fitted_values_that_cannot_be(name, value, tmp_path):
    fitted = fit(Z, Y, environment=E)
    setattr(fitted, name, value)
    with pytest.raises((ValueError, FileFormatError)):
        wildcal.save(fitted, tmp_path / "context.json")


def test_it_stores_as_many_numbers_as_it_says():
    stored = [getattr(FITTED, f.name) for f in fields(FITTED) if not f.init]
    n = sum(np.size(value) for value in stored if value is not None)
    assert FirstContextScaling.stores == f"{n} numbers"


# What it is for, on the shipped suite.


@pytest.fixture(scope="module")
def real():
    suite = wildcal.suites.load("cifar10-resnet20")
    z, y, e = wildcal.evaluation.environments(suite)
    plain = TemperatureScaling().fit(z[e == 0], y[e == 0])
    return suite, plain, FirstContextScaling().fit(z, y, environment=e)


def gap(split, confidence):
    return abs(confidence.mean() - (split.logits.argmax(axis=1) == split.y).mean())


def test_in_fog_confidence_is_nearer_to_accuracy(real):
    suite, plain, context = real
    fog = suite.split("fog-5")
    around = context.context(fog.logits)
    before = gap(fog, plain.confidence(fog.logits))
    assert gap(fog, context.confidence(fog.logits, context=around)) < 0.5 * before


def test_a_window_of_32_rows_is_enough(real):
    suite, plain, context = real
    fog = suite.split("fog-5")
    windows = np.split(fog.logits, range(32, len(fog.logits), 32))
    confidence = np.concatenate(
        [context.confidence(w, context=context.context(w)) for w in windows]
    )
    assert gap(fog, confidence) < 0.6 * gap(fog, plain.confidence(fog.logits))


def test_on_clean_rows_it_stays_at_the_level_of_temperature_scaling(real):
    suite, plain, context = real
    clean = suite.split("test")
    around = context.context(clean.logits)
    assert gap(clean, context.confidence(clean.logits, context=around)) < (
        gap(clean, plain.confidence(clean.logits)) + 0.015
    )
    assert abs(context.offset(around)) < 0.1
