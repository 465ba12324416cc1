"""Energy scaling: positive for every input, sensible in every degenerate case."""

import json
import warnings

import numpy as np
import pytest

from wildcal import EnergyLinear, EnergyScaling, TemperatureScaling, load, save
from wildcal.calibrators.energy import MIN_TEMPERATURE
from wildcal.core.convert import logits_from_proba, softmax
from wildcal.core.errors import CalibrationWarning
from wildcal.testing import Split, make_suite

SUITE = make_suite(0)


def known(split):
    return Split(split.logits[split.y >= 0], split.y[split.y >= 0])


def fit_with_notes(calibrator, logits, y):
    """Fit where warnings are expected; return the calibrator and what it warned of, as one text."""
    with pytest.warns(CalibrationWarning) as caught:
        calibrator.fit(logits, y)
    assert len(caught) == len(calibrator.fit_.notes)
    return calibrator, " ".join(calibrator.fit_.notes)


def all_energies():
    """Rows whose energies sweep from far below to far above anything a network says."""
    level = np.r_[-np.logspace(5, -3, 400), 0, np.logspace(-3, 5, 400)]
    return np.column_stack([level, level - 1.0, *([level - 30] * 8)])


@pytest.mark.parametrize("box", ["safe", "free"])
@pytest.mark.parametrize("seed", range(3))
def test_positive_for_every_possible_input(box, seed):
    """Even where the fit is pushed against the bound: nearly separable data, strange OOD."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 1, (300, 10))
    y = rng.integers(0, 10, 300)
    z[np.arange(300), y] += 14
    ood = rng.normal(0, 0.1, (40, 10))
    fitted, _ = fit_with_notes(
        EnergyScaling(box=box), np.vstack([z, ood]), np.r_[y, np.full(40, -1)]
    )
    rows = all_energies()
    h = fitted.temperature(rows)
    assert h.min() >= min(MIN_TEMPERATURE, fitted.temperature_)
    np.testing.assert_array_equal(fitted.predict_proba(rows).argmax(axis=1), 0)


def test_lower_bound_is_reached_and_kept(reference_data):
    """The K = 2 vectors press h against 0.05 in the free box; it stays there."""
    fitted = EnergyScaling(box="free").fit(*reference_data("k2")["with_ood"])
    area = fitted.correct_std_ * np.sqrt(2 * np.pi)
    assert fitted.temperature_ - fitted.theta_correct_ / area == pytest.approx(MIN_TEMPERATURE)
    fitted._check_fitted()


def test_paper_box_is_clamped_and_says_so():
    """theta in [0, 10] may ask for a negative temperature; it is clamped, not obeyed."""
    case = {"T": 1.2, "lambda1": 0.6, "theta1": 3.0}  # h = 1.2 - 1.8 < 0, as in edge_cases.json
    fitted = EnergyScaling(box="paper").fit(*SUITE.tuning)
    z = np.array([[3.0, 1.0, 0.0] + [-50.0] * 7])
    fitted.temperature_, fitted.theta_correct_ = case["T"], case["theta1"]
    fitted.theta_incorrect_ = 0.0
    fitted.correct_mean_ = float(fitted.energy(z)[0])
    fitted.correct_std_ = 1 / (case["lambda1"] * np.sqrt(2 * np.pi))
    proba = fitted.predict_proba(z)[0]
    assert fitted.temperature(z)[0] == pytest.approx(MIN_TEMPERATURE)
    assert proba.argmax() == 0
    np.testing.assert_allclose(proba[:3], [1.0, 4.248354255e-18, 8.756510763e-27], rtol=1e-9)


def test_clamped_tuning_rows_are_counted():
    """Logits in a small unit have temperatures near the floor."""
    logits, y = SUITE.tuning.logits * 0.035, SUITE.tuning.y
    fitted, notes = fit_with_notes(EnergyScaling(box="paper"), logits, y)
    assert "rows were clamped at the temperature 0.05" in notes
    assert fitted.temperature(logits).min() == np.float32(MIN_TEMPERATURE)
    assert (fitted.predict_proba(logits).argmax(axis=1) == logits.argmax(axis=1)).all()


def test_a_temperature_below_the_floor_is_kept():
    logits, y = SUITE.tuning.logits * 0.01, SUITE.tuning.y
    fitted = EnergyScaling().fit(logits, y)
    assert fitted.temperature_ < MIN_TEMPERATURE
    assert fitted.theta_correct_ == 0
    np.testing.assert_allclose(fitted.temperature(logits).min(), fitted.temperature_, rtol=1e-6)


def test_never_worse_than_temperature_scaling_on_the_tuning_loss():
    for n_classes in (3, 10, 100):
        suite = make_suite(1, n_classes=n_classes, n_tuning=9000)
        fit = EnergyScaling().fit(*suite.tuning).fit_
        assert fit.loss_after < fit.loss_before


def test_converges_at_a_thousand_classes():
    suite = make_suite(1, n_classes=1000, n_tuning=3000, n_ood_tuning=300, n_test=1000)
    single = EnergyScaling().fit(*suite.tuning)
    assert single.fit_.converged
    assert single.fit_.loss_after < single.fit_.loss_before * 0.999  # it really moved
    double = EnergyScaling().fit(suite.tuning.logits.astype(np.float64), suite.tuning.y)
    assert single.theta_correct_ == pytest.approx(double.theta_correct_, rel=1e-3)
    assert single.theta_incorrect_ == pytest.approx(double.theta_incorrect_, rel=1e-3)


def test_healthy_fit_orders_the_temperatures():
    fitted = EnergyScaling().fit(*SUITE.tuning)
    clean, ood = SUITE.clean, SUITE.ood
    right = clean.logits.argmax(axis=1) == clean.y
    h = fitted.temperature(clean.logits)
    assert fitted.correct_mean_ < fitted.incorrect_mean_
    assert h[right].mean() < h[~right].mean()
    assert h[right].mean() < fitted.temperature(ood.logits).mean()


def test_theta_zero_is_temperature_scaling_to_the_bit():
    tuning = known(SUITE.tuning)
    fitted = EnergyScaling().fit(*tuning)
    fitted.theta_correct_ = fitted.theta_incorrect_ = 0.0
    plain = TemperatureScaling().fit(*tuning)
    z = SUITE.shifted.logits
    assert fitted.predict_proba(z).tobytes() == plain.predict_proba(z).tobytes()
    assert fitted.confidence(z).tobytes() == plain.confidence(z).tobytes()


def test_ood_rows_do_not_touch_the_temperature_but_move_theta():
    with_ood, without = (
        EnergyScaling().fit(*SUITE.tuning),
        EnergyScaling().fit(*known(SUITE.tuning)),
    )
    assert with_ood.temperature_ == pytest.approx(without.temperature_, rel=1e-6)
    assert with_ood.incorrect_mean_ != without.incorrect_mean_
    assert with_ood.fit_.n_ood == 250


# Degenerate inputs, one test per row of the specification's table.


def test_no_incorrect_row_drops_the_second_term():
    logits = known(SUITE.tuning).logits[:300]
    fitted, notes = fit_with_notes(EnergyScaling(), logits, logits.argmax(axis=1))
    assert "too few incorrect or OOD rows" in notes
    assert fitted.theta_incorrect_ == 0
    assert fitted.incorrect_mean_ is None
    assert np.isfinite(fitted.predict_proba(SUITE.shifted.logits)).all()


def test_no_correct_row_drops_the_first_term():
    logits = known(SUITE.tuning).logits[:300]
    fitted, notes = fit_with_notes(EnergyScaling(), logits, (logits.argmax(axis=1) + 1) % 10)
    assert "too few correct rows" in notes
    assert fitted.theta_correct_ == 0
    assert np.isfinite(fitted.predict_proba(SUITE.shifted.logits)).all()


def test_a_single_incorrect_row_drops_the_second_term():
    logits = known(SUITE.tuning).logits[:300]
    y = logits.argmax(axis=1)
    y[5] = (y[5] + 1) % 10
    fitted, notes = fit_with_notes(EnergyScaling(), logits, y)
    assert "too few incorrect" in notes
    assert fitted.theta_incorrect_ == 0


def test_normalized_logits_fall_back_to_temperature_scaling(vectors):
    case = vectors("edge_cases")["log_softmax_input_kills_energy"]
    fitted = EnergyScaling().fit(*SUITE.tuning)
    raw = np.hstack([case["raw_logits"], np.full((2, 7), -800.0)])
    np.testing.assert_allclose(fitted.energy(raw), case["energy_raw"], rtol=1e-12)

    tuning = known(SUITE.tuning)
    for dtype in (np.float64, np.float32, np.float16):
        normalized = logits_from_proba(softmax(tuning.logits.astype(np.float64))).astype(dtype)
        with pytest.warns(CalibrationWarning, match="logits look normalized"):
            fallen = EnergyScaling().fit(normalized, tuning.y)
        assert fallen.theta_correct_ == fallen.theta_incorrect_ == 0
        plain = TemperatureScaling().fit(normalized, tuning.y)
        np.testing.assert_array_equal(
            fallen.predict_proba(normalized), plain.predict_proba(normalized)
        )


def test_the_zeros_of_a_forest_are_no_energy():
    """Lifted to a floor, they give rows an energy that counts zeros."""
    tuning = known(SUITE.tuning)
    votes = np.round(20 * softmax(tuning.logits.astype(np.float64))) / 20
    counted = logits_from_proba(votes / votes.sum(axis=1, keepdims=True))
    for method in (EnergyScaling(), EnergyLinear()):
        with pytest.warns(CalibrationWarning, match="log_softmax"):
            assert not method.fit(counted, tuning.y).reads_energy


def test_constant_energies_fall_back_to_temperature_scaling():
    y = np.arange(60) % 3
    logits = 2.0 * np.eye(3)[np.where(np.arange(60) % 7 == 0, (y + 1) % 3, y)]
    fitted, notes = fit_with_notes(EnergyScaling(), logits, y)
    assert "too few" in notes
    assert fitted.theta_correct_ == fitted.theta_incorrect_ == 0


def test_no_incorrect_row_but_ood_given_is_fine_in_the_safe_box():
    logits = known(SUITE.tuning).logits[:300]
    ood = SUITE.ood.logits[:50]
    y = np.r_[logits.argmax(axis=1), np.full(50, -1)]
    fitted, notes = fit_with_notes(EnergyScaling(), np.vstack([logits, ood]), y)
    assert "at its bound" in notes
    assert fitted.theta_correct_ == 0  # T is below the smallest h, nothing to subtract
    assert fitted.temperature(all_energies()).min() > 0


def test_far_out_rows_get_plain_temperature_scaling():
    fitted = EnergyScaling().fit(*SUITE.tuning)
    far = np.full((2, 10), [[1e5], [-1e5]])
    np.testing.assert_array_equal(fitted.temperature(far), fitted.temperature_)


def test_single_class_in_validation_works():
    tuning = known(SUITE.tuning)
    fitted = EnergyScaling().fit(tuning.logits[tuning.y == 3], tuning.y[tuning.y == 3])
    assert np.isfinite(fitted.predict_proba(SUITE.clean.logits)).all()


@pytest.mark.filterwarnings(
    "ignore:.*at its published bound:wildcal.core.errors.CalibrationWarning"
)
def test_warns_when_energy_does_not_separate():
    rng = np.random.default_rng(0)
    z = rng.normal(0, 2, (500, 4)) + rng.normal(0, 3, (500, 1))
    y = z.argmax(axis=1)
    high = -np.log(np.exp(z).sum(axis=1)) < -5  # the most familiar rows are the wrong ones
    y[high] = (y[high] + 1) % 4
    with pytest.warns(CalibrationWarning, match="does not tell them apart"):
        EnergyScaling().fit(z, y)


def test_float16_storage_is_harmless():
    """The measured effect of half-precision files: 1e-5 in T, 1e-3 in theta."""
    logits, y = SUITE.tuning
    full, half = EnergyScaling().fit(logits, y), EnergyScaling().fit(logits.astype(np.float16), y)
    assert half.temperature_ == pytest.approx(full.temperature_, rel=1e-4)
    assert half.theta_correct_ == pytest.approx(full.theta_correct_, rel=1e-2)


# Invariances.


def test_a_common_constant_changes_nothing():
    logits, y = SUITE.tuning
    logits, test = logits.astype(np.float64), SUITE.clean.logits.astype(np.float64)
    plain, moved = EnergyScaling().fit(logits, y), EnergyScaling().fit(logits + 7, y)
    np.testing.assert_allclose(moved.temperature(test + 7), plain.temperature(test), rtol=1e-6)
    np.testing.assert_allclose(moved.predict_proba(test + 7), plain.predict_proba(test), atol=1e-7)


def test_a_constant_per_row_changes_the_temperature():
    fitted = EnergyScaling().fit(*SUITE.tuning)
    z = SUITE.clean.logits.astype(np.float64)
    shift = np.linspace(-3, 3, len(z))[:, None]
    assert np.abs(fitted.temperature(z + shift) - fitted.temperature(z)).max() > 0.05


@pytest.mark.filterwarnings(
    "ignore:.*at its published bound:wildcal.core.errors.CalibrationWarning"
)
def test_the_free_box_does_not_depend_on_the_unit_of_the_logits_where_energy_allows():
    """F is not homogeneous, so nothing is exactly invariant; the bound is what must not bind."""
    logits, y = SUITE.tuning
    paper = EnergyScaling(box="paper").fit(4 * logits, y)
    free = EnergyScaling(box="free").fit(4 * logits, y)
    assert max(paper.theta_correct_, paper.theta_incorrect_) == pytest.approx(10)
    assert max(free.theta_correct_, free.theta_incorrect_) > 10
    assert free.fit_.loss_after < paper.fit_.loss_after


# Files.


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"theta_correct_": 1e3}, "lets the temperature fall"),
        ({"theta_incorrect_": -1.0}, "must not be negative"),
        ({"temperature_": -1.0}, "must be positive"),
        ({"correct_std_": 0.0}, "must be positive"),
    ],
)
def test_a_file_cannot_break_the_promise(tmp_path, change, message):
    """Even with a matching hash: what the file says is checked against the promise."""
    from wildcal.io.sealed import digest

    fitted = EnergyScaling().fit(*SUITE.tuning)
    path = tmp_path / "energy.json"
    save(fitted, path)
    document = json.loads(path.read_text())
    document.pop("sha256")
    document["fitted"] |= change
    document["sha256"] = digest(document)
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match=message):
        load(path)


# Found by review.


def true_loss(fitted, logits, y):
    """The tuning loss from what the calibrator really returns, not from what its solver claims."""
    p = fitted.predict_proba(logits.astype(np.float64))
    p[np.arange(len(y))[y >= 0], y[y >= 0]] -= 1
    return np.square(p).sum(axis=1).mean()


@pytest.mark.parametrize("box", ["safe", "paper", "free"])
def test_the_reported_loss_is_the_real_one_and_not_above_temperature_scaling(box):
    """Also on small and hopeless sets, where Newton steps leave the box."""
    for seed in range(150):
        rng = np.random.default_rng(seed)
        n, k = int(rng.integers(20, 200)), int(rng.integers(2, 11))
        z = rng.normal(0, rng.uniform(0.5, 8), (n, k)) + rng.normal(0, 3, (n, 1))
        y = np.where(rng.random(n) < rng.random(), z.argmax(axis=1), rng.integers(0, k, n))
        y[rng.random(n) < 0.15] = -1
        y[0] = 0
        fitted = EnergyScaling(box=box, ood_share="rows")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)
            fitted.fit(z, y)
        loss = true_loss(fitted, z, y)
        assert loss == pytest.approx(fitted.fit_.loss_after, rel=1e-6, abs=1e-9), seed
        assert loss <= fitted.fit_.loss_before * (1 + 1e-9), seed
        # Clamping makes kinks in the loss, at which the solver may give up, and says so.
        assert fitted.fit_.converged or "clamped" in str(fitted.fit_.notes), seed


def test_ood_rows_count_even_where_the_temperature_is_at_its_floor():
    logits, y = SUITE.tuning.logits * 0.01, SUITE.tuning.y
    fitted = EnergyScaling().fit(logits, y)
    assert fitted.temperature_ < MIN_TEMPERATURE
    assert fitted.theta_incorrect_ > 0
    assert fitted.fit_.loss_after < fitted.fit_.loss_before


def test_ood_rows_are_flattened_where_every_known_row_is_right():
    z, ood = known(SUITE.tuning).logits[:300], SUITE.ood.logits[:50]
    y = np.r_[z.argmax(axis=1), np.full(50, -1)]
    by_number = EnergyScaling(ood_share="rows")
    fitted, _ = fit_with_notes(by_number, np.vstack([z, ood]), y)
    assert fitted.fit_.loss_after < 0.9 * fitted.fit_.loss_before
    assert fitted.confidence(ood).mean() < 0.9


def test_a_regular_pattern_of_ood_rows_leaves_the_warm_start_alone():
    suite = make_suite(0, n_tuning=12288, n_ood_tuning=1)
    z, y = suite.tuning.logits[:12288], suite.tuning.y[:12288].copy()
    y[::3] = -1
    assert EnergyScaling().fit(z, y).fit_.converged
    weight = np.ones(12288)
    weight[::3] = 0
    for loss in ("nll", "mse"):
        weighted = TemperatureScaling(loss=loss).fit(z, np.maximum(y, 0), sample_weight=weight)
        alone = TemperatureScaling(loss=loss).fit(z[weight > 0], y[weight > 0])
        assert weighted.temperature_ == pytest.approx(alone.temperature_, rel=1e-5)


def test_weight_on_ood_rows_alone_is_refused():
    weight = (SUITE.tuning.y < 0).astype(float)
    with pytest.raises(ValueError, match="must not be zero on every in-distribution row"):
        EnergyScaling().fit(*SUITE.tuning, sample_weight=weight)


def test_enormous_weights_are_only_relative():
    one = EnergyScaling().fit(*SUITE.tuning)
    many = EnergyScaling().fit(*SUITE.tuning, sample_weight=np.full(len(SUITE.tuning.y), 1e308))
    assert many.theta_correct_ == pytest.approx(one.theta_correct_, rel=1e-6)


def test_a_rise_beyond_every_temperature_is_cut_so_that_the_file_can_be_read(tmp_path):
    logits, y = 5e5 * SUITE.tuning.logits.astype(np.float64), SUITE.tuning.y
    fitted = EnergyScaling(box="free", bounds=(1.0, 1e6), ood_share="rows").fit(logits, y)
    (_, rise), _ = fitted.terms()
    assert fitted.temperature_ + rise == pytest.approx(1e6, rel=1e-8)
    save(fitted, tmp_path / "energy.json")
    assert load(tmp_path / "energy.json").theta_incorrect_ == fitted.theta_incorrect_


def test_a_theta_at_its_published_bound_is_said():
    logits, y = SUITE.tuning
    with pytest.warns(CalibrationWarning, match="theta2 is at its published bound of 10"):
        bounded = EnergyScaling(box="paper").fit(4 * logits, y)
    assert bounded.theta_incorrect_ == pytest.approx(10)
