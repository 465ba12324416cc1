"""Optimal transport of rows to classes is exact."""

import importlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment, linprog

from wildcal._old.accuracy import transport
from wildcal._old.accuracy.prices import first_prices
from wildcal._old.core.errors import WildcalError


def probabilities(m, n_classes, seed, spread=2.0):
    rng = np.random.default_rng(seed)
    z = spread * rng.normal(size=(m, n_classes)) + rng.normal(size=n_classes)
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def by_linear_program(value, share):
    m, k = value.shape
    rows = np.kron(np.eye(m), np.ones(k))
    columns = np.kron(np.ones(m), np.eye(k))
    equal = np.r_[np.full(m, 1 / m), share]
    return -linprog(-value.ravel(), A_eq=np.vstack([rows, columns]), b_eq=equal).fun


@given(
    st.integers(1, 12), st.integers(2, 12), st.integers(0, 10**6),
    st.sampled_from(["plain", "ties", "equal rows", "one-hot"]),
    st.sampled_from(["even", "fractional", "absent", "one class"]),
)  # fmt: skip
def test_equals_a_linear_program(m, k, seed, values, shares):
    rng = np.random.default_rng(seed)
    value = probabilities(m, k, seed)
    if values == "ties":
        value = np.round(value, 1)
    elif values == "equal rows":
        value[:] = value[0]
    elif values == "one-hot":
        value = np.eye(k)[value.argmax(axis=1)]
    share = np.full(k, 1 / k) if shares == "even" else rng.dirichlet(np.full(k, 0.7))
    if shares == "absent":
        share[rng.integers(k)] = 0.0
        share = share / share.sum() if share.sum() > 0 else np.eye(k)[0]
    if shares == "one class":
        share = np.eye(k)[rng.integers(k)]
    found = transport(value, share)
    assert found.value == pytest.approx(by_linear_program(value, share), abs=1e-9)
    assert abs(found.gap) <= 1e-9
    assert found.per_row.shape == (m,)
    assert found.per_row.mean() == pytest.approx(found.value, abs=1e-12)


@pytest.mark.parametrize(
    ("m", "k", "seed"), [(300, 10, 0), (300, 10, 1), (240, 60, 2), (120, 40, 3), (500, 50, 4)]
)
def test_equals_an_assignment_with_labels_repeated(m, k, seed):
    value = probabilities(m, k, seed)
    labels = np.repeat(np.arange(k), m // k)
    i, j = linear_sum_assignment(value[:, labels], maximize=True)
    found = transport(value, np.full(k, 1 / k))
    assert found.value == pytest.approx(value[i, labels[j]].mean(), abs=1e-12)


def test_uneven_counts_equal_an_assignment():
    counts = np.array([50, 30, 0, 15, 5])
    value = probabilities(100, 5, 3)
    labels = np.repeat(np.arange(5), counts)
    i, j = linear_sum_assignment(value[:, labels], maximize=True)
    found = transport(value, counts / 100)
    assert found.value == pytest.approx(value[i, labels[j]].mean(), abs=1e-12)


def test_more_classes_than_rows_equals_a_linear_program():
    value = probabilities(7, 50, 0)
    share = np.random.default_rng(0).dirichlet(np.ones(50))
    assert transport(value, share).value == pytest.approx(by_linear_program(value, share), abs=1e-9)


def test_many_rows_with_few_probabilities():
    """Saturated rows tie by the thousand, and are moved together."""
    rng = np.random.default_rng(0)
    top = np.minimum(rng.integers(0, 5, 4000), 3)
    value = np.eye(4)[top] * 0.97 + 0.01
    share = np.full(4, 0.25)
    # Classes 0 to 2 have 1/5 each, class 3 has 2/5: about 3/20 must leave it for 0.01.
    stay = sum(min(count, 1000) for count in np.bincount(top)) / 4000
    expected = stay * 0.98 + (1 - stay) * 0.01
    assert transport(value, share).value == pytest.approx(expected, abs=1e-12)


def test_prices_make_every_row_content():
    value = probabilities(200, 6, 1)
    share = np.full(6, 1 / 6)
    found = transport(value, share)
    dual = (value - found.price).max(axis=1).mean() + share @ found.price
    assert dual == pytest.approx(found.value, abs=1e-12)


def test_by_hand():
    proba = np.array([[0.9, 0.1], [0.8, 0.2]])
    assert transport(proba, np.array([0.5, 0.5])).value == pytest.approx((0.9 + 0.2) / 2)
    assert transport(proba, np.array([1.0, 0.0])).value == pytest.approx((0.9 + 0.8) / 2)
    assert transport(proba, np.array([0.75, 0.25])).value == pytest.approx(
        (0.9 + 0.5 * 0.8 + 0.5 * 0.2) / 2
    )


@pytest.mark.parametrize(
    ("m", "k", "shares"),
    [(2000, 10, "even"), (1000, 100, "even"), (1000, 100, "drawn"), (600, 200, "Zipf")],
)
def test_first_prices_leave_few_rows_to_move(m, k, shares):
    counts = {
        "even": np.ones(k),
        "drawn": np.random.default_rng(0).dirichlet(np.ones(k)),
        "Zipf": 1 / np.arange(1, k + 1),
    }[shares]
    demand = m * counts / counts.sum()
    value = probabilities(m, k, 0)
    price = first_prices(value, np.ones(m), demand)
    misplaced = np.bincount((value - price).argmax(axis=1), minlength=k) - demand
    unpriced = np.bincount(value.argmax(axis=1), minlength=k) - demand
    assert np.abs(misplaced).sum() < 0.3 * np.abs(unpriced).sum()


@pytest.mark.parametrize("shares", ["drawn", "Zipf"])
def test_unequal_classes_take_few_rounds(shares, monkeypatch):
    """Each is a search over all classes, which is where the time goes."""
    module, rounds = importlib.import_module("wildcal._old.accuracy.transport"), []
    search = module._shortest_paths
    monkeypatch.setattr(
        module, "_shortest_paths", lambda *given: rounds.append(1) or search(*given)
    )
    k = 200
    counts = np.random.default_rng(0).dirichlet(np.ones(k))
    counts = counts if shares == "drawn" else 1 / np.arange(1, k + 1)
    module.transport(probabilities(600, k, 0), counts / counts.sum())
    assert len(rounds) < 80  # 150 and more when rows could not be divided in the auction


def test_refusals():
    with pytest.raises(ValueError, match="value must be finite"):
        transport(np.full((3, 2), np.nan), np.array([0.5, 0.5]))
    for share in ([0.5, 0.4], [1.5, -0.5], [1.0], [np.nan, 1.0]):
        with pytest.raises(ValueError, match="share must be 2 numbers"):
            transport(np.zeros((3, 2)), np.array(share))


def test_a_plan_that_misses_its_dual_is_not_handed_out(monkeypatch):
    module = importlib.import_module("wildcal._old.accuracy.transport")
    spoilt = module._Plan(np.full(3, 0.1), np.zeros(2), np.zeros(2))
    monkeypatch.setattr(module, "_solve", lambda *arguments: spoilt)
    with pytest.raises(WildcalError, match="3 rows to 2 classes ended .* from its dual"):
        module.transport(probabilities(3, 2, 0), np.array([0.5, 0.5]))
