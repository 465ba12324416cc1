"""Corruptions against the published CIFAR script, run on modern packages (corruptions.json).

Means must agree to 0.5 level, single pixels to 1 (2 for glass, which cuts twice): results are cut,
not rounded, so a value that is whole up to float rounding may come out one lower on either side.
Contrast, pixelate, JPEG and motion blur agree to the last bit where the libraries have the same
versions.
"""

import os
import zlib

import numpy as np
import pytest

if not os.environ.get("WILDCAL_REQUIRE_EXTRAS"):
    pytest.importorskip("cv2")
    pytest.importorskip("PIL")

import cv2
import PIL

from wildcal.corruptions import corrupt
from wildcal.corruptions.blur import glass_blur, streak
from wildcal.corruptions.digital import elastic_transform
from wildcal.corruptions.noise import gaussian_noise, speckle_noise
from wildcal.corruptions.parameters import STRENGTHS
from wildcal.corruptions.pixels import round_to_uint8
from wildcal.corruptions.plasma import plasma
from wildcal.corruptions.weather import fog, spatter

LEVELS = ["1", "2", "3", "4", "5"]
DETERMINISTIC = [
    "gaussian_blur",
    "defocus_blur",
    "zoom_blur",
    "contrast",
    "brightness",
    "saturate",
    "pixelate",
    "jpeg_compression",
]
SEEDED = {
    "gaussian_noise": gaussian_noise,
    "speckle_noise": speckle_noise,
    "glass_blur": glass_blur,
    "fog": fog,
    "elastic_transform": elastic_transform,
    "spatter": spatter,
}


@pytest.fixture(scope="module")
def fixture(vectors):
    return vectors("corruptions")


@pytest.fixture(scope="module")
def image(fixture):
    yy, xx = np.mgrid[0:32, 0:32]
    noise = np.random.default_rng(7).normal(0, 12, (32, 32, 3))
    img = np.stack([xx * 8, yy * 8, (xx + yy) * 4], -1).astype(float) + noise
    img[8:20, 10:24] = [220, 60, 40]
    img[22:28, 4:12] = [30, 90, 210]
    img = np.clip(np.round(img), 0, 255).astype(np.uint8)
    assert zlib.crc32(img.tobytes()) == fixture["image"]["crc32"]
    return img


def compare(got, expected, fixture, *, exact=False, cuts=1):
    assert got.reshape(-1, 3).mean(axis=0) == pytest.approx(expected["mean_rgb"], abs=0.5)
    assert got.std() == pytest.approx(expected["std"], abs=0.5)
    y, x = np.transpose(fixture["sample_pixels_yx"])
    assert np.abs(got[y, x].astype(int) - expected["pixels"]).max() <= cuts
    versions = fixture["versions"]
    if exact and PIL.__version__ == versions["pillow"] and cv2.__version__ == versions["opencv"]:
        assert zlib.crc32(np.ascontiguousarray(got).tobytes()) == expected["crc32"]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", DETERMINISTIC)
def test_deterministic(fixture, image, name, level):
    got = corrupt(image[None], name, int(level))[0]
    exact = name in ("contrast", "pixelate", "jpeg_compression")
    compare(got, fixture["deterministic"][name][level], fixture, exact=exact)


@pytest.mark.parametrize("angle", [0.0, 30.0, -45.0])
@pytest.mark.parametrize("level", LEVELS)
def test_motion_blur_at_fixed_angles(fixture, image, level, angle):
    strength = STRENGTHS["cifar"]["motion_blur"][int(level) - 1]
    got = round_to_uint8(streak(image, *strength, angle))
    compare(got, fixture["motion_blur_numpy"][f"{level}@{angle}"], fixture, exact=True)


class LegacyStreams:
    """The numbers of np.random.seed(0) in the order in which the published script draws them."""

    def __init__(self):
        self.legacy = np.random.RandomState(0)

    def __iter__(self):
        yield self

    def normal(self, shape):
        return self.legacy.normal(size=shape).astype(np.float32)[None]

    def uniform(self, low, high, shape):
        return self.legacy.uniform(low, high, shape)

    def random(self, shape=None, out=None, dtype=None):
        if out is not None:  # fog
            out[:] = self.legacy.random_sample(out.shape)
            return out
        *plane, count = shape  # elastic: all of x, then all of y
        return np.stack([self.legacy.random_sample(plane) for _ in range(count)], -1).astype(dtype)

    def integers(self, low, high, size, dtype):
        """Glass: (dx, dy) for each pixel, from the lower right to the upper left."""
        rounds, _, height, width = size
        draws = [self.legacy.randint(low, high, size=2) for _ in range(rounds * height * width)]
        steps = np.reshape(draws, (rounds, height, width, 2))[:, ::-1, ::-1, ::-1]
        return np.moveaxis(steps, 3, 1).astype(dtype)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", SEEDED)
def test_seeded_with_the_same_random_numbers(fixture, image, name, level):
    strength = STRENGTHS["cifar"][name][int(level) - 1]
    got = SEEDED[name](image[None], strength, LegacyStreams())[0]
    compare(got, fixture["seeded"][name][level], fixture, cuts=2 if name == "glass_blur" else 1)


@pytest.mark.parametrize("level", LEVELS)
def test_shot_noise_has_the_fixtures_statistics(fixture, image, level):
    """Another sampler, so the same distribution instead of the same numbers."""
    expected = fixture["seeded"]["shot_noise"][level]
    got = corrupt(np.repeat(image[None], 300, axis=0), "shot_noise", int(level))
    means = got.reshape(300, -1, 3).mean(axis=1)
    distance = (means.mean(axis=0) - expected["mean_rgb"]) / means.std(axis=0)
    assert np.abs(distance).max() < 4
    deviations = got.reshape(300, -1).std(axis=1)
    assert abs(deviations.mean() - expected["std"]) < 4 * deviations.std()


def test_plasma(fixture):
    expected = fixture["plasma_fractal_seed0_32_decay3"]
    uniform = np.random.RandomState(0).uniform(-1, 1, (1, 32 * 32 - 1)).astype(np.float32)
    got = plasma(uniform, 32, 3.0)[0]
    y, x = np.transpose(fixture["sample_pixels_yx"])
    assert got[y, x] == pytest.approx(expected["samples"], abs=1e-6)
    assert got.mean() == pytest.approx(expected["mean"], abs=1e-6)
    assert (got.min(), got.max()) == (expected["min"], expected["max"])
