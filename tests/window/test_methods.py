"""Each published method against its formula, written out plainly."""

import numpy as np
import pytest
from scipy.optimize import minimize

from wildcal._old.calibrators import make_calibrator
from wildcal._old.core.errors import CalibrationWarning
from wildcal._old.core.rows import Rows
from wildcal._old.io.artifact import load, save
from wildcal._old.testing import make_suite
from wildcal._old.window import label_shift
from wildcal._old.window.label_shift import class_shares, found_shares

SUITE = make_suite(6, n_classes=4, n_tuning=500, n_ood_tuning=0, n_test=500)
Z, Y = SUITE.tuning.logits.astype(float), SUITE.tuning.y
WINDOW = SUITE.shifted.logits[300:].astype(float)


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


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


def test_a_saved_method_reads_windows_as_before(tmp_path):
    method = make_calibrator("em-bcts").fit(Z, Y)
    save(method, tmp_path / "m.json")
    again = load(tmp_path / "m.json")
    window = np.arange(len(WINDOW)) // 50
    bound = [m.bind(Rows(WINDOW, window=window)).proba() for m in (method, again)]
    np.testing.assert_allclose(bound[0], bound[1])
    assert again.context(WINDOW) == method.context(WINDOW)
