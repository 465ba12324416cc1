"""Each estimator against its formula, written out with loops."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog

from wildcal._old.accuracy import ESTIMATORS, make_estimator
from wildcal._old.accuracy.cbpe import auroc, equal_mass_error, isotonic_curve


def softmax(row, temperature):
    top = max(row)
    terms = [math.exp((x - top) / temperature) for x in row]
    return [t / sum(terms) for t in terms]


def mean(values):
    values = list(values)
    return sum(values) / len(values)


@pytest.fixture(scope="module")
def parts(tuning):
    """The rows of each environment."""
    z, y, environment, second = tuning
    return [
        (z[environment == e], y[environment == e], second[environment == e])
        for e in range(environment.max() + 1)
    ]


def accuracy(logits, y):
    return mean(float(np.argmax(row) == label) for row, label in zip(logits, y, strict=True))


def average_confidence(logits, temperature):
    return mean(max(softmax(row, temperature)) for row in logits)


def test_ac(fitted, window):
    estimator = fitted["ac"]
    expected = average_confidence(window[0], estimator.temperature_)
    assert estimator.estimate(window[0]).value == pytest.approx(expected, abs=1e-12)


def test_doc(fitted, parts, window):
    t = fitted["doc"].temperature_
    clean, y, _ = parts[0]
    expected = accuracy(clean, y) + average_confidence(window[0], t) - average_confidence(clean, t)
    assert fitted["doc"].estimate(window[0]).value == pytest.approx(expected, abs=1e-12)


def negative_entropy(row, temperature):
    return sum(p * math.log(p) for p in softmax(row, temperature) if p > 0)


def top_probability(row, temperature):
    return max(softmax(row, temperature))


@pytest.mark.parametrize(
    ("name", "score"), [("atc-mc", top_probability), ("atc-ne", negative_entropy)]
)
def test_atc(name, score, fitted, parts, window):
    t = fitted[name].temperature_
    clean, y, _ = parts[0]
    errors = sum(int(np.argmax(row) != label) for row, label in zip(clean, y, strict=True))
    threshold = sorted(score(row, t) for row in clean)[errors]
    assert fitted[name].threshold_ == pytest.approx(threshold, abs=1e-12)
    expected = mean(float(score(row, t) >= threshold - 1e-13) for row in window[0])
    assert fitted[name].estimate(window[0]).value == pytest.approx(expected, abs=1e-12)
    # The threshold is made so that the clean rows get their own accuracy.
    assert fitted[name].estimate(clean).value == pytest.approx(accuracy(clean, y), abs=1e-12)


def plan_value(logits, temperature, prior):
    """The program of COT, with every variable P[i, k] written out; also what each row got."""
    p = np.array([softmax(row, temperature) for row in logits])
    m, k = p.shape
    equations = np.zeros((m + k, m * k))
    for i in range(m):
        for c in range(k):
            equations[i, i * k + c] = 1
            equations[m + c, i * k + c] = 1
    right = np.r_[np.full(m, 1 / m), prior]
    found = linprog(-p.ravel(), A_eq=equations, b_eq=right)
    return -found.fun, m * (found.x.reshape(m, k) * p).sum(axis=1)


def test_cot(fitted, parts, window):
    estimator = fitted["cot"]
    prior = [mean(float(label == k) for label in parts[0][1]) for k in range(4)]
    some = window[0][:41]  # 41 / 4 is not whole
    expected, _ = plan_value(some, estimator.temperature_, prior)
    assert estimator.estimate(some).value == pytest.approx(expected, abs=1e-9)


def test_cott(fitted, parts, window):
    estimator = fitted["cott"]
    clean, y, _ = parts[0]
    prior = [mean(float(label == k) for label in y) for k in range(4)]
    t = estimator.temperature_
    _, got = plan_value(clean, t, prior)
    errors = round(len(y) * (1 - accuracy(clean, y)))
    costs = sorted((1 - g for g in got), reverse=True)
    threshold = costs[errors - 1]
    _, got = plan_value(window[0], t, prior)
    error = mean(float(1 - g >= threshold - 1e-9) for g in got)
    # Rows of a plan may tie, which moves one of them: two rows of slack.
    assert estimator.estimate(window[0]).value == pytest.approx(1 - error, abs=2 / 200)
    assert estimator.estimate(clean).value == pytest.approx(accuracy(clean, y), abs=1e-12)


def test_gde(fitted, window):
    first, second, _ = window
    expected = mean(float(np.argmax(a) == np.argmax(b)) for a, b in zip(first, second, strict=True))
    assert fitted["gde"].estimate(first, second).value == pytest.approx(expected, abs=1e-12)


def pool_adjacent(values):
    """Isotonic regression of equally weighted numbers."""
    blocks = []
    for value in values:
        blocks.append([value, 1])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            b, a = blocks.pop(), blocks.pop()
            n = a[1] + b[1]
            blocks.append([(a[0] * a[1] + b[0] * b[1]) / n, n])
    return [value for value, n in blocks for _ in range(n)]


def test_cbpe(fitted, parts, window):
    estimator = fitted["cbpe"]
    t = estimator.temperature_
    clean, y, _ = parts[0]
    p = [softmax(row, t) for row in clean]
    q = [softmax(row, t) for row in window[0]]
    for k in range(4):
        column = sorted((row[k], float(label == k)) for row, label in zip(p, y, strict=True))
        xs, hits = zip(*column, strict=True)
        held_out = [0.0] * len(xs)
        for part in range(10):
            others = [i for i in range(len(xs)) if i % 10 != part]
            heights = pool_adjacent([hits[i] for i in others])
            for i in range(part, len(xs), 10):
                held_out[i] = float(np.interp(xs[i], [xs[j] for j in others], heights))
        if ece(held_out, hits) < ece(xs, hits) and area(xs, hits) <= 0.999:
            assert estimator.lengths_[k] > 0
            curve = pool_adjacent(hits)
            for row in q:
                row[k] = float(np.interp(row[k], xs, curve))
        else:
            assert estimator.lengths_[k] == 0
    expected = mean(row[int(np.argmax(z))] / sum(row) for row, z in zip(q, window[0], strict=True))
    assert estimator.estimate(window[0]).value == pytest.approx(expected, abs=1e-9)


def ece(p, hits):
    pairs = sorted(zip(p, hits, strict=True))
    size = len(pairs) // 10  # 400 rows: bins of 40
    bins = [pairs[i : i + size] for i in range(0, len(pairs), size)]
    return mean(abs(mean(a for a, _ in b) - mean(h for _, h in b)) for b in bins)


def area(scores, hits):
    wins = [
        1.0 if a > b else 0.5 if a == b else 0.0
        for a, h in zip(scores, hits, strict=True) if h
        for b, g in zip(scores, hits, strict=True) if not g
    ]  # fmt: skip
    return mean(wins)


def test_parts_of_cbpe_by_hand():
    p, hit = np.array([0.1, 0.4, 0.4, 0.8]), np.array([False, True, False, True])
    assert auroc(p, hit) == pytest.approx((0.5 + 1 + 1 + 1) / 4)
    knots, heights = isotonic_curve(p, hit)
    assert knots.tolist() == [0.1, 0.4, 0.8]
    assert heights.tolist() == [0.0, 0.5, 1.0]
    twenty = np.repeat([0.25, 0.75], 10), np.arange(20) % 2 == 0
    assert equal_mass_error(*twenty) == pytest.approx(ece(*twenty))


def test_context(fitted, tuning, window):
    from wildcal._old.calibrators.context import ContextScaling

    z, y, environment, _ = tuning
    calibrator = ContextScaling().fit(z, y, environment=environment)
    around = calibrator.context(window[0])
    expected = calibrator.confidence(window[0], context=around).mean()
    assert fitted["context"].estimate(window[0]).value == pytest.approx(expected, abs=1e-12)
    clean = environment == 0
    alone = ContextScaling().fit(z[clean], y[clean])
    expected = alone.confidence(window[0], context=alone.context(window[0])).mean()
    found = make_estimator("context").fit(z[clean], y[clean]).estimate(window[0])
    assert found.value == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", ["atc-mc", "atc-ne", "cott"])
def test_no_clean_error_and_no_clean_hit(name):
    """Where public scripts say 0 %: a network without clean errors."""
    logits = 5.0 * np.eye(3)[np.arange(30) % 3] + np.linspace(0, 0.1, 90).reshape(30, 3)
    y = np.arange(30) % 3
    wrong = (y + 1) % 3
    for labels, expected in ((y, 1.0), (wrong, 0.0)):
        with pytest.warns(UserWarning, match="at its bound"):
            estimator = ESTIMATORS[name]().fit(logits, labels)
        assert estimator.estimate(logits).value == expected
