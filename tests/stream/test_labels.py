"""Labels that come late: the verdict by hand, its error rate, and what it keeps."""

import json

import numpy as np
import pytest

from wildcal._old.metrics import ece, noise_floor
from wildcal._old.stream.labels import LAST, LateLabels
from wildcal._old.stream.verdict import BETS, CALIBRATED, REFIT, UNSURE, Belief, learn


def rows(n, gap=0.0, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.choice([0.35, 0.6, 0.8, 0.95, 0.99], n)
    return p, rng.random(n) < np.clip(p - gap, 0, 1)


def test_one_label_by_hand():
    """p = 0.8, right: the bets on too little confidence in the middle range gain 0.2 - 0.05."""
    after = learn(Belief.none(), [0.8], [True])
    largest = 1 / 1.05
    expected = np.full(BETS, 0.5)
    for j, part in enumerate((0.9, 0.4, 0.15)):
        expected[6 + j] = 0.5 * (1 + part * largest * (-0.2 - 0.05))
        expected[9 + j] = 0.5 * (1 + part * largest * (0.2 - 0.05))
    np.testing.assert_allclose(after.stakes, expected, rtol=1e-12)
    assert after.n == 1
    assert after.gap == pytest.approx(-0.2)


def test_all_of_it_is_worth_one_at_most():
    """Exactly, for a calibrated row after any history: the mean over both outcomes."""
    start = learn(Belief.none(), *rows(20))
    for p in (0.2, 0.6, 0.97):
        worth = [
            float(learn(start, [p], [y]).stakes.mean()) + 1 / (start.n + 2) for y in (True, False)
        ]
        before = float(start.stakes.mean()) + 1 / (start.n + 1)
        assert p * worth[0] + (1 - p) * worth[1] <= before + 1e-12


def test_how_often_it_is_wrong():
    """Looked at after every label, 200 calibrated histories of 500: 2 are allowed on average."""
    wrong = sum(learn(Belief.none(), *rows(500, seed=i)).verdict == REFIT for i in range(200))
    assert wrong <= 4


def test_verdicts():
    assert learn(Belief.none(), *rows(30)).verdict == UNSURE
    assert learn(Belief.none(), *rows(1500)).verdict == CALIBRATED
    assert learn(Belief.none(), *rows(600, gap=0.25)).verdict == REFIT
    # It began well, and then went wrong.
    well = learn(Belief.none(), *rows(3000))
    assert well.verdict == CALIBRATED
    assert learn(well, *rows(600, gap=0.3, seed=1)).verdict == REFIT


def test_accuracy_and_error_of_the_last():
    p, y = rows(2500)
    labels = LateLabels()
    for start in range(0, 2500, 7):
        labels.add(p[start : start + 7], y[start : start + 7])
    found = labels.summary()
    assert found["labels"] == 2500
    assert found["accuracy"] == y[-LAST:].mean()
    assert found["ece"] == ece(y[-LAST:], p[-LAST:])
    assert found["noise_floor"] == noise_floor(p[-LAST:])
    again = LateLabels.from_dict(json.loads(json.dumps(labels.to_dict())))
    again.add(p[:9], y[:9])
    labels.add(p[:9], y[:9])
    assert again.summary() == labels.summary()
    assert LateLabels().summary() == {}


@pytest.mark.parametrize(
    "change", [{"n": -1}, {"stakes": [1.0]}, {"gap": float("nan")}, {"last": [[2.0, True]]}]
)
def test_what_cannot_be_read(change):
    labels = LateLabels()
    labels.add(*rows(10))
    with pytest.raises(ValueError, match="labels must"):
        LateLabels.from_dict({**labels.to_dict(), **change})
