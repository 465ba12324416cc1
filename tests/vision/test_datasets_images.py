"""Image sets in memory: rows in, pixels out."""

import numpy as np
import pytest

from wildcal._old.vision.datasets import ArrayImages


@pytest.fixture
def data():
    images = np.random.default_rng(0).integers(0, 256, (6, 8, 9, 3), dtype=np.uint8)
    return ArrayImages("mine", images, np.array([0, 1, 2, 0, 1, 2], np.uint8), ("a", "b", "c", "d"))


def test_what_it_says_of_itself(data):
    assert len(data) == 6
    assert data.labels.dtype == np.int64
    assert data.classes.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("rows", [slice(None), slice(4, 1, -2), np.array([5, 0, 0]), np.arange(0)])
def test_read_gives_a_copy_in_the_order_asked_for(data, rows):
    got = data.read(rows)
    assert np.array_equal(got, data.images[rows])
    assert got.flags.c_contiguous
    assert got.flags.writeable
    assert not np.shares_memory(got, data.images)


def test_a_transposed_array_is_read_contiguous():
    planes = np.arange(2 * 3 * 4 * 4, dtype=np.uint8).reshape(2, 3, 4, 4)
    data = ArrayImages("planes", planes.transpose(0, 2, 3, 1), np.array([0, 0]), ("a",))
    assert data.read(slice(None)).flags.c_contiguous
    assert data.read(np.array([1])).flags.c_contiguous


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.array([0, 6]), r"rows must lie in \[0, 5\], got \[0, 6\]."),
        (np.array([-1]), r"rows must lie in \[0, 5\], got \[-1, -1\]."),
        (np.array([0.0]), "rows must be a slice or a 1-D array of integers, got float64"),
        (np.array([[0]]), r"got int64 of shape \(1, 1\)"),
        (np.ones(6, bool), r"Try np.flatnonzero\(rows\)."),
    ],
)
def test_wrong_rows(data, rows, message):
    with pytest.raises(ValueError, match=message):
        data.read(rows)


@pytest.mark.parametrize(
    "images",
    [
        np.zeros((2, 4, 4, 3)),
        np.zeros((2, 4, 4), np.uint8),
        np.zeros((2, 3, 4, 4), np.uint8),
        np.zeros((0, 4, 4, 3), np.uint8),
    ],
)
def test_wrong_images(images):
    with pytest.raises(ValueError, match="images must be uint8 of shape"):
        ArrayImages("mine", images, np.zeros(len(images), int), ("a",))


def test_wrong_labels():
    images = np.zeros((2, 4, 4, 3), np.uint8)
    with pytest.raises(ValueError, match=r"y must lie in \[0, 1\], got \[0, 2\]"):
        ArrayImages("mine", images, np.array([0, 2]), ("a", "b"))
