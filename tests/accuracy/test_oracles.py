"""Each estimator against its formula, written out with loops."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog

from wildcal.accuracy import ESTIMATORS, make_estimator
from wildcal.accuracy.cbpe import auroc, equal_mass_error, isotonic_curve


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


def through_line(scores, accuracies, score):
    """Least squares, by the textbook's formula."""
    n = len(scores)
    sx, sy = sum(scores), sum(accuracies)
    sxy = sum(a * b for a, b in zip(scores, accuracies, strict=True))
    sxx = sum(a * a for a in scores)
    b = (n * sxy - sx * sy) / (n * sxx - sx * sx)
    return (sy - b * sx) / n + b * score


def test_ac(fitted, window):
    estimator = fitted["ac"]
    expected = average_confidence(window[0], estimator.temperature_)
    assert estimator.estimate(window[0]).value == pytest.approx(expected, abs=1e-12)


def test_doc(fitted, parts, window):
    t = fitted["doc"].temperature_
    clean, y, _ = parts[0]
    expected = accuracy(clean, y) + average_confidence(window[0], t) - average_confidence(clean, t)
    assert fitted["doc"].estimate(window[0]).value == pytest.approx(expected, abs=1e-12)


def test_doc_reg(fitted, parts, window):
    """Written as in the paper: differences of accuracy on differences of confidence."""
    t = fitted["doc-reg"].temperature_
    clean, y, _ = parts[0]
    clean_accuracy, clean_confidence = accuracy(clean, y), average_confidence(clean, t)
    confidence_falls = [clean_confidence - average_confidence(z, t) for z, _, _ in parts]
    accuracy_falls = [clean_accuracy - accuracy(z, labels) for z, labels, _ in parts]
    fall = clean_confidence - average_confidence(window[0], t)
    expected = clean_accuracy - through_line(confidence_falls, accuracy_falls, fall)
    assert fitted["doc-reg"].estimate(window[0]).value == pytest.approx(expected, abs=1e-12)


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


def test_cot_map(fitted, parts, window):
    cot = fitted["cot"]
    scores = [cot.estimate(z).value for z, _, _ in parts]
    accuracies = [accuracy(z, y) for z, y, _ in parts]
    expected = through_line(scores, accuracies, cot.estimate(window[0]).value)
    assert fitted["cot-map"].estimate(window[0]).value == pytest.approx(expected, abs=1e-9)


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


def nuclear(logits, temperature):
    p = np.array([softmax(row, temperature) for row in logits])
    m, k = p.shape
    return np.linalg.svd(p, compute_uv=False).sum() / math.sqrt(min(m, k) * m)


def mano(logits):
    rows = [softmax(row, 1.0) for row in logits]
    distance = mean(mean(-math.log(p) for p in row if p > 0) for row in rows)
    if distance <= 5:
        rows = []
        for z in logits:
            v = [1 + x + x * x / 2 for x in z if x > -math.inf]
            v = [x - min(v) for x in v]
            ruled_out = [0.0] * (len(z) - len(v))
            rows.append([x / sum(v) for x in v] + ruled_out)
    return mean(q**4 for row in rows for q in row) ** 0.25


def mde(logits):
    energies = [math.log(sum(math.exp(x) for x in row)) for row in logits]
    total = mean(energies) + math.log(sum(math.exp(-e) for e in energies))
    return total - math.log(len(energies))


@pytest.mark.parametrize("name", ["nuclear-norm", "mano", "mde"])
def test_scores_and_their_line(name, fitted, parts, window):
    estimator = fitted[name]

    def score(logits):
        if name == "nuclear-norm":
            return nuclear(logits, estimator.temperature_)
        return {"mano": mano, "mde": mde}[name](logits)

    scores = [score(z) for z, _, _ in parts]
    accuracies = [accuracy(z, y) for z, y, _ in parts]
    expected = min(1.0, max(0.0, through_line(scores, accuracies, score(window[0]))))
    assert estimator.estimate(window[0]).value == pytest.approx(expected, abs=1e-9)
    fewer = window[0][:3]  # fewer rows than classes
    expected = min(1.0, max(0.0, through_line(scores, accuracies, score(fewer))))
    assert estimator.estimate(fewer).value == pytest.approx(expected, abs=1e-9)


def test_mano_takes_the_softmax_where_the_network_is_sure(parts):
    logits = np.concatenate([4 * z for z, _, _ in parts])
    y = np.concatenate([y for _, y, _ in parts])
    environment = np.repeat(np.arange(len(parts)), 400)
    estimator = ESTIMATORS["mano"]().fit(logits, y, environment)
    assert mean(-math.log(p) for row in logits[:400] for p in softmax(row, 1.0)) > 5
    scores = [mano(4 * z) for z, _, _ in parts]
    accuracies = [accuracy(z, y) for z, y, _ in parts]
    expected = through_line(scores, accuracies, scores[2])
    assert estimator.estimate(logits[800:1200]).value == pytest.approx(expected, abs=1e-9)


def test_mano_where_classes_are_ruled_out(fitted, parts, window):
    """They have no part in the choice between both forms, and a probability of 0 in either."""
    scores = [mano(z) for z, _, _ in parts]
    accuracies = [accuracy(z, y) for z, y, _ in parts]
    logits = window[0].copy()
    before = fitted["mano"].estimate(logits).value
    logits[0, logits[0].argmin()] = -np.inf
    assert fitted["mano"].estimate(logits).value == pytest.approx(before, abs=0.002)
    logits[3:7, :2] = -np.inf
    for factor in (0.5, 1, 4):  # the last takes the softmax
        expected = through_line(scores, accuracies, mano(factor * logits))
        expected = min(1.0, max(0.0, expected))
        assert fitted["mano"].estimate(factor * logits).value == pytest.approx(expected, abs=1e-9)


def test_mano_of_the_only_class_left(fitted):
    """It has all the probability, in both forms."""
    logits = np.full((20, 4), -np.inf)
    logits[:, 1] = 2.0
    line = fitted["mano"].line_
    expected = min(1.0, max(0.0, line[0] + line[1] * (1 / 4) ** 0.25))
    assert fitted["mano"].estimate(logits).value == pytest.approx(expected, abs=1e-12)


def test_gde(fitted, window):
    first, second, _ = window
    expected = mean(float(np.argmax(a) == np.argmax(b)) for a, b in zip(first, second, strict=True))
    assert fitted["gde"].estimate(first, second).value == pytest.approx(expected, abs=1e-12)


def test_im(fitted, parts, window):
    """Clean accuracy with row weights: share of the window's bin / share of the clean bin."""
    t = fitted["im"].temperature_
    clean, y, _ = parts[0]

    def bin_of(row):
        return min(9, max(0, math.ceil(10 * max(softmax(row, t))) - 1))

    clean_bins, window_bins = [bin_of(row) for row in clean], [bin_of(row) for row in window[0]]
    weights, hits = [], []
    for row, label, b in zip(clean, y, clean_bins, strict=True):
        share = window_bins.count(b) / len(window_bins)
        weights.append(share / (clean_bins.count(b) / len(clean_bins)))
        hits.append(float(np.argmax(row) == label))
    expected = sum(w * h for w, h in zip(weights, hits, strict=True)) / sum(weights)
    assert fitted["im"].estimate(window[0]).value == pytest.approx(expected, abs=1e-12)


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
    from wildcal import ContextScaling

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
