"""The mixture that does no harm: what it guarantees, and what it says."""

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize

import wildcal
from wildcal import AutoCalibrator, TemperatureScaling
from wildcal.calibrators.auto.folds import folds
from wildcal.calibrators.auto.members import (
    choose,
    evidence,
    fit_member,
    held_out_scores,
    log_probability,
)
from wildcal.calibrators.auto.mixture import LEAST_BELIEF, mixture_weights, safe_weights
from wildcal.calibrators.soft_rows import mistakes_and_doubt, soft_weight
from wildcal.core.errors import CalibrationWarning
from wildcal.core.rows import Rows
from wildcal.metrics import ece, nll
from wildcal.testing import make_suite

SUITE = make_suite(5, n_tuning=600, n_ood_tuning=0, n_test=2000)
Z, Y = SUITE.tuning


def quiet(calibrator, logits, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return calibrator.fit(logits, y)


def test_no_row_loses_more_than_is_promised():
    calibrator = quiet(AutoCalibrator(), Z, Y)
    x = np.concatenate([SUITE.clean.logits, SUITE.shifted.logits, SUITE.ood.logits])
    own, proba = wildcal.softmax(x), calibrator.predict_proba(x)
    identity = calibrator.weights_[0]
    assert identity >= LEAST_BELIEF / (len(Y) + LEAST_BELIEF)
    assert (proba >= identity * own * (1 - 1e-5)).all()
    words = " ".join(calibrator.describe())
    assert f"rise by more than {-np.log(identity):.3g}" in words


def test_few_labels_do_no_harm_where_temperature_scaling_does():
    clean = SUITE.clean
    before = nll(clean.y, wildcal.softmax(clean.logits))
    change = {"auto": [], "ts": []}
    for start in range(0, 600, 50):
        z, y = Z[start : start + 50], Y[start : start + 50]
        for name, changes in change.items():
            fitted = quiet(wildcal.make_calibrator(name), z, y)
            changes.append(nll(clean.y, fitted.predict_proba(clean.logits)) / before - 1)
    assert max(change["auto"]) < 0.005
    assert np.mean(change["auto"]) < 0


def test_a_set_without_a_mistake_is_said_and_leaves_the_softmax():
    right = Z.argmax(1) == Y
    with pytest.warns(CalibrationWarning, match="no held-out row is wrong, where the network"):
        calibrator = AutoCalibrator().fit(Z[right], Y[right])
    own = wildcal.softmax(SUITE.clean.logits).max(1)
    assert (calibrator.confidence(SUITE.clean.logits) - own).mean() < 0.05


def test_members_come_with_mistakes_to_learn_from():
    few = quiet(AutoCalibrator(), Z[:60], Y[:60])
    many = quiet(AutoCalibrator(), Z, Y)
    assert {m.name for m in few.members_} <= {"identity", "ts", "ets"}
    assert len(many.members_) > len(few.members_)
    assert many.weights_.sum() == pytest.approx(1)


def test_lifted_zeros_are_no_energy():
    """A forest's zeros leave sums above 1, which later rows without a zero would not have."""
    proba = wildcal.softmax(Z.astype(float))
    proba[proba < 0.01] = 0
    calibrator = quiet(AutoCalibrator(), wildcal.logits_from_proba(proba), Y)
    assert "energy" not in {m.name for m in calibrator.members_}
    assert calibrator.takes_log_proba


def test_weights_are_the_optimum():
    rng = np.random.default_rng(0)
    log_proba = np.log(rng.uniform(0.1, 1, (80, 3)))
    weight = rng.uniform(0.5, 2, 80)
    found = mixture_weights(log_proba, weight, prior=5.0)

    def loss(free):
        w = np.exp(free) / np.exp(free).sum()
        return -(weight @ np.log(np.exp(log_proba) @ w) + 5 * np.log(w[0]))

    best = minimize(loss, np.zeros(3), tol=1e-12)
    assert loss(np.log(found)) == pytest.approx(best.fun, rel=1e-4)


def test_belief_in_the_identity_fades_with_evidence():
    """The same gain for each row: with few rows it may be luck, with many it is not."""
    rng = np.random.default_rng(0)
    own, other = np.full(4000, 0.5), np.where(rng.random(4000) < 0.5, 0.35, 0.8)
    log_proba = np.log(np.column_stack([own, other]))
    careful, sure = (safe_weights(log_proba[:n], np.ones(n), np.zeros(n, bool)) for n in (20, 4000))
    np.testing.assert_array_equal(careful, mixture_weights(log_proba[:20], np.ones(20), 7.5))
    assert sure[0] < mixture_weights(log_proba, np.ones(4000), 5.0)[0] < careful[0]
    doubled = safe_weights(log_proba[:300], np.full(300, 2.0), np.arange(300) < 200)
    twice = safe_weights(np.repeat(log_proba[:300], 2, axis=0), np.ones(600), np.arange(600) < 400)
    np.testing.assert_allclose(doubled, twice, atol=1e-9)


def test_the_first_three_members_come_from_one_fit():
    """As cheap scores of them, and the same as three fits give."""
    rows, asked = Rows(Z[:300], Y[:300]), Rows(Z[300:], Y[300:])
    members = choose(rows, evidence(rows))
    scores = held_out_scores(members, rows, asked)
    for m, member in enumerate(members):
        expected = log_probability(fit_member(member, rows), asked)
        np.testing.assert_allclose(scores[:, m], expected, atol=1e-5)


def test_folds_hold_every_row_once_and_copies_together():
    doubled = np.concatenate([Z[:100], Z[:100]])
    y = np.append(Y[:100], Y[:100])
    held = list(folds(doubled, y, repeats=2))
    assert len(held) == 10
    assert (sum(held[:5]) == 1).all()
    assert (sum(held[5:]) == 1).all()
    for mask in held:
        np.testing.assert_array_equal(mask[:100], mask[100:])
        assert 15 <= mask[:100].sum() <= 25


def few_answers(n, seed):
    """Return log probabilities of three nearest neighbors, zeros lifted, and labels."""
    rng = np.random.default_rng(seed)
    pred, y = rng.integers(0, 10, n), rng.integers(0, 10, n)
    sure = rng.random(n) < 0.8
    y = np.where(rng.random(n) < np.where(sure, 0.99, 0.8), pred, y)
    second = np.where(sure, pred, (pred + 1 + rng.integers(0, 9, n)) % 10)
    proba = np.zeros((n, 10))
    np.add.at(proba, (np.arange(n), pred), 2 / 3)
    np.add.at(proba, (np.arange(n), second), 1 / 3)
    return wildcal.logits_from_proba(proba), y


def test_a_common_answer_is_in_every_fold():
    z, y = few_answers(500, 0)
    parts = list(folds(z, y, repeats=1))
    assert np.allclose(sum(parts), 1)
    sure_and_right = (z.max(axis=1) > -1e-6) & (z.argmax(axis=1) == y)
    for part in parts:
        assert (part[sure_and_right] == 0.2).all()
    weight = np.repeat([1.0, 2.0], 250)
    twice = np.append(np.arange(500), np.arange(250, 500))
    for own, copied in zip(
        folds(z, y, 1, weight=weight), folds(z[twice], y[twice], 1), strict=True
    ):
        np.testing.assert_array_equal(own[twice], copied)


def test_a_model_of_few_answers_is_calibrated():
    """A fold that took all rows of one answer taught that nothing was better than the softmax."""
    z, y = few_answers(500, 0)
    test, truth = few_answers(4000, 2)
    found = quiet(AutoCalibrator(), z, y).predict_proba(test)
    assert ece(truth, wildcal.softmax(test)) > 0.1
    assert ece(truth, found) < 0.045
    others = few_answers(50, 1)[0]  # no member reads them, and no row may weigh more for them
    joined = np.concatenate([z, others]), np.append(y, np.full(50, -1))
    np.testing.assert_array_equal(found, quiet(AutoCalibrator(), *joined).predict_proba(test))


def test_soft_rows_are_rows_with_the_softmax_as_label():
    """The root in beta that the definition asks for, found by brute force."""
    z, y = Z[:80].astype(float), Y[:80]
    mistakes, doubt, total = mistakes_and_doubt(z, y, None)
    own = wildcal.softmax(z)
    assert mistakes == (z.argmax(1) != y).sum()
    assert doubt == pytest.approx((1 - own.max(1)).sum())
    assert total == 80
    lam = soft_weight(mistakes, doubt, 2.0)

    def loss(log_t):
        log_q = np.log(wildcal.softmax(z / np.exp(log_t[0])))
        return -log_q[np.arange(80), y].mean() - lam * (own * log_q).sum(1).mean()

    best = minimize(loss, np.zeros(1), tol=1e-12)
    fitted = TemperatureScaling(prior=2.0).fit(z, y)
    assert np.log(fitted.temperature_) == pytest.approx(best.x[0], abs=1e-5)
    assert abs(np.log(fitted.temperature_)) < abs(
        np.log(TemperatureScaling().fit(z, y).temperature_)
    )


@pytest.mark.parametrize("prior", [-1, float("inf"), "2", True])
@pytest.mark.parametrize("name", ["ts", "ets", "beta", "isotonic"])
def test_wrong_priors_are_refused(name, prior):
    with pytest.raises(ValueError, match=r"prior must be a (finite )?number"):
        wildcal.make_calibrator(name).set_params(prior=prior).fit(Z, Y)


def test_a_file_of_a_mixture_must_keep_its_promises(tmp_path):
    calibrator = quiet(AutoCalibrator(), Z, Y)
    calibrator.weights_ = calibrator.weights_ * 0
    with pytest.raises(ValueError, match="weights must be one for each member"):
        wildcal.save(calibrator, tmp_path / "auto.json")


def reweighted(n, seed=0):
    """Two classes, one row in ten of the second; the network takes them to be equally frequent."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.1).astype(int)
    score = rng.normal(np.where(y == 1, 1.5, -1.5), np.sqrt(3.0))  # its log-odds, for equal shares
    return wildcal.logits_from_score(score), y


def test_offsets_where_the_classes_are_not_as_frequent_as_the_network_thinks():
    (z, y), (x, truth) = reweighted(500), reweighted(4000, seed=1)
    calibrator = quiet(AutoCalibrator(), z, y)
    assert not calibrator.preserves_accuracy
    assert "an offset for each class" in calibrator.describe()[0]
    best = nll(truth, wildcal.softmax(x + np.log([0.9, 0.1])))
    assert (
        nll(truth, calibrator.predict_proba(x)) < 1.03 * best < 0.7 * nll(truth, wildcal.softmax(x))
    )
    # The promise holds for every row, changed class or not.
    floor = calibrator.weights_[0] * wildcal.softmax(x) * (1 - 1e-5)
    assert (calibrator.predict_proba(x) >= floor).all()


def test_the_class_is_kept_on_request_and_the_price_is_named():
    (z, y), (x, _) = reweighted(500), reweighted(1000, seed=1)
    with pytest.warns(
        CalibrationWarning, match=r"lower the NLL by another \d+\.\d %, and are left"
    ):
        calibrator = AutoCalibrator(keep_class=True).fit(z, y)
    proba = calibrator.predict_proba(x)
    assert calibrator.preserves_accuracy
    assert (proba[np.arange(len(x)), x.argmax(1)] == proba.max(1)).all()


def test_no_other_class_is_as_probable_where_the_class_is_kept():
    """The second class is right more often than the first, so nearly all rows are cut."""
    rng = np.random.default_rng(0)
    order = np.argsort(Z, axis=1)
    y = np.where(rng.random(len(Z)) < 0.7, order[:, -2], order[:, -1])
    calibrator = quiet(AutoCalibrator(keep_class=True), Z, y)
    for dtype in (np.float16, np.float32, np.float64):
        x = rng.normal(0, 3, (1000, Z.shape[1])).astype(dtype)
        proba = calibrator.predict_proba(x)
        second, first = np.sort(proba, axis=1)[:, -2:].T
        assert (proba.argmax(1) == x.argmax(1)).all()
        assert (second < first).all()
        assert (second > 0.999 * first).mean() > 0.3
        np.testing.assert_array_equal(calibrator.confidence(x), first)
        np.testing.assert_allclose(proba.sum(1), 1, atol=4 * np.finfo(proba.dtype).eps)


def test_no_offsets_without_need():
    calibrator = quiet(AutoCalibrator(), Z, Y)
    assert calibrator.preserves_accuracy
    assert calibrator.fit_.reason.startswith(f"On {len(Y)} rows with")
    assert calibrator.fit_.reason in calibrator.describe()


def test_the_softmax_alone_is_said_to_stay():
    rng = np.random.default_rng(0)  # labels drawn from the softmax itself: nothing to learn
    z = rng.normal(0, 2, (60, 3))
    y = (wildcal.softmax(z).cumsum(1) < rng.random((60, 1))).sum(1)
    calibrator = quiet(AutoCalibrator(), z, y)
    assert calibrator.weights_.tolist() == [1.0]
    assert "no member told more of unseen rows" in calibrator.fit_.reason
    assert "No row's negative log-likelihood can rise at all." in calibrator.describe()


def test_shifted_environments_are_held_out_whole():
    environment = np.r_[np.zeros(100, int), 5 + np.repeat(np.arange(6), 20)]
    held = list(folds(Z[:220], Y[:220], 1, environment))
    assert (sum(held) == 1).all()
    for mask in held:
        assert all(mask[environment == e].all() or not mask[environment == e].any()
                   for e in range(5, 11))  # fmt: skip
    renamed = list(folds(Z[:220], Y[:220], 1, np.where(environment, 20 - environment, 0)))
    np.testing.assert_array_equal(held, renamed)


@pytest.mark.parametrize("name", ["ets", "tsmix", "auto"])
def test_a_class_that_is_ruled_out_stays_so(name):
    rng = np.random.default_rng(0)
    y = np.where(rng.random(len(Y)) < 0.15, rng.integers(0, Z.shape[1], len(Y)), Y)
    z = Z.copy()
    masked = rng.random(z.shape) < 0.2
    masked[np.arange(len(y)), y] = masked[np.arange(len(y)), z.argmax(1)] = False
    z[masked] = -np.inf
    proba = quiet(wildcal.make_calibrator(name), z, y).predict_proba(z)
    assert (proba[masked] == 0).all()
    np.testing.assert_allclose(proba.sum(1), 1, atol=1e-5)


def test_rows_that_are_all_right_do_not_make_sure():
    """A member that is surer gains on each of them, and would lose on the first mistake."""
    log_proba = np.log(np.tile([0.9, 0.97], (50, 1)))
    blind = safe_weights(log_proba, np.ones(50), np.zeros(50, bool))  # as if none were right
    assert blind[0] < 0.3
    assert safe_weights(log_proba, np.ones(50), np.ones(50, bool))[0] > 0.8


def test_labels_that_count_otherwise_are_said():
    with pytest.warns(CalibrationWarning, match=r"of 600 rows are right, fewer than by guessing"):
        AutoCalibrator().fit(Z, (Z.argmax(axis=1) + 1) % Z.shape[1])


def test_weights_count_rows():
    """Two of weight 1 or one of weight 2, on either side of the sizes at which folds repeat."""
    z, y = Z[:200], Y[:200]
    twice = quiet(AutoCalibrator(), np.repeat(z, 2, axis=0), np.repeat(y, 2))
    for weight, rows in ((np.full(200, 2.0), 200), (np.repeat([2.0, 0.0], [200, 50]), 250)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)
            own = AutoCalibrator().fit(Z[:rows], Y[:rows], sample_weight=weight)
        np.testing.assert_allclose(
            own.predict_proba(SUITE.clean.logits),
            twice.predict_proba(SUITE.clean.logits),
            atol=1e-6,
        )


def test_a_temperature_at_its_bound_is_said():
    with pytest.warns(CalibrationWarning, match="at its bound"):
        AutoCalibrator().fit(300 * Z, Y)
