"""Energy scaling against the public code and against exact optima."""

import numpy as np
import pytest

from wildcal.calibrators.energy import EnergyScaling, Gaussian, fit_densities, free_energy
from wildcal.core.optimize import TemperatureObjective, linear_link

SETS = [(k, ood) for k in ("k10", "k3", "k2") for ood in ("with_ood", "without_ood")]

# Some of these sets have few mistakes, or class frequencies that one temperature does not meet.
pytestmark = pytest.mark.filterwarnings("ignore::wildcal.core.exceptions.CalibrationWarning")


def theta(calibrator):
    return [calibrator.theta1_, calibrator.theta2_]


@pytest.mark.parametrize(("k", "ood"), SETS)
@pytest.mark.parametrize("bounds", ["safe", "paper"])
def test_fit(vectors, reference_data, k, ood, bounds):
    expected = vectors("energy")[k]
    data = reference_data(k)
    fitted = EnergyScaling(theta_bounds=bounds, ood_weight="count").fit(*data[ood])
    exact, reference = expected[ood]["exact"], expected[ood]["reference"]
    assert fitted.fit_info_.converged
    assert fitted.temperature_ == pytest.approx(expected["T_ts_exact"], rel=1e-7)
    assert fitted.temperature_ == pytest.approx(expected["T_ts_reference"], rel=1e-4)
    assert fitted.correct_mean_ == pytest.approx(exact["mu_correct"], rel=1e-9)
    assert fitted.correct_std_ == pytest.approx(exact["sigma_correct"], rel=1e-9)
    assert fitted.incorrect_mean_ == pytest.approx(exact["mu_incorrect"], rel=1e-9)
    assert fitted.incorrect_std_ == pytest.approx(exact["sigma_incorrect"], rel=1e-9)
    assert theta(fitted) == pytest.approx(exact["theta"], rel=1e-6)
    assert theta(fitted) == pytest.approx(reference["theta"], abs=1e-3)
    assert fitted.fit_info_.loss_after == pytest.approx(exact["loss_sum_norm"], rel=1e-9)
    assert fitted.fit_info_.loss_before == pytest.approx(exact["loss_at_zero"], rel=1e-9)


@pytest.mark.parametrize(("k", "ood"), SETS)
def test_predictions(vectors, reference_data, k, ood):
    exact = vectors("energy")[k][ood]["exact"]
    data = reference_data(k)
    fitted = EnergyScaling(ood_weight="count").fit(*data[ood])
    test = data["test_logits"]
    np.testing.assert_allclose(fitted.temperatures(test)[:10], exact["h_test_first10"], rtol=1e-6)
    np.testing.assert_allclose(fitted.confidence(test)[:20], exact["conf_test_first20"], rtol=1e-6)
    np.testing.assert_allclose(
        fitted.predict_proba(test)[:3], exact["probs_test_first3"], rtol=1e-5
    )
    h = fitted.temperatures(test)
    assert [h.min(), h.max()] == pytest.approx([exact["h_test_min"], exact["h_test_max"]], rel=1e-6)


@pytest.mark.parametrize("k", ["k10", "k3", "k2"])
def test_energies(vectors, reference_data, k):
    expected, data = vectors("energy")[k], reference_data(k)
    fitted = EnergyScaling(ood_weight="count").fit(*data["with_ood"])
    for split in ("val", "test", "ood"):
        got = fitted.energy(data[f"{split}_logits"])[:10]
        np.testing.assert_allclose(got, expected[f"energy_{split}_first10"], rtol=1e-6)


@pytest.mark.parametrize(("k", "ood"), SETS)
def test_without_bounds(vectors, reference_data, k, ood):
    expected = vectors("energy")[k][ood]["exact_free_box_hmin0.05"]
    fitted = EnergyScaling(theta_bounds="none", ood_weight="count").fit(*reference_data(k)[ood])
    assert theta(fitted) == pytest.approx(expected["theta"], rel=1e-6)
    assert fitted.fit_info_.loss_after == pytest.approx(expected["loss_sum_norm"], rel=1e-9)


@pytest.mark.parametrize(("k", "ood"), SETS)
@pytest.mark.parametrize("point", ["zero", "1_1", "optimum"])
def test_loss_gradient_and_hessian(vectors, reference_data, k, ood, point):
    expected = vectors("energy")[k]
    exact = expected[ood]["exact"]
    logits, y = reference_data(k)[ood]
    energy = free_energy(np, logits)[:, 0]
    weight = np.ones(len(y))
    p_correct, p_incorrect = fit_densities(energy, logits.argmax(axis=1) == y, weight)
    design = np.column_stack([-p_correct.pdf(np, energy), p_incorrect.pdf(np, energy)])
    objective = TemperatureObjective(
        logits, y, weight, design, linear_link(0.05), offset=expected["T_ts_exact"]
    )
    at, suffix = {
        "zero": ([0.0, 0.0], "_at_zero"),
        "1_1": ([1.0, 1.0], "_at_1_1"),
        "optimum": (exact["theta"], ""),
    }[point]
    value, gradient, hessian = objective(np.array(at))
    # The vectors carry T and theta to 12 digits, which is what limits a vanishing gradient.
    np.testing.assert_allclose(gradient, exact[f"grad{suffix}"], rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(hessian, exact[f"hess{suffix}"], rtol=1e-8)
    loss = exact["loss_sum_norm" if point == "optimum" else f"loss{suffix}"]
    assert value == pytest.approx(loss, rel=1e-9)


@pytest.mark.parametrize("scale", ["0.2", "0.5", "2.0", "4.0"])
def test_logit_scale_stress(vectors, reference_data, scale):
    """[0, 10] is in density units: larger logits push theta to the bound."""
    expected = vectors("energy")["k10_logit_scale_stress"][scale]
    logits, y = reference_data("k10")["with_ood"]
    fitted = EnergyScaling(theta_bounds="paper", ood_weight="count").fit(logits * float(scale), y)
    assert fitted.temperature_ == pytest.approx(expected["T_exact"], rel=1e-7)
    assert theta(fitted) == pytest.approx(expected["theta_exact_box10"], rel=1e-6)
    free = EnergyScaling(theta_bounds="none", ood_weight="count").fit(logits * float(scale), y)
    assert theta(free) == pytest.approx(expected["theta_exact_unbounded"], rel=1e-6)


def test_gaussian_density(vectors):
    case = vectors("edge_cases")["gaussian_pdf"]
    got = Gaussian(case["mu"], case["sigma"]).pdf(np, np.array(case["F"]))
    np.testing.assert_allclose(got, case["pdf"], rtol=1e-12)
