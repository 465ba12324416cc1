"""The changes of images that a study shows to networks."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks" / "studies"))
from image_changes import CHANGES, STRENGTHS


@pytest.mark.parametrize("kind", CHANGES)
def test_a_change_gives_images_again_and_the_same_ones(kind):
    images = np.random.default_rng(0).integers(0, 256, (6, 32, 32, 3)).astype(np.uint8)
    before = images.copy()
    for strength in STRENGTHS:
        first, again = (CHANGES[kind](images, strength, np.random.default_rng(1)) for _ in range(2))
        assert first.shape == images.shape
        assert first.dtype == np.uint8
        np.testing.assert_array_equal(first, again)
        np.testing.assert_array_equal(images, before)
        assert (first != images).any()
