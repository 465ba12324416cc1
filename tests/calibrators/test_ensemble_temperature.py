"""Ensemble temperature scaling: the exact minimum over the simplex, in every degenerate case."""

import tracemalloc

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import softmax

from wildcal import TemperatureScaling
from wildcal.calibrators import EnsembleTemperatureScaling
from wildcal.calibrators.mixture_weights import fit_weights_mse, fit_weights_nll, overlaps
from wildcal.core.errors import CalibrationWarning
from wildcal.testing import make_suite

SUITE = make_suite(0, n_ood_tuning=0)
LOSSES = ["mse", "nll"]


def draw(proba, rng):
    return (proba.cumsum(axis=1) > rng.random((len(proba), 1))).argmax(axis=1)


def random_problem(seed):
    """Logits whose three components all matter, or not, by chance."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 8))
    z = rng.normal(0, rng.uniform(0.5, 4), (int(rng.integers(5, 200)), k))
    y = draw(softmax(z / rng.uniform(0.5, 3), axis=1), rng)
    guess = rng.random(len(y)) < rng.uniform(0, 0.5)
    return z, np.where(guess, rng.integers(0, k, len(y)), y), float(rng.uniform(0.6, 2.5))


def components(z, temperature):
    uniform = np.full_like(z, 1 / z.shape[1])
    return np.stack([softmax(z / temperature, axis=1), softmax(z, axis=1), uniform])


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("loss", LOSSES)
def test_no_solver_finds_better_weights(seed, loss):
    z, y, temperature = random_problem(seed)
    parts = components(z, temperature)
    target = np.eye(z.shape[1])[y]

    def value(w):
        p = np.tensordot(w, parts, 1)
        if loss == "nll":
            return -np.log(np.maximum(p[target > 0], 1e-300)).mean()
        return np.square(p - target).sum(axis=1).mean()

    fit = fit_weights_mse if loss == "mse" else fit_weights_nll
    weights, reported = fit(overlaps(z, y, temperature))
    assert reported == pytest.approx(value(weights), rel=1e-12)
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    for start in ([1, 0, 0], [1 / 3, 1 / 3, 1 / 3], [0.1, 0.1, 0.8]):
        other = minimize(
            value, start, method="SLSQP", bounds=[(0, 1)] * 3, tol=1e-13,
            constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        )  # fmt: skip
        if abs(other.x.sum() - 1) < 1e-9:
            assert value(weights) <= value(np.maximum(other.x, 0)) + 1e-9


@pytest.mark.parametrize("loss", LOSSES)
def test_recovers_the_weights_the_labels_were_drawn_with(loss):
    rng = np.random.default_rng(0)
    z, truth = rng.normal(0, 4, (400_000, 4)), np.array([0.5, 0.35, 0.15])
    y = draw(np.tensordot(truth, components(z, 3.0), 1), rng)
    fit = fit_weights_mse if loss == "mse" else fit_weights_nll
    weights, _ = fit(overlaps(z, y, 3.0))
    np.testing.assert_allclose(weights, truth, atol=0.03)  # about four standard errors


@pytest.mark.parametrize("loss", LOSSES)
def test_at_temperature_one_the_raw_softmax_is_left_out(loss):
    z, y, _ = random_problem(3)
    fit = fit_weights_mse if loss == "mse" else fit_weights_nll
    weights, _ = fit(overlaps(z, y, 1.0))
    assert weights[1] == 0


@pytest.mark.parametrize("loss", LOSSES)
def test_all_correct_keeps_the_scaled_softmax(loss):
    logits = SUITE.tuning.logits[:300]
    with pytest.warns(CalibrationWarning, match="at its bound"):
        fitted = EnsembleTemperatureScaling(loss=loss).fit(logits, logits.argmax(axis=1))
    assert fitted.weights_ == (1, 0, 0)


@pytest.mark.parametrize("loss", LOSSES)
def test_none_correct_moves_the_mass_to_the_uniform_distribution(loss):
    logits = SUITE.tuning.logits[:300]
    with pytest.warns(CalibrationWarning, match="at its bound"):
        fitted = EnsembleTemperatureScaling(loss=loss).fit(logits, logits.argmin(axis=1))
    assert fitted.weights_ == (0, 0, 1)
    np.testing.assert_allclose(fitted.predict_proba(logits), 0.1, rtol=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_equal_logits_keep_the_first_component(loss):
    fitted = EnsembleTemperatureScaling(loss=loss).fit(np.full((40, 4), 2.0), np.arange(40) % 4)
    assert fitted.weights_ == (1, 0, 0)
    assert fitted.temperature_ == 1


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("rows", ["one class", "two columns"])
def test_one_class_or_two_columns_work(loss, rows):
    logits, y = SUITE.tuning
    if rows == "one class":
        logits, y = logits[y == 3], y[y == 3]
    else:
        logits, y = logits[y < 2, :2], y[y < 2]
    fitted = EnsembleTemperatureScaling(loss=loss).fit(logits, y)
    np.testing.assert_allclose(fitted.predict_proba(logits).sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_never_worse_than_temperature_scaling_in_its_own_loss(loss):
    logits, y = SUITE.tuning
    ensemble = EnsembleTemperatureScaling(loss=loss, temperature_loss=loss).fit(logits, y)
    plain = TemperatureScaling(loss=loss).fit(logits, y)
    assert ensemble.fit_.loss_after <= plain.fit_.loss_after + 1e-7
    assert ensemble.fit_.loss_before == pytest.approx(plain.fit_.loss_before, rel=1e-6)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_largest_logit_stays_the_most_probable(dtype):
    fitted = EnsembleTemperatureScaling(loss="nll").fit(*SUITE.tuning)
    z = np.round(np.random.default_rng(0).normal(0, 3, (2000, 10)), 1).astype(dtype)  # many ties
    proba = fitted.predict_proba(z)
    np.testing.assert_array_equal(proba[np.arange(2000), z.argmax(axis=1)], proba.max(axis=1))


def test_predicting_needs_little_more_than_its_result():
    fitted = EnsembleTemperatureScaling(loss="nll").fit(*SUITE.tuning)
    z = np.zeros((300_000, 10), np.float32)
    tracemalloc.start()
    fitted.predict_proba(z)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < z.nbytes + 8e6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"temperature_": 0.0}, "must be positive"),
        ({"weights_": (1.2, -0.2, 0.0)}, "sum to one"),
        ({"weights_": (0.5, 0.2, 0.0)}, "sum to one"),
    ],
)
def test_impossible_fitted_values_are_refused(change, message):
    fitted = EnsembleTemperatureScaling().fit(*SUITE.tuning)
    vars(fitted).update(change)
    with pytest.raises(ValueError, match=message):
        fitted._check_fitted()


def test_options_are_checked():
    with pytest.raises(ValueError, match="loss must be one of"):
        EnsembleTemperatureScaling(loss="mae").fit(*SUITE.tuning)
    with pytest.raises(ValueError, match="temperature_loss must be one of"):
        EnsembleTemperatureScaling(temperature_loss="mae").fit(*SUITE.tuning)


def test_a_few_mistakes_keep_their_uniform_part():
    """One row in a thousand is wrong: without it the log loss is half as large again."""
    rng = np.random.default_rng(7)
    z = 2 * rng.normal(size=(5000, 10))
    pred = z.argmax(axis=1)
    y = np.where(rng.random(5000) < 0.999, pred, (pred + 1) % 10)
    fitted = EnsembleTemperatureScaling(loss="nll").fit(z, y)
    assert fitted.fit_.loss_after < 0.0563
    assert 5e-4 < fitted.weights_[2] < 2e-3
