"""Accuracy estimators: formulas written out with loops, statistics, intervals, files, errors."""

import json
import math

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.optimize import linprog

from wildcal import load, save
from wildcal.accuracy import AC, ATC, CBPE, COTT, ESTIMATORS, GDE, AccuracyStatistics, get_estimator
from wildcal.accuracy.transport import transport_prices
from wildcal.core.exceptions import CalibrationWarning, FileFormatError, InputError, NotFittedError
from wildcal.core.validation import check_samples

NAMES = tuple(ESTIMATORS)
SUMMABLE = tuple(name for name in NAMES if get_estimator(name).summable)


def second_of(name, logits):
    """The keyword arguments that `estimate` needs besides the window."""
    if not get_estimator(name).requires_second_logits:
        return {}
    noise = np.random.default_rng(8).normal(size=logits.shape)
    return {"second_logits": logits + 1.5 * noise}


def mistaken(X):
    """Predicted classes, the first one wrong."""
    y = X.argmax(axis=1)
    y[0] = (y[0] + 1) % X.shape[1]
    return y


@pytest.fixture(scope="module")
def domains(draw):
    return draw(fall=(0.0, 0.2, 0.3, 0.5, 0.7, 0.8))


@pytest.fixture(scope="module")
def estimators(domains):
    X, y, domain = domains
    return {name: get_estimator(name).fit(X, y, domain=domain) for name in NAMES}


@pytest.fixture(scope="module")
def shifted(draw):
    X, y, _ = draw(seed=5, n=200, fall=(0.4,))
    return X, y


def softmax(row, temperature):
    terms = [math.exp((x - max(row)) / temperature) for x in row]
    return [t / sum(terms) for t in terms]


def source(domains):
    X, y, domain = domains
    return X[domain == 0], y[domain == 0]


def accuracy(X, y):
    return float(np.mean(X.argmax(axis=1) == y))


def test_ac_and_doc_by_hand(estimators, domains, shifted):
    t = estimators["ac"].calibrator_.temperature_
    confidence = np.mean([max(softmax(row, t)) for row in shifted[0]])
    assert estimators["ac"].estimate(shifted[0]).value == pytest.approx(confidence, abs=1e-12)
    X, y = source(domains)
    expected = accuracy(X, y) + confidence - np.mean([max(softmax(row, t)) for row in X])
    assert estimators["doc"].estimate(shifted[0]).value == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "score"),
    [("atc-mc", max), ("atc-ne", lambda p: sum(x * math.log(x) for x in p if x > 0))],
)
def test_atc_by_hand(name, score, estimators, domains, shifted):
    t = estimators[name].calibrator_.temperature_
    X, y = source(domains)
    n_wrong = int(np.sum(X.argmax(axis=1) != y))
    threshold = sorted(score(softmax(row, t)) for row in X)[n_wrong]
    above = np.mean([score(softmax(row, t)) >= threshold - 1e-12 for row in shifted[0]])
    assert estimators[name].estimate(shifted[0]).value == pytest.approx(above, abs=1e-12)
    assert estimators[name].estimate(X).value == pytest.approx(accuracy(X, y), abs=1e-12)


def linear_program(p, share):
    """The value of COT and what each sample gets, with every entry of the plan written out."""
    m, k = p.shape
    rows, columns = np.kron(np.eye(m), np.ones(k)), np.tile(np.eye(k), m)
    right = np.append(np.full(m, 1 / m), share)
    found = linprog(-p.ravel(), A_eq=np.vstack([rows, columns]), b_eq=right)
    return -found.fun, m * (found.x.reshape(m, k) * p).sum(axis=1)


@pytest.mark.parametrize(("m", "k"), [(41, 4), (7, 12), (120, 3), (1, 5)])
@pytest.mark.parametrize("temperature", [0.1, 1.0, 10.0])
def test_transport_is_exact_to_1e_4(m, k, temperature):
    rng = np.random.default_rng(m)
    p = np.array([softmax(row, temperature) for row in rng.normal(size=(m, k))])
    share = rng.dirichlet(np.ones(k))
    share[0] = 0.0  # a class that no source sample has
    share /= share.sum()
    u = transport_prices(p, share)
    value = (p - u).max(axis=1).mean() + share[1:] @ u[1:]
    assert value == pytest.approx(linear_program(p, share)[0], abs=1e-4)


def test_cot_and_cott_by_linear_program(estimators, domains, shifted):
    X, y = source(domains)
    share = np.bincount(y, minlength=4) / len(y)
    t = estimators["cot"].calibrator_.temperature_
    p, q = (np.array([softmax(row, t) for row in part[:100]]) for part in (shifted[0], X))
    some = estimators["cot"].estimate(shifted[0][:100]).value
    assert some == pytest.approx(linear_program(p, share)[0], abs=1e-4)
    estimator = COTT().fit(X[:100], y[:100])
    t = estimator.calibrator_.temperature_
    q = np.array([softmax(row, t) for row in X[:100]])
    gains = linear_program(q, np.bincount(y[:100], minlength=4) / 100)[1]
    n_wrong = int(np.sum(X[:100].argmax(axis=1) != y[:100]))
    assert estimator.threshold_ == pytest.approx(np.sort(gains)[n_wrong], abs=0.02)
    value = estimator.estimate(X[:100]).value
    assert value == pytest.approx(accuracy(X[:100], y[:100]), abs=0.011)  # ties of the plan


def test_cot_has_no_statistics(estimators, shifted):
    with pytest.raises(InputError, match="COT has no statistics"):
        estimators["cot"].statistics(shifted[0])


def test_gde_is_the_agreement(estimators, shifted):
    second = second_of("gde", shifted[0])["second_logits"]
    agree = np.mean(shifted[0].argmax(axis=1) == second.argmax(axis=1))
    assert estimators["gde"].estimate(shifted[0], second_logits=second).value == agree
    score = np.linspace(-3, 3, 40)
    binary = GDE().fit(score, score > np.tile([-1, 1], 20), input="score")
    assert binary.estimate(score, second_logits=-score).value == 0


def test_cbpe_calibrates_a_class_that_temperature_scaling_cannot():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(4000, 2)) * 2
    y = (logits + np.array([0.0, 1.5]) + rng.gumbel(size=logits.shape)).argmax(axis=1)
    estimator = CBPE().fit(logits, y)
    assert all(curve is not None for curve in estimator.curves_)
    truth = accuracy(logits, y)
    assert abs(estimator.estimate(logits).value - truth) < 0.02
    assert abs(get_estimator("ac").fit(logits, y).estimate(logits).value - truth) < 0.02


@pytest.mark.parametrize("name", NAMES)
def test_estimates_fall_under_shift_inside_the_interval(name, estimators, domains, shifted):
    estimator, X = estimators[name], shifted[0]
    found = estimator.estimate(X, **second_of(name, X))
    whole, _ = source(domains)
    at_source = estimator.estimate(whole, **second_of(name, whole))
    assert found.value < at_source.value - 0.03
    assert 0 <= found.low < found.value < found.high <= 1
    assert found.n_samples == len(X)
    assert found.to_dict()["low"] == found.low
    assert found.high - found.low > at_source.high - at_source.low


@pytest.mark.parametrize("name", SUMMABLE)
def test_statistics_add(name, estimators, shifted):
    estimator, X = estimators[name], shifted[0]
    second = second_of(name, X).get("second_logits")
    parts = [
        estimator.statistics(X[part], second_logits=None if second is None else second[part])
        for part in (slice(0, 1), slice(1, 70), slice(70, None))
    ]
    total = parts[0] + parts[1] + parts[2]
    whole = estimator.estimate(X, second_logits=second)
    assert total.n_samples == whole.n_samples
    assert estimator.estimate(total).value == pytest.approx(whole.value, abs=1e-12)
    assert estimator.estimate(total).low == pytest.approx(whole.low, abs=1e-12)


def test_statistics_of_two_estimators_do_not_add(estimators, shifted):
    ac, atc = (estimators[name].statistics(shifted[0]) for name in ("ac", "atc-ne"))
    with pytest.raises(InputError, match="one estimator, got 'ac' and 'atc-ne'"):
        ac + atc
    with pytest.raises(InputError, match="statistics of 'ac'"):
        estimators["atc-ne"].estimate(ac)
    with pytest.raises(InputError, match="at least one sample"):
        estimators["ac"].estimate(AccuracyStatistics("ac", 0, 0.0))


@pytest.mark.parametrize("name", NAMES)
def test_saved_and_loaded(name, estimators, shifted, tmp_path):
    save(estimators[name], tmp_path / "e.json", metadata={"by": "test"})
    back, info = load(tmp_path / "e.json", return_info=True)
    more = second_of(name, shifted[0])
    assert back.estimate(shifted[0], **more) == estimators[name].estimate(shifted[0], **more)
    assert info.metadata == {"by": "test"}
    assert repr(back) == repr(estimators[name])


def test_a_file_without_a_number_is_refused(estimators, tmp_path):
    from wildcal.io.artifact import _digest

    path = tmp_path / "e.json"
    save(estimators["atc-ne"], path)
    document = json.loads(path.read_text())
    for missing in ("threshold_", "error_variance_", "domain_errors_", "calibrator_"):
        broken = json.loads(path.read_text())
        del broken["calibrator"][missing]
        broken["sha256"] = _digest(
            {key: broken[key] for key in ("calibrator", "metadata", "columns")}
        )
        path.write_text(json.dumps(broken))
        with pytest.raises(FileFormatError):
            load(path)
        path.write_text(json.dumps(document))


def test_an_unfitted_estimator_raises(tmp_path):
    with pytest.raises(NotFittedError, match="ATC is not fitted; call fit"):
        ATC().estimate(np.zeros((1, 2)))
    with pytest.raises(NotFittedError):
        save(ATC(), tmp_path / "e.json")


def test_inputs_of_every_kind_give_the_same(domains, shifted):
    X, y, _ = domains
    log_proba = X - np.log(np.exp(X).sum(axis=1, keepdims=True))
    Z = shifted[0]
    log_window = Z - np.log(np.exp(Z).sum(axis=1, keepdims=True))
    expected = ATC().fit(X, y).estimate(Z)
    for kind, samples, window in (
        ("log_proba", log_proba, log_window),
        ("proba", np.exp(log_proba), np.exp(log_window)),
    ):
        found = ATC().fit(samples, y, input=kind).estimate(window)
        assert found.value == pytest.approx(expected.value, abs=1e-9)
        assert found.low == pytest.approx(expected.low, abs=1e-6)
    for window in (torch.tensor(Z, requires_grad=True), Z.astype(np.float64)):
        assert ATC().fit(X, y).estimate(window).value == expected.value
    frame = pd.DataFrame(X, columns=list("abcd"))
    by_name = ATC().fit(frame, np.array(list("abcd"))[y])
    assert by_name.estimate(pd.DataFrame(Z, columns=list("abcd"))).value == expected.value
    with pytest.raises(InputError, match="columns of fit"):
        by_name.estimate(pd.DataFrame(Z, columns=list("bacd")))


def test_a_binary_score():
    rng = np.random.default_rng(0)
    score = 2 * rng.normal(size=3000)
    y = rng.random(3000) < 1 / (1 + np.exp(-score))
    estimator = get_estimator("ac").fit(score, y, input="score")
    assert estimator.estimate(score).value == pytest.approx(np.mean((score > 0) == y), abs=0.02)


@pytest.mark.parametrize("name", ["ac", "doc", "atc-ne", "atc-mc"])
def test_a_stated_confidence(name):
    rng = np.random.default_rng(0)
    confidence = rng.beta(4, 2, size=5000)
    right = rng.random(5000) < confidence
    estimator = get_estimator(name).fit(confidence, right, input="confidence")
    assert estimator.source_accuracy_ == right.mean()
    assert estimator.estimate(confidence).value == pytest.approx(right.mean(), abs=0.01)
    harder = rng.beta(2, 2, size=5000)
    found = estimator.estimate(harder)
    assert found.value < estimator.estimate(confidence).value - 0.1
    if name in ("ac", "doc"):  # the confidence stays calibrated, which ATC does not assume
        assert found.value == pytest.approx(0.5, abs=0.03)


def test_a_weight_repeats_a_sample(domains, shifted):
    X, y, _ = domains
    weight = np.resize([2.0, 1.0, 0.0], len(y))
    i = np.repeat(np.arange(len(y)), weight.astype(int))
    weighted = ATC().fit_samples(check_samples(X, y, sample_weight=weight))
    assert weighted.estimate(shifted[0]) == ATC().fit(X[i], y[i]).estimate(shifted[0])
    with pytest.raises(InputError, match="whole numbers"):
        ATC().fit_samples(check_samples(X, y, sample_weight=weight + 0.5))


def test_ood_samples_are_left_out(domains):
    X, y, domain = domains
    more = np.concatenate([X, X[:50] * 0.1]), np.append(y, np.full(50, -1))
    with pytest.warns(CalibrationWarning, match="50 OOD samples"):
        found = ATC().fit(*more, domain=np.append(domain, np.zeros(50, int)))
    assert found.threshold_ == ATC().fit(X, y, domain=domain).threshold_


def test_domains_change_the_interval_alone(domains, shifted):
    X, y, domain = domains
    with_domains, alone = ATC().fit(X, y, domain=domain), ATC().fit(*source(domains))
    first, second = with_domains.estimate(shifted[0]), alone.estimate(shifted[0])
    assert first.value == second.value
    assert len(with_domains.domain_errors_) == 5
    for number, error in enumerate(with_domains.domain_errors_, start=1):
        part = X[domain == number], y[domain == number]
        assert error == pytest.approx(alone.estimate(part[0]).value - accuracy(*part), abs=1e-9)
    assert alone.relative_error_ == ATC.default_relative_error


@pytest.mark.parametrize("n", [32, 200, 1000])
def test_the_interval_covers_95_percent_of_in_distribution_windows(n, draw):
    """Fit and windows are drawn anew each time, so the expected coverage is 95 %."""
    inside = []
    for seed in range(200):
        X, y, _ = draw(seed=seed, n=1000)
        window, truth, _ = draw(seed=1000 + seed, n=n)
        found = ATC().fit(X, y).estimate(window)
        inside.append(found.low <= accuracy(window, truth) <= found.high)
    assert 0.90 <= np.mean(inside) <= 0.985


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", ["one", "equal", "one class", "masked", "huge"])
def test_estimates_of_unusual_windows(name, case, estimators, shifted):
    Z = shifted[0]
    window = {
        "one": Z[:1],
        "equal": np.repeat(Z[:1], 50, axis=0),
        "one class": Z[Z.argmax(axis=1) == 0],
        "masked": np.where(np.arange(4) == 3, -np.inf, Z),
        "huge": Z * 1e4,
    }[case]
    estimator = estimators[name]
    if estimator.assumes_source_prior and case in ("equal", "one class"):
        with pytest.warns(CalibrationWarning, match="contradict the class frequencies"):
            found = estimator.estimate(window)
    else:
        found = estimator.estimate(window, **second_of(name, window))
    assert 0 <= found.low <= found.value <= found.high <= 1


def test_perfect_and_wrong_source_samples():
    X = np.array([[3.0, 0.0], [0.0, 3.0]] * 20)
    right, wrong = np.array([0, 1] * 20), np.array([1, 0] * 20)
    with pytest.warns(CalibrationWarning, match="no source sample is misclassified"):
        perfect = ATC().fit(X, right)
    for estimator, value in ((perfect, 1.0), (ATC().fit(X, wrong), 0.0)):
        found = estimator.estimate(X[:10])
        assert found.value == value
        assert found.low < found.high


def test_warning_about_an_error_on_source_samples():
    X = np.array([[3.0, 0.0], [0.0, 3.0]] * 200)
    with pytest.warns(CalibrationWarning, match=r"source samples is 0.5\d\d, their accuracy 0.000"):
        AC().fit(X, 1 - X.argmax(1))


@pytest.mark.parametrize("name", ["atc-ne", "atc-mc", "cott"])
def test_the_estimate_for_tied_source_samples_is_their_accuracy(name):
    rng = np.random.default_rng(0)
    votes = rng.binomial(5, 0.6, 2000) / 5
    y = (rng.random(2000) < votes).astype(int)
    proba = np.column_stack([1 - votes, votes])
    accuracy = np.mean(proba.argmax(axis=1) == y)
    estimator = get_estimator(name).fit(proba, y, input="proba")
    assert estimator.estimate(proba).value == pytest.approx(accuracy, abs=1e-9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda e, X: e.estimate(X[:, :3]), "shape"),
        (lambda e, X: e.estimate(X * np.nan), "finite"),
        (lambda e, X: GDE().fit(X, mistaken(X)).estimate(X), "second_logits must be given to GDE"),
        (
            lambda e, X: GDE().fit(X, mistaken(X)).estimate(X, second_logits=X[:3]),
            "second_logits must have 200 samples, got 3",
        ),
        (lambda e, X: ATC(score="margin").fit(X, X.argmax(1)), "score must be one of"),
        (
            lambda e, X: CBPE().fit(X[:, 0] * 0 + 0.5, X[:, 0] > 0, input="confidence"),
            "must have classes for CBPE, got 'confidence'",
        ),
        (lambda e, X: get_estimator("atc"), "Try one of ac, doc, atc-ne"),
    ],
)
def test_errors(call, message, estimators, shifted):
    with pytest.raises(InputError, match=message):
        call(estimators["atc-ne"], shifted[0])


def test_intervals_include_the_error_on_source_samples():
    """The temperature is right on average over logits, so the mean confidence is not."""
    rng = np.random.default_rng(0)
    size = rng.choice([1.0, 4.0], 4000)
    y = (rng.random(4000) < np.where(size > 1, 0.8, 0.95)).astype(int)
    X = size[:, None] * [0.0, 1.0]
    with pytest.warns(CalibrationWarning, match="at least this error"):
        found = AC().fit(X[:2000], y[:2000]).estimate(X[2000:])
    assert found.low < y[2000:].mean() < found.high
