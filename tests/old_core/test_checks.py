"""The door: each complaint says what must hold, what was given and what to try."""

import numpy as np
import pytest

from wildcal._old.core.checks import (
    check_flags,
    check_labels,
    check_logits,
    check_pred,
    check_proba,
    check_weight,
    row_slices,
)
from wildcal._old.core.convert import softmax

Z = np.array([[2.0, 0.0, 1.0], [0.0, 3.0, 0.5]])
ROWS = np.random.default_rng(0).normal(0, 3, (40, 3))
LABELS = np.arange(40) % 3
ROWS[np.arange(40), LABELS] += 2

BAD_LOGITS = {
    "one dimension": (
        np.zeros(5),
        "logits must have shape (n_samples, n_classes >= 2), got (5,)."
        " For a single row, pass logits[None, :].",
    ),
    "three dimensions": (
        np.zeros((2, 3, 4)),
        "logits must have shape (n_samples, n_classes >= 2), got (2, 3, 4).",
    ),
    "one class": (
        np.zeros((5, 1)),
        "logits must have shape (n_samples, n_classes >= 2), got (5, 1). For a binary model with"
        " one score s, pass np.column_stack([np.zeros_like(s), s]).",
    ),
    "no rows": (np.zeros((0, 3)), "logits must have at least one row, got shape (0, 3)."),
    "strings": (np.array([["a", "b"]]), "logits must be real numbers, got dtype <U1."),
    "complex": (np.zeros((2, 2), complex), "logits must be real numbers, got dtype complex128."),
    "NaN": (
        [[1.0, 2.0], [np.nan, 0.0]],
        "logits must be finite, but row 1 holds NaN. Drop that row or mend the network.",
    ),
    "+inf": (
        [[1.0, np.inf]],
        "logits must be finite, but row 0 holds +inf. Drop that row or mend the network.",
    ),
    "only -inf": (
        [[1.0, 2.0], [-np.inf, -np.inf]],
        "logits must be finite, but row 1 holds only -inf. Drop that row or mend the network.",
    ),
    "probabilities": (
        softmax(ROWS),
        "logits must be raw scores, but every row lies in [0, 1] and sums to 1: these are"
        " probabilities. Pass the scores before the softmax, or logits_from_proba(proba).",
    ),
    "half-precision probabilities": (
        softmax(np.random.default_rng(0).normal(0, 1, (20, 500))).astype(np.float16),
        "logits must be raw scores, but every row lies in [0, 1] and sums to 1: these are"
        " probabilities. Pass the scores before the softmax, or logits_from_proba(proba).",
    ),
}


@pytest.mark.parametrize(("bad", "message"), BAD_LOGITS.values(), ids=BAD_LOGITS)
def test_logits(bad, message):
    with pytest.raises(ValueError) as error:  # noqa: PT011  # the whole message is compared
        check_logits(bad, fitting=True)
    assert str(error.value) == message


BAD_LABELS = {
    "label K": ([0, 3], "y must lie in [0, 2], got [0, 3]."),
    "label -2": ([0, -2], "y must lie in [0, 2], got [-2, 0]."),
    "OOD": (
        [0, -1],
        "y must lie in [0, 2], got [-1, 0]. TS does not use out-of-distribution rows;"
        " drop y == -1.",
    ),
    "strings": (
        ["cat", "dog"],
        "y must be integers 0..2, got dtype <U3. Encode class names as their column index in the"
        " logits.",
    ),
    "floats": ([0.0, 1.0], "y must be integers, got dtype float64. Try y.astype(int)."),
    "too few": ([0], "y must have one label per row: 2 rows, 1 labels."),
    "one-hot": (
        [[0, 0, 1], [1, 0, 0]],
        "y must have shape (2,), got (2, 3): one-hot rows? Pass y.argmax(axis=1).",
    ),
    "column": ([[0], [1]], "y must have shape (2,), got (2, 1)."),
}


@pytest.mark.parametrize(("bad", "message"), BAD_LABELS.values(), ids=BAD_LABELS)
def test_labels(bad, message):
    with pytest.raises(ValueError) as error:  # noqa: PT011
        check_labels(bad, 2, 3, accepts_ood=False, who="TS")
    assert str(error.value) == message


def test_ood_labels_are_accepted_where_declared():
    np.testing.assert_array_equal(check_labels([0, -1], 2, 3, accepts_ood=True), [0, -1])
    with pytest.raises(ValueError, match=r"y must lie in \[-1, 2\], got \[-2, 0\]"):
        check_labels([0, -2], 2, 3, accepts_ood=True)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([1.0], r"sample_weight must have shape \(2,\), got \(1,\)"),
        ([1.0, -1.0], "must be finite and not negative"),
        ([1.0, np.nan], "must be finite and not negative"),
        ([0.0, 0.0], "must not be zero on every row"),
        (["a", "b"], "must be real numbers"),
    ],
)
def test_weight(bad, message):
    with pytest.raises(ValueError, match=message):
        check_weight(bad, 2)


def test_probabilities():
    with pytest.raises(ValueError, match=r"proba must lie in \[0, 1\], but row 0 has \[0, 2\]"):
        check_proba(Z)
    with pytest.raises(ValueError, match="row 1"):
        check_proba([[0.5, 0.5], [np.nan, 1.0]])
    with pytest.raises(ValueError, match="temperature must be positive"):
        softmax(Z, temperature=0)


def test_integers_and_lists_are_numbers():
    assert softmax([[1, 0], [0, 1]]).dtype == np.float64


def test_foreign_byte_order_keeps_its_precision():
    z = ROWS * 1e3
    expected = softmax(z)
    got = softmax(z.astype(">f8"))
    assert got.dtype == np.float64
    assert got.tobytes() == expected.tobytes()


@pytest.mark.parametrize("temperature", [1e-50, 0, -1, np.nan, np.inf])
def test_impossible_temperatures(temperature):
    with pytest.raises(ValueError, match="temperature must be positive"):
        softmax(Z, temperature)


def test_flags_and_predicted_classes_are_one_for_each_row():
    flags, pred = np.array([True, False, True]), np.array([0, 2, 1], np.uint8)
    np.testing.assert_array_equal(check_flags(flags, 3, "known"), flags)
    got = check_pred(pred, 3, n_classes=3)
    assert got.dtype == np.int64
    np.testing.assert_array_equal(got, pred)
    with pytest.raises(ValueError, match=r"one flag per score, \(2,\), got \(3,\)"):
        check_flags(flags, 2, "known")
    with pytest.raises(ValueError, match=r"known must be a boolean array, got dtype int64"):
        check_flags(flags.astype(np.int64), 3, "known")
    with pytest.raises(ValueError, match=r"pred must have shape \(2,\), got \(3,\)"):
        check_pred(pred, 2, n_classes=3)
    with pytest.raises(ValueError, match=r"pred must lie in \[0, 1\], got \[0, 2\]"):
        check_pred(pred, 3, n_classes=2)
    with pytest.raises(ValueError, match=r"pred must lie in \[0, 2\], got \[-1, 2\]"):
        check_pred(np.array([-1, 2]), 2, n_classes=3)


def test_rows_are_cut_into_pieces_of_so_many_entries():
    cut = list(row_slices(np.empty((5, 3)), elements=7))
    assert cut == [slice(0, 2), slice(2, 4), slice(4, 6)]
    assert list(row_slices(np.empty((2, 30)), elements=7)) == [slice(0, 1), slice(1, 2)]
