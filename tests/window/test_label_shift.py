"""Label shift, known class frequencies and confidence matching, on data with known answers."""

import warnings

import numpy as np
import pytest
import torch

from wildcal import (
    ConfidenceMatching,
    LabelShiftEM,
    TemperatureScaling,
    VectorScaling,
    WindowScaling,
    get_calibrator,
    load,
    save,
    with_prior,
)
from wildcal.accuracy import ATC, COT, GDE
from wildcal.core.exceptions import CalibrationWarning, InputError
from wildcal.window.label_shift import class_frequencies

EQUAL, RARE = np.full(4, 0.25), np.array([0.7, 0.2, 0.07, 0.03])


def draw(n, prior, seed=0, signal=2.5, scale=2.0):
    """Logits whose class-conditional distribution does not depend on the prior."""
    rng = np.random.default_rng(seed)
    y = rng.choice(len(prior), n, p=prior)
    z = rng.normal(size=(n, len(prior)))
    z[np.arange(n), y] += signal
    return scale * z, y


def log_loss(p, y):
    return -np.log(p[np.arange(len(y)), y]).mean()


@pytest.fixture(scope="module")
def fitted():
    return LabelShiftEM().fit(*draw(8000, EQUAL))


def test_class_frequencies_are_the_maximum_of_the_likelihood():
    rng = np.random.default_rng(0)
    p, prior = rng.dirichlet(np.ones(3), size=200), np.array([0.5, 0.3, 0.2])
    q = class_frequencies(p, prior)

    def objective(q):
        return np.log((p / prior) @ q).sum() + 3 * prior @ np.log(q)

    for other in [q + step for step in 0.02 * (rng.dirichlet(np.ones(3), size=50) - 1 / 3)]:
        other = np.maximum(other, 1e-9)
        assert objective(other / other.sum()) <= objective(q) + 1e-3


def test_frequencies_and_loss_under_label_shift(fitted):
    X, y = draw(4000, RARE, seed=1)
    found = fitted.estimate_prior(X)
    truth = np.bincount(y, minlength=4) / len(y)
    assert (np.abs(found.prior - truth) < 4 * found.standard_error + 1e-3).all()
    assert found.prior.sum() == pytest.approx(1)
    adapted, base = fitted.adapt(X), fitted.base_
    assert log_loss(adapted.predict_proba(X), y) < log_loss(base.predict_proba(X), y) - 0.05
    assert adapted.adjustment_ == pytest.approx(found.prior / fitted.prior_)
    assert not adapted.preserves_accuracy


@pytest.mark.parametrize("prior", [EQUAL, RARE])
def test_standard_errors_include_those_of_few_source_samples(prior):
    errors = []
    for seed in range(25):
        fitted = LabelShiftEM().fit(*draw(500, EQUAL, seed, 1.5))
        found = fitted.estimate_prior(draw(4000, prior, 500 + seed, 1.5)[0])
        errors.append((found.prior - prior) / found.standard_error)
    assert 0.75 < np.sqrt(np.mean(np.square(errors))) < 1.25  # 2.3 for the window alone


def test_a_base_that_is_given_is_used():
    X, y = draw(4000, EQUAL)
    base = VectorScaling().fit(X, y)
    assert LabelShiftEM(base=base).fit(X, y).base_ is base
    assert isinstance(LabelShiftEM(base=TemperatureScaling()).fit(X, y).base_, TemperatureScaling)


def test_no_warning_for_the_source_and_for_label_shift(fitted):
    n_warned = 0
    for seed in range(40):
        for prior in (EQUAL, RARE):
            X, _ = draw(1000, prior, seed=200 + seed)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                fitted.adapt(X)
            n_warned += len(caught)
    assert n_warned <= 6  # 80 windows, at 1 % each


def test_warning_for_another_kind_of_shift(fitted):
    X, _ = draw(2000, EQUAL, seed=3, signal=1.0)
    with pytest.warns(CalibrationWarning, match="more than these has changed"):
        fitted.adapt(X)


def test_warning_for_uninformative_predictions():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 2)) * 0.3 + [2.0, 0.0]
    y = (X + rng.gumbel(size=X.shape)).argmax(axis=1)
    with pytest.warns(CalibrationWarning, match=r"class 1: 0%\), so the estimated"):
        fitted = LabelShiftEM().fit(X, y)
    with pytest.warns(CalibrationWarning, match="frequencies of the window are uncertain"):
        fitted.adapt(X[:60])


def test_small_windows_get_the_base(fitted):
    X, _ = draw(15, RARE, seed=5)
    assert fitted.predict_proba(X) == pytest.approx(fitted.base_.predict_proba(X))


def test_saved_and_converted(fitted, tmp_path):
    X, _ = draw(500, RARE, seed=6)
    adapted = fitted.adapt(X)
    save(adapted, tmp_path / "c.json")
    assert load(tmp_path / "c.json").predict_proba(X) == pytest.approx(adapted.predict_proba(X))
    from_torch = fitted.predict_proba(torch.tensor(X)).numpy()
    assert from_torch == pytest.approx(adapted.predict_proba(X), abs=1e-6)


def test_with_prior_is_right_for_known_frequencies(tmp_path):
    X, y = draw(8000, EQUAL)
    calibrator = VectorScaling().fit(X, y)
    window, truth = draw(8000, RARE, seed=1)
    known = with_prior(calibrator, RARE)
    proba = known.predict_proba(window)
    assert proba.mean(axis=0) == pytest.approx(RARE, abs=0.01)
    assert log_loss(proba, truth) < log_loss(calibrator.predict_proba(window), truth) - 0.05
    same = with_prior(calibrator, EQUAL, EQUAL).predict_proba(window)
    assert same == pytest.approx(calibrator.predict_proba(window))
    save(known, tmp_path / "c.json")
    assert load(tmp_path / "c.json").predict_proba(window) == pytest.approx(proba)


def test_with_prior_after_undersampling():
    """Negatives were undersampled 9 : 1 for training and calibration."""
    X, y = draw(20_000, np.array([0.95, 0.05]), signal=1.0, scale=1.0)
    keep = (y == 1) | (np.random.default_rng(0).random(len(y)) < 1 / 9)
    calibrator = VectorScaling().fit(X[keep], y[keep])
    assert calibrator.predict_proba(X)[:, 1].mean() > 0.2
    real = with_prior(calibrator, [0.95, 0.05])
    assert real.predict_proba(X)[:, 1].mean() == pytest.approx(0.05, abs=0.005)


def test_with_prior_counts_weights():
    X, y = draw(4000, RARE)
    weight = (0.25 / RARE)[y]
    calibrator = VectorScaling().fit(X, y, sample_weight=weight)
    counts = calibrator.profile_.label_counts
    assert counts / counts.sum() == pytest.approx(EQUAL, abs=0.03)


@pytest.mark.parametrize(
    ("prior", "source_prior", "message"),
    [
        ([0.5, 0.5], None, r"prior must have shape \(4,\)"),
        ([0.5, 0.5, 0.5, 0.5], None, "prior must be not negative and sum to 1"),
        ([1.5, -0.5, 0, 0], None, "prior must be not negative"),
        (EQUAL, [0.5, 0.5, 0, 0], "source_prior must be positive"),
        (EQUAL, [np.nan, 0.5, 0.5, 0], "source_prior must be positive"),
    ],
)
def test_with_prior_errors(prior, source_prior, message):
    calibrator = TemperatureScaling().fit(*draw(500, EQUAL))
    with pytest.raises(InputError, match=message):
        with_prior(calibrator, prior, source_prior)


def test_with_prior_needs_an_adapted_calibrator(fitted):
    with pytest.raises(InputError, match=r"calibrator\.adapt\(window\)"):
        with_prior(fitted, EQUAL)
    X, _ = draw(500, EQUAL, seed=8)
    assert with_prior(fitted.adapt(X), RARE).predict_proba(X).shape == X.shape


@pytest.mark.parametrize("estimator", [ATC(), ATC(score="confidence"), COT()])
def test_mean_confidence_is_the_estimated_accuracy(estimator):
    X, y = draw(4000, EQUAL)
    window, _ = draw(1000, EQUAL, seed=1, signal=1.5)
    calibrator = ConfidenceMatching(estimator=estimator).fit(X, y)
    adapted = calibrator.adapt(window)
    value = calibrator.estimator_.estimate(window).value
    assert adapted.confidence(window).mean() == pytest.approx(value, abs=1e-9)
    assert (adapted.predict(window) == window.argmax(axis=1)).all()
    assert not estimator.is_fitted


def test_matching_by_name_and_by_a_fitted_estimator(tmp_path):
    X, y = draw(2000, EQUAL)
    assert get_calibrator("match+cot").name == "match+cot"
    estimator = ATC().fit(X, y)
    calibrator = ConfidenceMatching(estimator=estimator).fit(X, y)
    assert calibrator.estimator_ is estimator
    save(calibrator, tmp_path / "c.json")
    window = X[:200] / 2
    assert load(tmp_path / "c.json").predict_proba(window) == pytest.approx(
        calibrator.predict_proba(window)
    )
    with pytest.raises(InputError, match="must need one network"):
        ConfidenceMatching(estimator=GDE()).fit(X, y)
    with pytest.raises(InputError, match="fitted for 3 classes"):
        ConfidenceMatching(estimator=estimator).fit(X[:, :3], np.minimum(y, 2))


@pytest.mark.parametrize("kind", [ConfidenceMatching, LabelShiftEM])
def test_samples_are_needed(kind):
    X, y = draw(2000, EQUAL)
    statistics = (
        WindowScaling(base=TemperatureScaling().fit(X, y))
        .fit(X, y, domain=np.arange(len(y)) % 2)
        .window_statistics(X)
    )
    with pytest.raises(InputError, match="must be samples"):
        kind().fit(X, y).adapt(statistics)


def test_matching_warns_about_windows_that_are_too_small_for_the_estimator():
    X, y = draw(2000, EQUAL)
    calibrator = ConfidenceMatching(estimator=COT()).fit(X, y)
    with pytest.warns(CalibrationWarning, match="cot needs windows of at least 512 samples"):
        calibrator.adapt(X[:100])
