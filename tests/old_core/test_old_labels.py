"""Names and numbers of classes: mapped once, both ways, and refused by row."""

import numpy as np
import pytest

from wildcal._old.core.labels import ClassNames, read_labels
from wildcal._old.core.plain_labels import plain_labels

ANIMALS = ClassNames(("cat", "dog", "fish"))


def test_there_and_back():
    y = ANIMALS.encode(["fish", "cat", "-1"])
    np.testing.assert_array_equal(y, [2, 0, -1])
    assert ANIMALS.decode(y) == ["fish", "cat", "-1"]
    assert len(ANIMALS) == 3


@pytest.mark.parametrize(
    ("names", "message"), [(("a",), "two names or more"), (("a", "a"), "twice")]
)
def test_names_are_several_and_different(names, message):
    with pytest.raises(ValueError, match=message):
        ClassNames(names)


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        ([2, 0, 1], [2, 0, 1]),
        (np.array([2, 0, 1], np.uint8), [2, 0, 1]),
        ([2.0, 0.0, -1.0], [2, 0, -1]),
        (["2", "0", "1.0"], [2, 0, 1]),
        ([[2], [0], [1]], [2, 0, 1]),
        ([True, False, True], [1, 0, 1]),
        (np.array(["dog", "cat", "fish"]), [1, 0, 2]),
        (np.array([b"dog", b"cat", b"fish"]), [1, 0, 2]),
        (np.array(["dog", "cat", "fish"], object), [1, 0, 2]),
    ],
)
def test_labels_in_every_form(y, expected):
    got, classes = read_labels(y, 3, ANIMALS)
    assert got.dtype == np.int64
    np.testing.assert_array_equal(got, expected)
    assert classes == ANIMALS


def test_numbers_that_are_names():
    """Columns called 1, 2, 3 with labels 1, 2, 3: the name counts, not the place."""
    got, _ = read_labels([3, 1, -1], 3, ClassNames(("1", "2", "3")))
    np.testing.assert_array_equal(got, [2, 0, -1])
    with pytest.raises(ValueError, match="label '0' is none of the classes 1, 2, 3"):
        read_labels([0, 1], 3, ClassNames(("1", "2", "3")))


@pytest.mark.parametrize(
    ("y", "pos_label", "expected", "names"),
    [
        (["spam", "ham"], "spam", [1, 0], ("ham", "spam")),
        ([-1, 1], 1, [0, 1], ("-1", "1")),
        ([1, 2], 2, [0, 1], ("1", "2")),
        ([True, False], True, [1, 0], ("0", "1")),
        ([0, 1, -1], 0, [1, 0, -1], ("1", "0")),
        (["yes", "yes"], "yes", [1, 1], ("not yes", "yes")),
    ],
)
def test_pos_label(y, pos_label, expected, names):
    got, classes = read_labels(y, 2, None, pos_label)
    np.testing.assert_array_equal(got, expected)
    assert classes.names == names


@pytest.mark.parametrize("y", [["a", "b", "c"], ["b", "c"], ["b"]])
def test_pos_label_is_one_of_two(y):
    with pytest.raises(ValueError, match="pos_label='a' must be one of two labels"):
        read_labels(y, 2, None, "a")


def test_labels_stay_plain():
    assert plain_labels([1, 2]).dtype == np.int64
    assert plain_labels(["a", "b"]).dtype == object
    with pytest.raises(ValueError, match="dtype datetime64"):
        plain_labels(np.array(["2020-01-01"], "datetime64[D]"))


@pytest.mark.parametrize("nothing", [None, float("nan"), np.nan, "", "  ", b" "])
def test_a_row_without_a_label_is_named(nothing):
    with pytest.raises(ValueError, match="^row 1 has no label"):
        plain_labels(np.array(["cat", nothing, "dog"], object))
