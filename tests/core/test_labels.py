"""Labels and domains: indices and names."""

import numpy as np
import pytest

from wildcal.core.exceptions import InputError
from wildcal.core.labels import ClassNames, encode_domain, few
from wildcal.core.validation import check_labels

ANIMALS = ClassNames(("cat", "dog", "eel"))


def test_names():
    y = ANIMALS.encode(["eel", "cat", "-1", "unknown"], ood_label="unknown")
    np.testing.assert_array_equal(y, [2, 0, -1, -1])
    assert ANIMALS.decode(y) == ["eel", "cat", "-1", "-1"]
    assert ClassNames((1, 2)).names == ("1", "2")


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        ([2, 0, 1], [2, 0, 1]),
        (np.array([2, 0, 1], np.uint8), [2, 0, 1]),
        ([2.0, 0.0, -1.0], [2, 0, -1]),
        ([[2], [0], [1]], [2, 0, 1]),
        ([True, False, True], [1, 0, 1]),
        (np.array(["dog", "cat", "eel"]), [1, 0, 2]),
        (np.array([b"dog", b"cat", b"eel"]), [1, 0, 2]),
        (np.array(["dog", "cat", "-1"], object), [1, 0, -1]),
        (np.array([2, 0.0, True], object), [2, 0, 1]),
    ],
)
def test_forms(y, expected):
    got = check_labels(y, 3, ANIMALS)
    assert got.dtype == np.int64
    np.testing.assert_array_equal(got, expected)


FROM_ONE = "Are they counted from 1? Then subtract 1, or name the classes."
FROM_ZERO = "Labels are class indices from 0"
RANGE = "y must lie in [0, 2], got"
NAMES = (
    "y must be class indices, got names (cat, dog) and no class names. Try a DataFrame whose"
    " columns are the class names."
)
WHOLE, SHAPE = "y must be whole numbers, got", "y must have shape (n_samples,), got"
DATE = np.array(["2020-01-01"], "datetime64[D]")
BAD = [
    ([1, 2, 3], f"{RANGE} [1, 3]. {FROM_ONE}"),
    ([-1, 1, 3], f"{RANGE} [-1, 3]. {FROM_ONE}"),
    ([0, 7], f"{RANGE} [0, 7]. {FROM_ZERO}, and -1 for OOD samples."),
    ([-2, 1], f"{RANGE} [-2, 1]. {FROM_ZERO}, and -1 for OOD samples."),
    ([-100, 1], f"{RANGE} [-100, 1]. Try dropping samples with label -100."),
    (np.eye(3), f"{SHAPE} (3, 3). Try y.argmax(axis=1) for one-hot labels."),
    ([0.0, 0.5], f"{WHOLE} 0.5 at index 1. Try dropping samples without a label."),
    (np.array([1, None], object), "y must not be empty, got no label at index 1."),
    (DATE, "y must be class indices or class names, got dtype datetime64[D]."),
    (["dog", "cat"], NAMES),
]


@pytest.mark.parametrize(("y", "text"), BAD)
def test_errors(y, text):
    with pytest.raises(InputError) as error:
        check_labels(y, 3)
    assert (str(error.value), error.value.param) == (text, "y")


def test_another_name():
    text = (
        "y must contain class names, got 'cow'; the classes are cat, dog, eel. Samples of no"
        " class have the label -1."
    )
    with pytest.raises(InputError) as error:
        check_labels(["dog", "cow"], 3, ANIMALS)
    assert (str(error.value), error.value.param) == (text, "y")


def test_minus_one_and_one_are_not_ood_and_one():
    text = "y must lie in [0, 1], got labels -1 and 1. Try y == 1; -1 marks OOD samples."
    with pytest.raises(InputError) as error:
        check_labels([-1, 1, 1], 2)
    assert str(error.value) == text
    np.testing.assert_array_equal(check_labels([-1, 1, 0], 2), [-1, 1, 0])
    np.testing.assert_array_equal(check_labels([-1, 1], 3), [-1, 1])


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (("a",), "class_names must have at least two names, got ['a']."),
        (("a", "b", "a"), "class_names must be unique, got 'a' twice."),
    ],
)
def test_class_names(names, text):
    with pytest.raises(InputError) as error:
        ClassNames(names)
    assert (str(error.value), error.value.param) == (text, "class_names")


def test_long_lists_are_cut():
    assert few(range(3)) == "0, 1, 2"
    assert few(range(100)) == "0, 1, 2, 3, 4, 5, ... (100 in all)"


def test_domains():
    y = np.array([0, 1, -1, 0, 1])
    names, numbers = np.array(["b", "source", "b", "a", "b"]), np.array([7, 5, 5, 0, 7])
    np.testing.assert_array_equal(encode_domain(names, y, None), [2, 0, -1, 1, 2])
    np.testing.assert_array_equal(encode_domain(numbers, y, None), [2, 1, -1, 0, 2])
    np.testing.assert_array_equal(encode_domain(numbers, y, 7), [0, 2, -1, 1, 0])


def test_missing_domain():
    pandas = pytest.importorskip("pandas")
    domain = np.array(["source", pandas.NA, pandas.NA], object)
    with pytest.raises(InputError, match="domain must not be empty"):
        encode_domain(domain, np.array([0, -1, 1]), None)


@pytest.mark.parametrize(("source", "wanted"), [(None, "0 or 'source'"), ("c", "'c'")])
def test_no_source_domain(source, wanted):
    text = f"domain must contain the source domain {wanted}, got a, b. Try source_domain=."
    with pytest.raises(InputError) as error:
        encode_domain(np.array(list("ababa")), np.zeros(5, int), source)
    assert (str(error.value), error.value.param) == (text, "source_domain")
