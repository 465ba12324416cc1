"""Density-aware calibration: what the weights promise, what the base sees, what is refused."""

import copy
import json
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import wildcal
from wildcal import (
    ContextScaling,
    DensityAware,
    EnergyScaling,
    EnsembleTemperatureScaling,
    SplineCalibration,
    TemperatureScaling,
)
from wildcal.calibrators import make_calibrator
from wildcal.calibrators.density.weights import LARGEST_SCALE, fit_weights
from wildcal.core.bound import Scaled
from wildcal.core.errors import CalibrationWarning, FileFormatError, NotFittedError
from wildcal.core.rows import Rows
from wildcal.testing import make_suite

SUITE = make_suite(5, n_classes=6, n_tuning=1500, n_ood_tuning=100, n_test=1000)
KNOWN = SUITE.tuning.y >= 0


def distances(split, seed=0, n_layers=3):
    """Rows that the network gets wrong are farther away, in one layer more than in others."""
    rng = np.random.default_rng(seed)
    far = (split.logits.argmax(axis=1) != split.y).astype(float)
    near = 0.1 + rng.gamma(4.0, 0.02, (len(split.y), n_layers))
    return near + np.linspace(0.02, 0.0, n_layers) * far[:, None]


S = distances(SUITE.tuning)
Z, Y = SUITE.tuning.logits[KNOWN], SUITE.tuning.y[KNOWN]
FITTED = DensityAware().fit(Z, Y, distances=S[KNOWN])


def test_far_rows_are_flattened():
    shifted = SUITE.shifted
    scale = FITTED.scale(distances(shifted, seed=1))
    wrong = shifted.logits.argmax(axis=1) != shifted.y
    assert scale[wrong].mean() > 1.05 * scale[~wrong].mean()


def test_never_worse_than_one_temperature_on_the_tuning_rows():
    one = TemperatureScaling(loss="mse").fit(Z, Y)
    assert FITTED.fit_.loss_after <= one.fit_.loss_after
    # Distances that say nothing leave one temperature.
    silent = DensityAware().fit(Z, Y, distances=np.ones((len(Y), 2)))
    assert silent.fit_.loss_after == pytest.approx(one.fit_.loss_after, rel=1e-6)


def test_the_minimum_is_one():
    """A general optimizer with bounds finds nothing lower."""
    from scipy.optimize import minimize

    z, s, onehot = Z.astype(np.float64), S[KNOWN], np.eye(6)[Y]

    def loss(w):
        t = np.maximum(s @ w[:-1] + w[-1], 0.05)[:, None]
        e = np.exp(z / t - (z / t).max(axis=1, keepdims=True))
        return np.square(e / e.sum(axis=1, keepdims=True) - onehot).sum(axis=1).mean()

    bounds = [(0, 1e4)] * 3 + [(-100, 100)]
    ends = [
        minimize(loss, start, bounds=bounds, method="L-BFGS-B").fun
        for start in (np.ones(4), [0, 0, 0, 2.0], [5.0, 1.0, 0.0, 1.0])
    ]
    assert FITTED.fit_.loss_after <= min(ends) + 1e-7
    assert loss(np.append(FITTED.weights_, FITTED.offset_)) == pytest.approx(
        FITTED.fit_.loss_after, abs=1e-7
    )


@settings(max_examples=60)
@given(
    hnp.arrays(
        np.float64, (4, 3), elements=st.floats(0, 1e308, allow_nan=False, allow_infinity=False)
    )
)
def test_temperature_is_positive_for_any_distances(s):
    scale = FITTED.scale(s)
    assert ((scale >= 0.05) & (scale <= LARGEST_SCALE)).all()
    proba = FITTED.predict_proba(Z[:4] * 1e30, distances=s)
    assert np.isfinite(proba).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-5)


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.sampled_from(["mse", "nll"]))
def test_weights_are_never_negative(seed, n_layers, loss):
    rng = np.random.default_rng(seed)
    s = rng.gamma(rng.uniform(0.2, 3), rng.uniform(1e-3, 10), (60, n_layers))
    z = rng.normal(0, rng.uniform(0.1, 20), (60, 4))
    found = fit_weights(z, rng.integers(0, 4, 60), None, s, loss=loss, floor=0.05)
    assert (found.weights >= 0).all()
    assert (found.weights <= 1e4).all()
    assert abs(found.offset) <= 100


@pytest.mark.parametrize(
    "base", [EnsembleTemperatureScaling(), SplineCalibration(), EnergyScaling()]
)
def test_the_base_is_fitted_from_scratch_on_the_scaled_logits(base):
    rows = slice(None) if base.accepts_ood else KNOWN
    logits, y, s = SUITE.tuning.logits[rows], SUITE.tuning.y[rows], S[rows]
    both = DensityAware(base=base).fit(logits, y, distances=s)
    assert not base.is_fitted
    np.testing.assert_array_equal(both.weights_, FITTED.weights_)  # without the OOD rows
    scaled = logits / FITTED.scale(s)[:, None].astype(np.float32)
    by_hand = type(base)().fit(scaled, y)
    x, sx = SUITE.shifted.logits, distances(SUITE.shifted, 2)
    expected = by_hand.predict_proba(x / FITTED.scale(sx)[:, None].astype(np.float32))
    np.testing.assert_allclose(both.predict_proba(x, distances=sx), expected, atol=1e-6)


def test_temperature_in_all():
    both = DensityAware(base=EnergyScaling()).fit(SUITE.tuning.logits, SUITE.tuning.y, distances=S)
    x, sx = SUITE.clean.logits, distances(SUITE.clean, 3)
    t = both.temperature(x, distances=sx)
    np.testing.assert_allclose(
        both.predict_proba(x, distances=sx), wildcal.softmax(x / t[:, None]), atol=1e-6
    )
    with pytest.raises(ValueError, match="dac divides no row by one temperature"):
        DensityAware(base=SplineCalibration()).fit(Z, Y, distances=S[KNOWN]).temperature(
            x, distances=sx
        )


def in_environments():
    logits = np.concatenate([SUITE.tuning.logits, SUITE.shifted.logits])
    y = np.concatenate([SUITE.tuning.y, SUITE.shifted.y])
    environment = np.r_[np.where(KNOWN, 0, 6), 1 + np.repeat(np.arange(5), 200)]
    return logits, y, environment, np.concatenate([S, distances(SUITE.shifted, 4)])


def test_context_as_the_base():
    logits, y, environment, s = in_environments()
    both = DensityAware(base=ContextScaling()).fit(logits, y, environment=environment, distances=s)
    np.testing.assert_allclose(both.weights_, FITTED.weights_, rtol=1e-6)  # clean rows alone
    x, sx = logits[-200:], s[-200:]
    around = both.context(x, distances=sx)
    assert around == both.base_.context(both.scaled(x, sx))
    assert (
        both.confidence(x, distances=sx, context=around).mean()
        < both.confidence(x, distances=sx).mean()
    )
    np.testing.assert_allclose(
        both.confidence(x, distances=sx, context=around),
        both.predict_proba(x, distances=sx, context=around).max(axis=1),
        rtol=1e-5,
    )
    np.testing.assert_allclose(
        both.predict_proba(x, distances=sx, context=around),
        wildcal.softmax(x / both.temperature(x, distances=sx, context=around)[:, None]),
        atol=1e-6,
    )
    with pytest.raises(ValueError, match="dac reads no context; leave it out"):
        FITTED.predict_proba(x, distances=sx, context=around)
    with pytest.raises(ValueError, match="identity reads no context"):
        FITTED.context(x, distances=sx)


def test_rows_are_scaled_when_they_are_read():
    x, sx = SUITE.clean.logits, distances(SUITE.clean, 6)
    source = Scaled(x, FITTED.scale(sx))
    np.testing.assert_array_equal(source[:], FITTED.scaled(x, sx))
    np.testing.assert_array_equal(source[5:9], FITTED.scaled(x, sx)[5:9])
    assert FITTED.bind(Rows(x, distances=sx)).logits.shape == x.shape


def test_saved_with_its_base_and_its_neighbor(tmp_path):
    made = DensityAware(base=EnergyScaling(box="paper"), neighbor="first", loss="nll", floor=0.1)
    made.fit(Z, Y, distances=S[KNOWN])
    wildcal.save(made, tmp_path / "dac.json")
    loaded = wildcal.load(tmp_path / "dac.json")
    assert (loaded.base.box, loaded.base_.box) == ("paper", "paper")
    assert (loaded.neighbor, loaded.loss, loaded.floor) == ("first", "nll", 0.1)
    assert not loaded.base.is_fitted
    np.testing.assert_array_equal(
        loaded.predict_proba(Z, distances=S[KNOWN]), made.predict_proba(Z, distances=S[KNOWN])
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d["fitted"]["weights_"].update(values=[-1.0, 0, 0]), "weights must lie in"),
        (lambda d: d["fitted"].update(offset_=1e9), "offset must lie within"),
        (
            lambda d: d["options"].update(base={"method": "ts", "options": {"x": 1}}),
            "options must hold",
        ),
        (lambda d: d["options"].update(base=dict(d["fitted"]["base_"], method="?")), "unknown"),
        (lambda d: d["options"].update(floor=0.0), "floor must lie in"),
        (lambda d: d["options"].update(base=copy.deepcopy(d)), "base must be"),
        (lambda d: d["fitted"]["base_"].update(n_classes=7), "of the kind and classes"),
    ],
)
def test_files_that_break_a_promise_are_refused(tmp_path, change, said):
    from wildcal.io.artifact import _KIND, describe_file

    document = json.loads(json.dumps(describe_file(FITTED)))
    change(document)
    body = {k: v for k, v in document.items() if k not in ("format", "version", "sha256")}
    path = tmp_path / "hostile.json"
    path.write_text(json.dumps(_KIND.seal(body)))
    with pytest.raises(FileFormatError, match=said):
        wildcal.load(path)


def test_a_calibrator_in_a_calibrator_without_end(tmp_path):
    from wildcal.io.artifact import _KIND, describe_file

    inner = json.loads(json.dumps(describe_file(FITTED)))
    body = {k: v for k, v in inner.items() if k not in ("format", "version", "sha256")}
    for _ in range(150):
        body = {**body, "options": {**body["options"], "base": body}}
    path = tmp_path / "deep.json"
    path.write_text(json.dumps(_KIND.seal(body)))
    with pytest.raises(FileFormatError):
        wildcal.load(path)


def test_clear_errors():
    with pytest.raises(ValueError, match="needs distances.*extraction with features"):
        DensityAware().fit(Z, Y)
    with pytest.raises(ValueError, match="needs distances.*extraction with features"):
        FITTED.predict_proba(Z)
    with pytest.raises(
        ValueError, match="must have 3 columns, one for each layer as in fit, got 2"
    ):
        FITTED.predict_proba(Z, distances=S[KNOWN][:, :2])
    with pytest.raises(ValueError, match="a row for each of the 1500 rows"):
        FITTED.confidence(Z, distances=S[:7])
    with pytest.raises(ValueError, match="a column for each layer, got shape"):
        DensityAware().fit(Z, Y, distances=S[KNOWN][:, 0])
    for bad in (np.nan, np.inf, -0.1):
        spoiled = S[KNOWN].copy()
        spoiled[17, 1] = bad
        with pytest.raises(ValueError, match=f"row 17 holds {bad:g}"):
            FITTED.predict_proba(Z, distances=spoiled)
    with pytest.raises(ValueError, match="got dtype <U1"):
        FITTED.scale([["a"]])
    with pytest.raises(ValueError, match="base must be a calibrator"):
        DensityAware(base=DensityAware()).fit(Z, Y, distances=S[KNOWN])
    with pytest.raises(ValueError, match="base must be a calibrator.*got str"):
        DensityAware(base="ets").fit(Z, Y, distances=S[KNOWN])
    with pytest.raises(ValueError, match="neighbor must be one of 'kth', 'first'"):
        DensityAware(neighbor="third").fit(Z, Y, distances=S[KNOWN])
    with pytest.raises(NotFittedError):
        DensityAware().scale(S)
    with pytest.raises(ValueError, match="does not use out-of-distribution rows"):
        DensityAware().fit(SUITE.tuning.logits, SUITE.tuning.y, distances=S)
    with pytest.raises(ValueError, match="does not read environments"):
        DensityAware().fit(Z, Y, distances=S[KNOWN], environment=np.zeros(len(Y), int))
    with pytest.raises(ValueError, match="there is no method 'dac\\+nothing'"):
        make_calibrator("dac+nothing")


def test_notes_of_the_base_are_told():
    with pytest.warns(CalibrationWarning, match="ts: the temperature 5 is at its bound"):
        DensityAware(base=TemperatureScaling(bounds=(5, 10))).fit(Z, Y, distances=S[KNOWN])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DensityAware(base=EnsembleTemperatureScaling()).fit(Z, Y, distances=S[KNOWN])


def test_described_in_words():
    first, *_ = FITTED.describe()
    assert first.startswith("Logits are divided by")
    assert "3 layers to the k-th training row, at least 0.05" in first
    assert "Then energy-based" in " ".join(
        DensityAware(base=EnergyScaling()).fit(Z, Y, distances=S[KNOWN]).describe()
    )


def test_a_refused_refit_leaves_the_fit_before_it():
    made = DensityAware().fit(Z, Y, distances=S[KNOWN])
    before = made.predict_proba(Z, distances=S[KNOWN])
    with pytest.raises(ValueError, match="does not read environments"):
        made.fit(Z[:90], Y[:90], distances=3 * S[KNOWN][:90], environment=np.zeros(90, int))
    np.testing.assert_array_equal(made.predict_proba(Z, distances=S[KNOWN]), before)


def test_logits_near_the_ends_of_float32():
    near = np.full((2, 3), 0.0)  # the smallest S
    for value in (3e38, -3e38):
        proba = FITTED.predict_proba(np.full((2, 6), value, np.float32), distances=near)
        np.testing.assert_allclose(proba, 1 / 6, rtol=1e-6)
    ruled_out = np.array([[1.0, 2.0, -np.inf, 0.0, 0.0, 0.0]], np.float32)
    assert FITTED.predict_proba(ruled_out, distances=near[:1])[0, 2] == 0
