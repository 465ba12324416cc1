"""Energy scaling against the algorithms in plain NumPy, the public code and degenerate samples."""

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax, softmax

import wildcal
from wildcal.calibrators.energy import MIN_TEMPERATURE, EnergyScaling, Gaussian
from wildcal.calibrators.temperature import TemperatureScaling
from wildcal.core.exceptions import CalibrationWarning
from wildcal.testing import Split, make_suite

SUITE = make_suite()
KNOWN = Split(*(column[:5000] for column in SUITE.calibration))
SETS = [(k, ood) for k in ("k10", "k3", "k2") for ood in ("with_ood", "without_ood")]
few_mistakes = pytest.mark.filterwarnings("ignore:.*samples are misclassified:UserWarning")
at_bound = pytest.mark.filterwarnings("ignore:.*at its published bound:UserWarning")


def oracle_fit(z, y):
    """Algorithm 1; y == -1 for OOD samples, whose target is all zeros."""
    n_classes, known = z.shape[1], y >= 0
    correct = z.argmax(axis=1) == y
    target = np.eye(n_classes + 1)[y][:, :n_classes]
    log_t = minimize_scalar(
        lambda t: -np.sum(target * log_softmax(z / np.exp(t), axis=1)) / known.sum(), tol=1e-12
    ).x
    energy = -np.log(np.exp(z).sum(axis=1))
    moments = [(energy[kind].mean(), energy[kind].std()) for kind in (correct, ~correct)]

    def loss(theta):
        p = oracle_predict(z, np.exp(log_t), theta, moments)
        return np.sum((target - p) ** 2, axis=1).mean()

    options = {"xatol": 1e-9, "fatol": 1e-16, "maxiter": 2000}
    found = minimize(loss, [1, 1], bounds=[(0, 10)] * 2, method="Nelder-Mead", options=options)
    return np.exp(log_t), found.x, moments


def oracle_predict(z, temperature, theta, moments):
    """Algorithm 2."""
    energy = -np.log(np.exp(z).sum(axis=1))
    lambda1, lambda2 = (
        np.exp(-((energy - mean) ** 2) / (2 * std**2)) / (std * np.sqrt(2 * np.pi))
        for mean, std in moments
    )
    h = temperature - theta[0] * lambda1 + theta[1] * lambda2
    return softmax(z / h[:, None], axis=1)


@pytest.mark.parametrize("ood", ["with_ood", "without_ood"])
def test_oracle(reference_data, ood):
    data = reference_data("k10")
    temperature, theta, moments = oracle_fit(*data[ood])
    fitted = EnergyScaling(ood_weight="count").fit(*data[ood])
    assert fitted.temperature_ == pytest.approx(temperature, rel=1e-6)
    assert [fitted.theta1_, fitted.theta2_] == pytest.approx(theta, rel=1e-5)
    test = data["test_logits"]
    expected = oracle_predict(test, temperature, theta, moments)
    np.testing.assert_allclose(fitted.predict_proba(test), expected, atol=1e-6)
    fitted.theta1_, fitted.theta2_ = 1.5, 0.7
    expected = oracle_predict(test, fitted.temperature_, (1.5, 0.7), moments)
    np.testing.assert_allclose(fitted.predict_proba(test), expected, rtol=1e-9)


@few_mistakes
@at_bound
@pytest.mark.parametrize(("k", "ood"), SETS)
@pytest.mark.parametrize("theta_bounds", ["safe", "paper"])
def test_reference_vectors(vectors, reference_data, k, ood, theta_bounds):
    expected, data = vectors("energy")[k], reference_data(k)
    exact, reference = expected[ood]["exact"], expected[ood]["reference"]
    fitted = EnergyScaling(theta_bounds=theta_bounds, ood_weight="count").fit(*data[ood])
    theta, test = [fitted.theta1_, fitted.theta2_], data["test_logits"]
    assert fitted.fit_info_.converged
    assert fitted.temperature_ == pytest.approx(expected["T_ts_exact"], rel=1e-7)
    assert fitted.temperature_ == pytest.approx(expected["T_ts_reference"], rel=1e-4)
    for kind in ("correct", "incorrect"):
        assert getattr(fitted, f"{kind}_mean_") == pytest.approx(exact[f"mu_{kind}"], rel=1e-9)
        assert getattr(fitted, f"{kind}_std_") == pytest.approx(exact[f"sigma_{kind}"], rel=1e-9)
    assert theta == pytest.approx(exact["theta"], rel=1e-6)
    assert theta == pytest.approx(reference["theta"], abs=1e-3)
    assert fitted.fit_info_.loss_after == pytest.approx(exact["loss_sum_norm"], rel=1e-9)
    assert fitted.fit_info_.loss_before == pytest.approx(exact["loss_at_zero"], rel=1e-9)
    np.testing.assert_allclose(fitted.energy(test)[:10], expected["energy_test_first10"], rtol=1e-9)
    np.testing.assert_allclose(fitted.temperatures(test)[:10], exact["h_test_first10"], rtol=1e-6)
    np.testing.assert_allclose(fitted.confidence(test)[:20], exact["conf_test_first20"], rtol=1e-6)
    proba = fitted.predict_proba(test)[:3]
    np.testing.assert_allclose(proba, exact["probs_test_first3"], rtol=1e-5)
    free = EnergyScaling(theta_bounds="none", ood_weight="count").fit(*data[ood])
    expected = expected[ood]["exact_free_box_hmin0.05"]
    assert [free.theta1_, free.theta2_] == pytest.approx(expected["theta"], rel=1e-6)
    assert free.fit_info_.loss_after == pytest.approx(expected["loss_sum_norm"], rel=1e-9)


@at_bound
@pytest.mark.parametrize("scale", ["0.2", "0.5", "2.0", "4.0"])
def test_reference_vectors_of_other_units(vectors, reference_data, scale):
    expected = vectors("energy")["k10_logit_scale_stress"][scale]
    logits, y = reference_data("k10")["with_ood"]
    for bounds, key in (("paper", "theta_exact_box10"), ("none", "theta_exact_unbounded")):
        fitted = EnergyScaling(theta_bounds=bounds, ood_weight="count").fit(
            logits * float(scale), y
        )
        assert fitted.temperature_ == pytest.approx(expected["T_exact"], rel=1e-7)
        assert [fitted.theta1_, fitted.theta2_] == pytest.approx(expected[key], rel=1e-6)


def test_density(vectors):
    case = vectors("edge_cases")["gaussian_pdf"]
    density = Gaussian(case["mu"], case["sigma"]).pdf(np, np.array(case["F"]))
    np.testing.assert_allclose(density, case["pdf"], rtol=1e-12)


Z = KNOWN.logits[:400]
TOP = Z.argmax(axis=1)
WRONG = (TOP + 1) % 10
WITH_OOD = np.vstack([Z, SUITE.ood.logits[:50]]), np.r_[TOP, np.full(50, -1)]
DEGENERATE = {  # samples, part of a warning, whether each density is fitted
    "no mistake": (Z, TOP, "too few misclassified or OOD", (True, False)),
    "one mistake": (Z, np.r_[WRONG[:1], TOP[1:]], "too few misclassified", (True, False)),
    "all wrong": (Z, WRONG, "too few correct samples", (False, True)),
    "one right": (Z, np.r_[TOP[:1], WRONG[1:]], "too few correct samples", (False, True)),
    "equal energies": (8 * np.eye(10)[TOP], KNOWN.y[:400], "too few", (False, False)),
    "one sample": (Z[:1], TOP[:1], "too few correct samples", (False, False)),
    "no mistake but OOD": (*WITH_OOD, "at its bound", (True, True)),
}


@pytest.mark.parametrize(
    ("z", "y", "text", "fitted_densities"), DEGENERATE.values(), ids=DEGENERATE
)
def test_degenerate_samples(z, y, text, fitted_densities):
    with pytest.warns(CalibrationWarning) as caught:
        fitted = EnergyScaling().fit(z, y)
    assert any(text in str(w.message) for w in caught)
    stds, thetas = (fitted.correct_std_, fitted.incorrect_std_), (fitted.theta1_, fitted.theta2_)
    assert tuple(std is not None for std in stds) == fitted_densities
    assert all(std is not None or theta == 0 for std, theta in zip(stds, thetas, strict=True))
    level = np.r_[-np.logspace(5, -3, 200), 0, np.logspace(-3, 5, 200)]
    x = np.column_stack([level, level - 1.0, *([level - 30] * 8)])  # every energy
    assert fitted.temperatures(x).min() >= min(MIN_TEMPERATURE, fitted.temperature_)
    assert (fitted.predict(x) == 0).all()


def test_h_is_clipped_with_the_bounds_of_the_paper():
    fitted = EnergyScaling(theta_bounds="paper").fit(*SUITE.calibration)
    z = np.array([[3.0, 1.0, 0.0] + [-50.0] * 7])
    fitted.temperature_, fitted.theta1_, fitted.theta2_ = 1.2, 3.0, 0.0
    fitted.correct_mean_, fitted.correct_std_ = (
        float(fitted.energy(z)[0]),
        1 / (0.6 * np.sqrt(2 * np.pi)),
    )
    assert fitted.temperatures(z)[0] == pytest.approx(MIN_TEMPERATURE)  # not 1.2 - 1.8
    assert fitted.predict(z)[0] == 0


def test_temperatures_of_correct_incorrect_and_ood_samples():
    fitted, plain = EnergyScaling().fit(*SUITE.calibration), TemperatureScaling().fit(*KNOWN)
    right = SUITE.test.logits.argmax(axis=1) == SUITE.test.y
    h = fitted.temperatures(SUITE.test.logits)
    assert h[right].mean() < min(h[~right].mean(), fitted.temperatures(SUITE.ood.logits).mean())
    assert fitted.fit_info_.loss_after < fitted.fit_info_.loss_before
    assert fitted.temperature_ == pytest.approx(plain.temperature_, rel=1e-9)  # OOD does not matter
    far = np.full((2, 10), [[1e5], [-1e5]]) + np.eye(10)[0]
    np.testing.assert_allclose(fitted.predict_proba(far), plain.predict_proba(far))
    fitted.theta1_ = fitted.theta2_ = 0.0
    z = SUITE.shifted.logits
    np.testing.assert_allclose(fitted.predict_proba(z), plain.predict_proba(z), rtol=1e-6)


def test_weight_of_ood_samples():
    one = EnergyScaling(ood_weight=0.02).fit(*SUITE.calibration)
    paper = EnergyScaling().fit(*SUITE.calibration)  # 10 classes: 100 for 5,000
    count = EnergyScaling(ood_weight="count").fit(*SUITE.calibration)  # 250 for 5,000
    share = EnergyScaling(ood_weight=0.05).fit(*SUITE.calibration)
    assert one.theta2_ == paper.theta2_ < count.theta2_ == pytest.approx(share.theta2_)


def test_constants_and_half_precision():
    logits, y = SUITE.calibration
    test = SUITE.test.logits.astype(np.float64)
    plain, moved = (
        EnergyScaling().fit(logits, y),
        EnergyScaling().fit(logits.astype(np.float64) + 7, y),
    )
    np.testing.assert_allclose(moved.predict_proba(test + 7), plain.predict_proba(test), atol=1e-6)
    per_sample = np.linspace(-3, 3, len(test))[:, None]
    assert np.abs(plain.temperatures(test + per_sample) - plain.temperatures(test)).max() > 0.05
    half = EnergyScaling().fit(logits.astype(np.float16), y)
    assert half.temperature_ == pytest.approx(plain.temperature_, rel=1e-4)
    assert half.theta1_ == pytest.approx(plain.theta1_, rel=1e-2)


def files_entered(call):
    """Return the files of the package whose functions a call runs."""
    root, found = str(Path(wildcal.__file__).parent), set()

    def note(frame, event, argument):
        if event == "call" and frame.f_code.co_filename.startswith(root):
            found.add(Path(frame.f_code.co_filename).name)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def test_files_entered_by_predict():
    fitted = EnergyScaling().fit(*SUITE.calibration)  # imports come first
    entered = files_entered(lambda: fitted.predict_proba(SUITE.test.logits))
    assert entered == {"calibrator.py", "validation.py", "energy.py", "arrays.py"}


def test_files_entered_by_fit():
    EnergyScaling().fit(*SUITE.calibration)
    assert len(files_entered(lambda: EnergyScaling().fit(*SUITE.calibration))) <= 6
