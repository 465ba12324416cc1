"""Mixed-up images: which pairs, how they are mixed, what they are called."""

import numpy as np
import pytest

from wildcal.vision.batches import Normalizer
from wildcal.vision.classifiers.base import Classifier
from wildcal.vision.mixup import mixed_up


class Brightest(Classifier):
    """Calls an image by its brightest color; its logits are the mean colors it was given."""

    normalize = Normalizer(mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))

    def __init__(self):
        self.about = {"name": "brightest"}
        self.sizes = []

    def block(self, side):
        return 4

    def logits(self, images):
        self.sizes.append(len(images))
        return self.normalize(images).mean(axis=(1, 2))


def colored(classes, light):
    """Return images of 2 x 2 pixels, each of one color and its own brightness."""
    images = np.zeros((len(classes), 2, 2, 3), np.uint8)
    images[np.arange(len(classes)), ..., classes] = np.asarray(light)[:, None, None]
    return images


CLASSES = np.array([0, 0, 1, 2, 1, 2, 0, 1, 2, 0])
IMAGES = colored(CLASSES, 100 + 15 * np.arange(10))


def test_by_hand():
    logits, y = mixed_up(Brightest(), IMAGES, np.random.default_rng(3))
    second = np.random.default_rng(3).permutation(10)
    first = [i for i in range(10) if CLASSES[i] != CLASSES[second[i]]]
    assert 0 < len(first) < 10  # some pairs are of one class
    light = np.zeros((10, 3))
    light[np.arange(10), CLASSES] = (100 + 15 * np.arange(10)) / 255
    expected = [0.65 * light[i] + 0.35 * light[second[i]] for i in first]
    np.testing.assert_allclose(logits, expected, rtol=1e-6)
    np.testing.assert_array_equal(y, CLASSES[first])
    assert (logits.dtype, y.dtype) == (np.float32, np.int64)


def test_another_share_and_normalized_images():
    network = Brightest()
    as_read = network.normalize(IMAGES)
    one = mixed_up(network, IMAGES, np.random.default_rng(0), share=0.8)
    other = mixed_up(network, as_read, np.random.default_rng(0), share=0.8)
    np.testing.assert_array_equal(one[0], other[0])
    np.testing.assert_array_equal(one[1], other[1])
    usual = mixed_up(network, IMAGES, np.random.default_rng(0))
    assert np.abs(one[0] - usual[0]).max() > 0.01


def test_the_network_sees_whole_blocks_alone():
    network = Brightest()
    mixed_up(network, IMAGES, np.random.default_rng(0))
    assert all(size % 4 == 0 for size in network.sizes)


def test_images_are_left_as_they_are():
    before = IMAGES.copy()
    mixed_up(Brightest(), IMAGES, np.random.default_rng(0))
    np.testing.assert_array_equal(IMAGES, before)


def test_refusals():
    same = colored(np.zeros(5, int), [50, 60, 70, 80, 90])
    with pytest.raises(ValueError, match="no two of the 5 images .* give more images"):
        mixed_up(Brightest(), same, np.random.default_rng(0))
    for share in (0.5, 1.0, np.nan):
        with pytest.raises(ValueError, match=r"share must lie between 0\.5 and 1"):
            mixed_up(Brightest(), IMAGES, np.random.default_rng(0), share=share)
