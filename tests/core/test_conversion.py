"""Conversions to logits, by hand."""

import numpy as np
import pytest
from scipy.special import expit, softmax

from wildcal.calibrators.identity import Identity
from wildcal.core.conversion import (
    logits_from_logprobs,
    logits_from_proba,
    logits_from_score,
    smallest_positive,
)
from wildcal.core.exceptions import InputError

TREES = np.array([[1.0, 0.0], [0.98, 0.02], [0.5, 0.5], [0.0, 1.0]])


def test_zeros_are_half_of_the_smallest_step():
    assert smallest_positive(TREES) == 0.01
    np.testing.assert_allclose(logits_from_proba(TREES)[0], [0, np.log(0.01)])
    np.testing.assert_array_equal(logits_from_proba(TREES)[1], np.log([0.98, 0.02]))
    np.testing.assert_allclose(logits_from_proba([[0.0, 1.0]], eps=0.1), [[np.log(0.1), 0]])


def test_the_floor_takes_at_most_a_tenth():
    decisions = np.eye(5)
    assert smallest_positive(decisions) == 0.02
    assert softmax(logits_from_proba(decisions), axis=1).max() > 0.9


def test_high_confidences_stay_distinct():
    stated = np.array([0.6, 0.9, 0.96, 0.99, 1.0])
    fitted = Identity().fit(stated, [False, True, True, True, True], input="confidence")
    np.testing.assert_allclose(fitted.predict_proba(stated)[:4], stated[:4])
    np.testing.assert_allclose(fitted.predict_proba(stated)[4], 1 / 1.005)  # half of 1 - 0.99


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_very_small_probabilities(dtype):
    tiny = np.array([[1.0, np.nextafter(dtype(0), dtype(1))]], dtype)
    logits = logits_from_proba(tiny)
    assert logits.dtype == dtype
    assert np.isfinite(logits).all()


def test_score():
    np.testing.assert_array_equal(logits_from_score([-1.0, 3.0]), [[0.5, -0.5], [-1.5, 1.5]])
    assert logits_from_score(np.zeros((3, 1), np.float32)).dtype == np.float32
    p = softmax(logits_from_score([2.0]), axis=1)
    np.testing.assert_allclose(p[:, 1], expit(2.0))


SHAPE, TOKENS = "must have shape (n_samples, n_classes >= 2), got", [{"a": -0.1}, "ab"]
UNIT = "proba must lie in [0, 1]. Try the logits themselves."
SUMS = (
    "top_logprobs must be log-probabilities whose exponentials sum to at most 1, got 2 at index 0."
    " Try input='logits' for raw scores."
)
DICTS = (
    "top_logprobs must be dicts token -> log-probability, or lists of dicts with token and logprob,"
    " got 'ab' at index 1."
)
ONE_CLASS = "top_logprobs must give (n_samples, n_classes >= 2) values, got (1, 1)."
NOT_FINITE = "score must be finite numbers of shape (n_samples,), got (2,)."
BAD = [
    (logits_from_proba, ([0.5, 0.5],), f"proba {SHAPE} (2,)."),
    (logits_from_proba, ([[0.5, 1.5]],), UNIT),
    (logits_from_proba, ([[0.5, np.nan]],), UNIT),
    (logits_from_score, ([0.0, np.nan],), NOT_FINITE),
    (logits_from_logprobs, (TOKENS[:1], ["a"]), ONE_CLASS),
    (logits_from_logprobs, ([[0.0, 0.0]],), SUMS),
    (logits_from_logprobs, (TOKENS, ["a", "b"]), DICTS),
]


@pytest.mark.parametrize(("function", "arguments", "text"), BAD)
def test_errors(function, arguments, text):
    with pytest.raises(InputError) as error:
        function(*arguments)
    assert str(error.value) == text
    assert error.value.param == text.split()[0]


def test_eps():
    with pytest.raises(InputError, match=r"^eps must lie in \(0, 0.1\], got 0.5\.$"):
        logits_from_proba(TREES, eps=0.5)


def test_tokens_that_are_not_listed_share_the_rest():
    # 0.7 and 0.2 are listed; 0.1 is left for two classes.
    row = [[np.log(0.7), np.log(0.2), -np.inf, np.nan]]
    np.testing.assert_allclose(np.exp(logits_from_logprobs(row)), [[0.7, 0.2, 0.05, 0.05]])
    # 0.68 is left, but what is not listed is less likely than the last listed token, 0.02.
    tokens = [{"a": np.log(0.3), "x": np.log(0.02)}]
    np.testing.assert_allclose(np.exp(logits_from_logprobs(tokens, ["a", "b"])), [[0.3, 0.02]])
    tokens = [{"a": np.log(0.75), "x": np.log(0.25)}]
    np.testing.assert_allclose(np.exp(logits_from_logprobs(tokens, ["a", "b"])), [[0.75, 1e-6]])


def test_spellings_are_added_and_both_forms_are_read():
    tokens = {"yes": np.log(0.5), " Yes": np.log(0.25), "no": np.log(0.2)}
    as_list = [{"token": token, "logprob": value} for token, value in tokens.items()]
    for form in (tokens, as_list):
        got = np.exp(logits_from_logprobs([form], [["yes", " Yes"], "no"]))
        np.testing.assert_allclose(got, [[0.75, 0.2]])


@pytest.mark.parametrize("gap", [-np.inf, np.nan, -9999.0, None])
def test_gaps(gap):
    got = logits_from_logprobs([{"a": -0.1, "b": gap}, {"a": -0.1}], ["a", "b"])
    np.testing.assert_array_equal(got[0], got[1])


def test_kinds_give_the_probabilities_they_stand_for():
    p = np.array([[0.7, 0.2, 0.1], [0.2, 0.2, 0.6], [0.1, 0.8, 0.1], [0.6, 0.3, 0.1]])
    y, right = [0, 1, 1, 0], [True, False, True, True]
    cases = {
        "proba": (p, y, p),
        "log_proba": (np.log(p), y, p),
        "score": (
            np.array([-1.0, 2, 3, -4]),
            [0, 1, 1, 0],
            expit([[1, -1], [-2, 2], [-3, 3], [4, -4]]),
        ),
        "confidence": (p.max(axis=1), right, p.max(axis=1)),
    }
    for kind, (x, labels, expected) in cases.items():
        fitted = Identity().fit(x, labels, input=kind)
        np.testing.assert_allclose(fitted.predict_proba(x), expected, err_msg=kind)
