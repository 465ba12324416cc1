"""Gaussian noise on what a network reads."""

import numpy as np
import pytest
import torch

from wildcal.vision.batches import Normalizer
from wildcal.vision.classifiers import open_classifier
from wildcal.vision.classifiers.torch_module import TorchClassifier
from wildcal.vision.networks import build
from wildcal.vision.noise import Noise

USUAL = Normalizer((0.5, 0.4, 0.6), (0.25, 0.2, 0.3))


def pictures(n):
    return np.random.default_rng(0).integers(40, 220, (n, 32, 32, 3), dtype=np.uint8)


def test_noise_by_hand():
    """sigma 0 changes nothing; sigma 2 is twice sigma 1; the draws are standard normal."""
    images = pictures(8)
    clean, one, two = (Noise("input").at(s, USUAL)(images) for s in (0, 1, 2))
    np.testing.assert_array_equal(clean, USUAL(images))
    np.testing.assert_allclose(two - clean, 2 * (one - clean), atol=1e-5)
    drawn = one - clean
    assert drawn.dtype == np.float32
    assert abs(drawn.mean()) < 4 / np.sqrt(drawn.size)
    assert abs(drawn.std() - 1) < 4 / np.sqrt(2 * drawn.size)


def test_noise_in_pixels_is_clipped_to_black_and_white():
    images = pictures(8)
    drawn = Noise("input").at(1, USUAL)(images) - USUAL(images)
    made = Noise("pixels").at(0.3, USUAL)(images)
    # In float64 and in [0, 1], as it is defined.
    pixels = np.clip(images / 255 + 0.3 * drawn.astype(np.float64), 0, 1)
    np.testing.assert_allclose(made, (pixels - USUAL.mean) / USUAL.std, atol=1e-5)
    back = made * np.array(USUAL.std) + USUAL.mean
    for edge in (0, 1):
        assert 0.01 < np.isclose(back, edge, atol=1e-6).mean() < 0.5
    assert back.min() > -1e-6
    assert back.max() < 1 + 1e-6
    free = Noise("input").at(0.3 / 0.25, USUAL)(images) * np.array(USUAL.std) + USUAL.mean
    assert free.min() < -0.1
    assert free.max() > 1.1


@pytest.mark.parametrize("space", ["input", "pixels"])
def test_any_subset_gets_the_same_noise(space):
    images = pictures(30)
    noise = Noise(space).at(0.4, USUAL)
    rows = np.array([17, 3, 29])
    some = noise(images[rows], seed=5, indices=rows)
    np.testing.assert_array_equal(some, noise(images, seed=5)[rows])
    assert not np.array_equal(some, noise(images[rows], seed=6, indices=rows))
    assert not np.array_equal(some, noise(images[rows], seed=5, indices=rows + 1))


def test_noise_does_not_depend_on_the_level():
    images = pictures(3)
    noise = Noise("input").at(0.4, USUAL)
    np.testing.assert_array_equal(
        noise(images, "perturbation", 1), noise(images, "perturbation", 5)
    )


def test_noise_that_cannot_be():
    images = pictures(2)
    with pytest.raises(ValueError, match="space must be"):
        Noise("logits")
    with pytest.raises(ValueError, match="sigma must be finite and not negative, got -1"):
        Noise("input").at(-1, USUAL)
    with pytest.raises(ValueError, match="the noise has no strength yet"):
        Noise("input")(images)


def test_classifiers_take_what_is_normalized_already(export, tmp_path):
    torch.manual_seed(0)
    network = build("resnet20", 10)
    images = pictures(7)
    onnx = open_classifier(str(export(network, tmp_path / "net.onnx")), USUAL)
    for classifier in (TorchClassifier(network, USUAL, {}), onnx):
        plain = classifier.logits(images)
        np.testing.assert_array_equal(classifier.logits(USUAL(images)), plain)
        assert np.abs(classifier.logits(USUAL(images) + 1) - plain).max() > 1e-3
