"""Each published method against its formula, written out plainly."""

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar

from wildcal import TemperatureScaling, load, save
from wildcal.calibrators import make_calibrator
from wildcal.calibrators.smart import MarginScaling, backward, forward, soft_ece
from wildcal.core.errors import CalibrationWarning, ConvergenceWarning
from wildcal.core.rows import Rows
from wildcal.testing import make_suite
from wildcal.window import label_shift
from wildcal.window.domain import Source, density_ratio
from wildcal.window.label_shift import class_shares, found_shares
from wildcal.window.weighted import controlled_accuracy

SUITE = make_suite(6, n_classes=4, n_tuning=500, n_ood_tuning=0, n_test=500)
Z, Y = SUITE.tuning.logits.astype(float), SUITE.tuning.y
WINDOW = SUITE.shifted.logits[300:].astype(float)
LOGITS = np.concatenate([Z, SUITE.shifted.logits])
LABELS = np.concatenate([Y, SUITE.shifted.y])
GROUPS = np.repeat(np.arange(6), [500, 100, 100, 100, 100, 100])


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def nll_temperature(z, y, weight=None, bounds=(0.01, 100)):
    def loss(log_t):
        p = softmax(z / np.exp(log_t))[np.arange(len(y)), y]
        return np.average(-np.log(p), weights=weight)

    return np.exp(minimize_scalar(loss, bounds=np.log(bounds), method="bounded").x)


def test_ace():
    method = make_calibrator("ace").fit(Z, Y)
    wrong = Z.argmax(axis=1) != Y
    weight = np.where(wrong, 1.0, 0.1 * wrong.sum() / (~wrong).sum())
    t0, t1 = (nll_temperature(Z, Y, w, (0.5, 3.0)) for w in (None, weight))
    assert method.temperature_ == pytest.approx(t0, rel=1e-3)
    assert method.hard_temperature_ == pytest.approx(t1, rel=1e-3)
    alpha = softmax(WINDOW).max(axis=1).mean() / softmax(Z).max(axis=1).mean()
    wanted = 1 / (alpha / t0 + (1 - alpha) / t1)
    assert method.context(WINDOW).numbers[0] == pytest.approx(wanted, rel=1e-3)


def test_ace_without_a_mistake():
    method = make_calibrator("ace")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        method.fit(Z, Z.argmax(axis=1))
    assert "no hard set" in " ".join(method.fit_.notes)
    assert method.context(WINDOW).numbers == (method.temperature_,)


def test_nearest_environment():
    method = make_calibrator("ap").fit(LOGITS, LABELS, environment=GROUPS)
    right = LOGITS.argmax(axis=1) == LABELS
    accuracies = [right[GROUPS == e].mean() for e in range(6)]
    temperatures = [nll_temperature(LOGITS[GROUPS == e], LABELS[GROUPS == e]) for e in range(6)]
    scaled = softmax(Z / nll_temperature(Z, Y))
    entropy = (scaled * np.log(scaled)).sum(axis=1)
    threshold = np.sort(entropy)[(Z.argmax(axis=1) != Y).sum()]
    p = softmax(WINDOW / nll_temperature(Z, Y))
    estimate = ((p * np.log(p)).sum(axis=1) >= threshold).mean()
    nearest = int(np.abs(np.array(accuracies) - estimate).argmin())
    np.testing.assert_allclose(method.accuracies_, accuracies)
    assert method.context(WINDOW).numbers[0] == pytest.approx(temperatures[nearest], rel=1e-3)


def test_multi_domain():
    method = make_calibrator("md-ts").fit(LOGITS, LABELS, environment=GROUPS)
    ordered = -np.sort(-LOGITS.astype(float), axis=1)
    x = np.column_stack([ordered, np.log(np.exp(LOGITS.astype(float)).sum(axis=1))])
    own = np.array([nll_temperature(LOGITS[GROUPS == e], LABELS[GROUPS == e]) for e in range(6)])
    root = np.sqrt(1 / np.bincount(GROUPS)[GROUPS])[:, None]
    design = np.column_stack([np.ones(len(x)), x])
    line = np.linalg.lstsq(design * root, own[GROUPS] * root[:, 0], rcond=None)[0]
    # The ridge, and rows beyond ten standard deviations, of which there are none here.
    np.testing.assert_allclose(method.temperature(LOGITS), design @ line, atol=0.01)


@pytest.mark.parametrize(("name", "learned"), [("ap", "temperatures_"), ("md-ts", "coefficients_")])
def test_environments_without_weight_are_as_if_they_were_not_there(name, learned):
    weight = np.where((GROUPS == 2) | (np.arange(len(GROUPS)) % 9 == 0), 0.0, 1.0)
    kept = weight > 0
    method = make_calibrator(name).fit(LOGITS, LABELS, environment=GROUPS, sample_weight=weight)
    other = make_calibrator(name).fit(LOGITS[kept], LABELS[kept], environment=GROUPS[kept])
    np.testing.assert_allclose(getattr(method, learned), getattr(other, learned))


def plain_ratio(source, window):
    def centered(z):
        return z - z.mean(axis=1, keepdims=True)

    x = centered(source)
    both = (np.concatenate([x, centered(window)]) - x.mean(axis=0)) / x.std(axis=0)
    size = max(len(source), len(window))
    weight = np.repeat([size / len(source), size / len(window)], [len(source), len(window)])
    sign = np.repeat([-1.0, 1.0], [len(source), len(window)])

    def loss(v):
        return weight @ np.logaddexp(0, -sign * (both @ v[1:] + v[0])) + v[1:] @ v[1:] / 2

    v = minimize(loss, np.zeros(5), method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-8}).x
    return np.exp(both[: len(source)] @ v[1:] + v[0])


def test_density_ratio():
    found = density_ratio(Source(Z, Y, np.ones(len(Y))), WINDOW)
    np.testing.assert_allclose(found, plain_ratio(Z, WINDOW), rtol=2e-3)


def test_cpcs():
    weight = plain_ratio(Z, WINDOW)
    hot = np.eye(4)[Y]

    def brier(log_t):
        return weight @ ((softmax(Z / np.exp(log_t)) - hot) ** 2).sum(axis=1)

    wanted = np.exp(minimize_scalar(brier, bounds=(-3, 3), method="bounded").x)
    method = make_calibrator("cpcs").fit(Z, Y)
    assert method.context(WINDOW).numbers[0] == pytest.approx(wanted, rel=1e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sharper", [1, 4])
def test_transcal_matches_an_accuracy_of_its_own(sharper, dtype):
    window = (sharper * WINDOW).astype(dtype)
    method = make_calibrator("transcal").fit(Z.astype(dtype), Y)
    (temperature,) = method.context(window).numbers
    ratio, right = plain_ratio(Z, window), (Z.argmax(axis=1) == Y).astype(float)
    share = np.full(len(Y), 1 / len(Y))
    clean = softmax(Z / method.temperature_).max(axis=1).mean()
    mean = softmax(window / temperature).max(axis=1).mean()
    curve = [controlled_accuracy(ratio**a, right, share, clean) for a in np.linspace(0, 1, 201)]
    if sharper == 1:  # it would have to be more confident, which is not allowed
        assert temperature == 1
        assert mean < min(curve)
    else:
        assert temperature > 1
        assert np.abs(np.array(curve) - mean).min() < 2e-3


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_transcal_is_not_stuck_where_all_confidences_are_one(dtype):
    """There the slopes that the search goes by vanish; it stayed at T = 2, where it starts."""
    sure = (120 * np.eye(4)[Z.argmax(axis=1)]).astype(dtype)
    method = make_calibrator("transcal").fit(sure, Y)
    (temperature,) = method.context(sure).numbers
    mean = softmax(sure / temperature).max(axis=1).mean()
    assert mean == pytest.approx((Z.argmax(axis=1) == Y).mean(), abs=1e-4)
    method = make_calibrator("transcal").fit(Z.astype(dtype), Y)
    for times in (3e3, 1e6):
        with pytest.warns(CalibrationWarning, match="transcal: the window is so sure that no temp"):
            assert method.context((times * WINDOW).astype(dtype)).numbers == (100.0,)


def test_control_variates():
    rng = np.random.default_rng(0)
    w, right = rng.gamma(2, 0.5, 300), (rng.random(300) < 0.8).astype(float)
    error = w * (1 - right)
    first = -np.cov(error, w)[0, 1] / np.var(w, ddof=1)
    second = -np.cov(error + first * (w - 1), right)[0, 1] / np.var(right, ddof=1)
    wanted = 1 - (error.mean() + first * w.mean() - first + second * right.mean() - second * 0.7)
    assert controlled_accuracy(w, right, np.full(300, 1 / 300), 0.7) == pytest.approx(wanted)
    assert controlled_accuracy(w, np.ones(300), np.full(300, 1 / 300), 0.7) == pytest.approx(1)


def test_em_finds_shares_that_are_most_likely():
    rng = np.random.default_rng(0)
    prior = np.array([0.2, 0.3, 0.5])
    p = rng.dirichlet(np.ones(3), 400)
    q = class_shares(p, prior)

    def loss(free):
        shares = np.exp(np.append(free, 0.0))
        return -np.log(p @ (shares / shares.sum() / prior)).mean()

    free = minimize(loss, np.zeros(2)).x
    wanted = np.exp(np.append(free, 0.0))
    np.testing.assert_allclose(q, wanted / wanted.sum(), atol=1e-4)


def slow_rows(n_classes=10, n=500):
    """Rows that tell little of their class: EM needs tens of thousands of steps for them."""
    rng = np.random.default_rng(1)
    means = 0.05 * rng.normal(size=(n_classes, n_classes))
    x = means[rng.choice(2, n)] + rng.normal(size=(n, n_classes))
    return softmax(x @ means.T - (means**2).sum(axis=1) / 2), np.full(n_classes, 1 / n_classes)


def test_class_shares_are_found_where_em_is_slow(monkeypatch):
    p, prior = slow_rows()
    q, short = found_shares(p, prior)
    # At the maximum no class would be pulled up, and those that have a share are not pulled down.
    pull = (p / (p @ q)[:, None]).mean(axis=0)
    assert pull.max() == pytest.approx(1, abs=1e-10)
    np.testing.assert_allclose(pull[q > 1e-6], 1, atol=1e-5)
    assert q.sum() == pytest.approx(1)
    assert q.min() >= 0
    assert short <= 1e-12
    monkeypatch.setattr(label_shift, "_NEWTON_CLASSES", 5)
    stopped, short = found_shares(p, prior)
    assert np.abs(stopped - q).max() > 0.1
    assert short == pytest.approx((p / (p @ stopped)[:, None]).mean(axis=0).max() - 1)


def test_shares_that_were_not_found_are_told(monkeypatch):
    method = make_calibrator("em-bcts").fit(Z, Y)
    method.prior_, method.bias_, method.temperature_ = np.full(4, 0.25), np.zeros(4), 1.0
    window = np.log(slow_rows(n_classes=4)[0])
    method.context(window)  # a warning would be an error
    monkeypatch.setattr(label_shift, "_NEWTON_CLASSES", 3)
    with pytest.warns(CalibrationWarning, match="em-bcts: the class shares had not settled"):
        method.context(window)


def test_em_bcts_mends_label_shift():
    method = make_calibrator("em-bcts").fit(Z, Y)
    mean = method.predict_proba(Z).mean(axis=0)
    np.testing.assert_allclose(mean, np.bincount(Y) / len(Y), atol=1e-3)  # what the bias is for
    np.testing.assert_allclose(mean, method.prior_, atol=1e-9)
    rng = np.random.default_rng(0)
    wanted = np.array([0.7, 0.2, 0.05, 0.05])
    clean = SUITE.clean
    rows = np.concatenate([rng.choice(np.flatnonzero(clean.y == k), int(400 * wanted[k]))
                           for k in range(4)])  # fmt: skip
    window = clean.logits[rows]
    around = method.context(window)
    np.testing.assert_allclose(np.array(around.numbers) * method.prior_, wanted, atol=0.05)
    losses = [
        -np.log(method.predict_proba(window, context=c)[np.arange(400), clean.y[rows]]).mean()
        for c in (None, around)
    ]
    assert losses[1] < losses[0]
    assert not method.preserves_accuracy


def test_em_bcts_of_odd_windows():
    seen = Y != 3
    method = make_calibrator("em-bcts").fit(Z[seen], Y[seen])
    assert (method.prior_ > 0).all()
    proba = method.predict_proba(WINDOW, context=method.context(WINDOW))
    assert np.isfinite(proba).all()
    alone = make_calibrator("em-bcts").fit(Z, Y).context(Z[:1])
    assert max(alone.numbers) > 1


def test_soft_ece_and_its_slope():
    rng = np.random.default_rng(0)
    c, right, share = rng.random(40), rng.integers(0, 2, 40).astype(float), np.full(40, 1 / 40)
    kernel = np.exp(-0.5 * ((c[:, None] - (np.arange(15) + 0.5) / 15) / 0.05) ** 2)
    kernel /= kernel.sum(axis=1, keepdims=True)
    size = kernel.sum(axis=0)
    gaps = np.abs((kernel * (c - right)[:, None]).sum(axis=0) / size)
    value, slope = soft_ece(c, right, share)
    assert value == pytest.approx((gaps * size / 40).sum())
    for i in range(5):
        step = 1e-6 * (np.arange(40) == i)
        high, low = (soft_ece(c + s * step, right, share)[0] for s in (1, -1))
        assert slope[i] == pytest.approx((high - low) / 2e-6, abs=1e-7)


def test_the_network_of_smart():
    rng = np.random.default_rng(1)
    weights, x, pull = rng.normal(size=321) / 4, rng.normal(size=9), rng.normal(size=9)
    w1, b1, w2 = weights[:16], weights[16:32], weights[32:288].reshape(16, 16)
    b2, w3, b3 = weights[288:304], weights[304:320], weights[320]
    hidden = np.maximum(np.maximum(np.outer(x, w1) + b1, 0) @ w2 + b2, 0)
    wanted = np.log1p(np.exp(hidden @ w3 + b3)) + 0.1
    passed = forward(weights, x)
    np.testing.assert_allclose(passed.temperature, wanted)
    slope = backward(weights, x, passed, pull)
    for i in (0, 20, 40, 290, 310, 320):
        step = 1e-6 * (np.arange(321) == i)
        high, low = (pull @ forward(weights + s * step, x).temperature for s in (1, -1))
        assert slope[i] == pytest.approx((high - low) / 2e-6, abs=1e-6)


def test_smart_lowers_its_loss_below_that_of_one_temperature():
    method = MarginScaling(patience=60).fit(Z, Y)
    assert method.fit_.converged
    ts = TemperatureScaling().fit(Z, Y)
    right, share = (Z.argmax(axis=1) == Y).astype(float), np.full(len(Y), 1 / len(Y))
    losses = [soft_ece(m.confidence(Z).astype(float), right, share)[0] for m in (method, ts)]
    assert losses[0] < losses[1]
    assert losses[0] == pytest.approx(method.fit_.loss_after, abs=1e-6)


@pytest.mark.parametrize(
    ("options", "times"), [({"epochs": 30}, 1), ({"epochs": 60, "patience": 60}, 1), ({}, 30)]
)
def test_smart_tells_where_it_did_not_arrive(options, times):
    """After too few steps, and where every confidence is 1 at the temperatures it starts from."""
    method = MarginScaling(**options)
    with pytest.warns(ConvergenceWarning, match="MarginScaling did not converge after"):
        method.fit(times * Z, Y)
    assert not method.fit_.converged


@pytest.mark.parametrize("name", ["ace", "ap", "cpcs", "transcal", "em-bcts"])
def test_saved_methods_read_windows_as_before(name, tmp_path):
    method = make_calibrator(name)
    more = {"environment": GROUPS} if "environment" in method.reads else {}
    rows = (LOGITS, LABELS) if more else (Z, Y)
    method.fit(*rows, **more)
    save(method, tmp_path / "m.json")
    again = load(tmp_path / "m.json")
    window = np.arange(len(WINDOW)) // 50
    bound = [m.bind(Rows(WINDOW, window=window)).proba() for m in (method, again)]
    assert bound[0].tobytes() == bound[1].tobytes()
    assert again.context(WINDOW) == method.context(WINDOW)


def test_environments_that_are_not_there():
    for name in ("ap", "md-ts"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            method = make_calibrator(name).fit(Z, Y)
        assert any("environment of each row" in str(c.message) for c in caught)
        np.testing.assert_allclose(
            method.temperature(WINDOW), TemperatureScaling().fit(Z, Y).temperature_, rtol=1e-6
        )
