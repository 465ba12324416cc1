"""Probabilities, scores and log probabilities as logits: by hand, and what each refuses."""

import numpy as np
import pytest

from wildcal._old.core.convert import logits_from_proba, logits_from_score, proba_floor, softmax
from wildcal._old.core.logprobs import MASS_RESOLUTION, logits_from_logprobs

TREES = np.array([[1.0, 0.0], [0.98, 0.02], [0.5, 0.5], [0.0, 1.0]] * 2)


def test_zeros_are_half_the_smallest_step():
    assert proba_floor(TREES) == 0.01
    logits = logits_from_proba(TREES)
    np.testing.assert_allclose(logits[0], [0, np.log(0.01)])
    np.testing.assert_array_equal(logits[1], np.log([0.98, 0.02]))


def test_a_floor_never_takes_more_than_a_tenth_of_a_row():
    """Decisions alone have no smallest step below 1."""
    decisions = np.eye(5)[np.arange(20) % 5]
    assert proba_floor(decisions) == 0.02
    assert softmax(logits_from_proba(decisions)).max() > 0.9


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_network_keeps_what_it_said(dtype):
    z = np.random.default_rng(0).normal(0, 8, (200, 10)).astype(dtype)
    proba = softmax(z)
    assert proba.min() > 0
    logits = logits_from_proba(proba)
    assert logits.dtype == dtype
    np.testing.assert_array_equal(logits, np.log(proba))
    assert proba_floor(proba) < proba.min()


def test_the_smallest_numbers_stay_finite():
    tiny = np.array([[1.0, 5e-324]] * 10)
    assert np.isfinite(logits_from_proba(tiny)).all()
    single = np.array([[1.0, 1e-45]] * 10, dtype=np.float32)
    assert np.isfinite(logits_from_proba(single)).all()


def test_few_rows_cannot_tell_the_floor():
    with pytest.raises(ValueError, match="zero in row 1, and 2 rows are too few .* Pass floor="):
        logits_from_proba([[0.5, 0.5], [1.0, 0.0]])
    logits = logits_from_proba([[0.5, 0.5], [1.0, 0.0]], floor=proba_floor(TREES))
    np.testing.assert_allclose(logits[1], [0, np.log(0.01)])


@pytest.mark.parametrize("floor", [0, -1.0, 0.5, np.nan, True, "0.1"])
def test_a_floor_is_a_small_positive_number(floor):
    with pytest.raises(ValueError, match="floor must be a number above 0"):
        logits_from_proba(TREES, floor=floor)


def test_scores_are_refused_by_row():
    with pytest.raises(ValueError, match="row 1 is nan"):
        logits_from_score([0.0, np.nan])
    with pytest.raises(
        ValueError, match=r"got \(3, 2\)\. With a column for each class they are logits"
    ):
        logits_from_score(np.zeros((3, 2)))
    assert logits_from_score(np.zeros(3, np.float32)).dtype == np.float32


def test_missing_tokens_share_the_missing_mass():
    # 0.7 and 0.2 are listed, so 0.1 is missing: 0.05 for each of two.
    row = np.log(
        [[0.7, 0.2, 0, 0]], where=[[True, True, False, False]], out=np.full((1, 4), -np.inf)
    )
    np.testing.assert_allclose(np.exp(logits_from_logprobs(row)), [[0.7, 0.2, 0.05, 0.05]])


def test_a_missing_token_is_no_likelier_than_a_listed_one():
    # 0.68 is missing, but whatever is outside the list lies below its last entry, 0.02.
    rows = [{"a": np.log(0.3), "x": np.log(0.02)}]
    np.testing.assert_allclose(np.exp(logits_from_logprobs(rows, ["a", "b"])), [[0.3, 0.02]])


def test_the_list_may_use_up_all_mass():
    rows = [{"a": np.log(0.75), "x": np.log(0.25)}]
    got = np.exp(logits_from_logprobs(rows, ["a", "b"]))
    np.testing.assert_allclose(got, [[0.75, MASS_RESOLUTION]])


def test_spellings_are_added():
    rows = [{"yes": np.log(0.5), " Yes": np.log(0.25), "no": np.log(0.2)}]
    got = np.exp(logits_from_logprobs(rows, [["yes", " Yes"], "no"]))
    np.testing.assert_allclose(got, [[0.75, 0.2]])


def test_whole_rows_stay_as_they_are():
    whole = np.log(softmax(np.random.default_rng(1).normal(size=(30, 6)))).astype(np.float32)
    got = logits_from_logprobs(whole)
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, whole)


@pytest.mark.parametrize("gap", [-np.inf, np.nan, -9999.0, None])
def test_gaps_are_said_in_four_ways(gap):
    got = logits_from_logprobs([{"a": -0.1, "b": gap}, {"a": -0.1}], ["a", "b"])
    np.testing.assert_array_equal(got[0], got[1])


@pytest.mark.parametrize(
    ("rows", "classes", "message"),
    [
        ([{"a": -0.1}], ["a"], "two or more label tokens"),
        ([{"a": -0.1}], ["a", "a"], "'a' is there twice"),
        ([{"a": "x"}], ["a", "b"], "row 0 of logprobs must be a dict"),
        ([{"a": -0.1, "b": -0.1}], ["a", "b"], "exp of row 0 sums to 1.81"),
        ([[0.0, 0.0]], None, "exp of row 0 sums to 2"),
        ([["a", "b"]], None, "matrix"),
    ],
)
def test_what_is_no_list_of_tokens(rows, classes, message):
    with pytest.raises(ValueError, match=message):
        logits_from_logprobs(rows, classes)


def test_under_one_percent_of_missing_tokens_moves_no_fit():
    """Everyday gaps: the label token of 1 % of the rows was not listed."""
    from wildcal import TemperatureScaling

    rng = np.random.default_rng(0)
    z = rng.normal(0, 1.5, (2000, 4))
    y = np.array([rng.choice(4, p=p) for p in softmax(z)])
    log_p = np.log(softmax(2 * z))
    whole = TemperatureScaling().fit(log_p, y).temperature_
    # A missing token lies below the least listed one; only where that is so may it be missing.
    able = [i for i in range(2000) if log_p[i, y[i]] == log_p[i].min()][:20]
    gaps = log_p.copy()
    gaps[able, y[able]] = -np.inf
    filled = TemperatureScaling().fit(logits_from_logprobs(gaps), y).temperature_
    assert filled == pytest.approx(whole, rel=0.02)
