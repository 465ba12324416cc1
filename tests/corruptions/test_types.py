"""Single corruptions against slow reference implementations."""

import colorsys
import io

import numpy as np
import pytest
from PIL import Image
from scipy.ndimage import zoom as scipy_zoom
from scipy.stats import poisson

from wildcal.corruptions import corrupt, digital, weather
from wildcal.corruptions.blur import gaussian_kernel, glass_blur, streak, zoomed
from wildcal.corruptions.noise import _alias
from wildcal.corruptions.parameters import STRENGTHS
from wildcal.corruptions.random import RandomStreams


def streams(name, severity, n=3):
    return RandomStreams.of(name, severity, 0, np.arange(n, dtype=np.uint64))


@pytest.mark.parametrize("severity", [1, 3, 5])
@pytest.mark.parametrize(("height", "width"), [(32, 32), (33, 47)])
def test_glass_is_a_scan(make, severity, height, width):
    """ImageNet's δ of 1, 2 and 4: the pixels one after the other, as published."""
    strength = (0.0, *STRENGTHS["imagenet"]["glass_blur"][severity - 1][1:])  # no blur
    delta, rounds = int(strength[1]), int(strength[2])
    images = make(3, height, width)
    expected = images.copy()
    size = (rounds, 2, height - 2 * delta, width - 2 * delta)
    for image, rng in zip(expected, streams("glass_blur", severity), strict=True):
        steps = rng.integers(-delta, delta, size=size, dtype=np.int8)
        for dy, dx in steps:
            for h in range(height - delta, delta, -1):
                for w in range(width - delta, delta, -1):
                    at = h - delta - 1, w - delta - 1
                    image[h, w] = image[h + dy[at], w + dx[at]]
    got = glass_blur(images, strength, streams("glass_blur", severity))
    assert np.array_equal(got, expected)


@pytest.mark.parametrize("factor", [1.0, 1.01, 1.06, 1.25, 1.75, 2.25, 4.5])
@pytest.mark.parametrize(("height", "width"), [(32, 32), (45, 70)])
def test_zoom_is_scipys(make, factor, height, width):
    image = make(1, height, width)[0].astype(float)
    cut = [int(np.ceil(n / factor)) for n in (height, width)]
    top, left = (height - cut[0]) // 2, (width - cut[1]) // 2
    big = scipy_zoom(
        image[top : top + cut[0], left : left + cut[1]],
        (factor, factor, 1),
        order=1,
        mode="nearest",
    )
    top, left = (big.shape[0] - height) // 2, (big.shape[1] - width) // 2
    expected = big[top : top + height, left : left + width]
    got = zoomed(image[None].astype(np.float32), factor)[0]
    assert np.abs(got - expected).max() < 1e-3


def test_zoom_blur_is_the_same_for_small_and_large_images(make, monkeypatch):
    images = make(5)
    small = corrupt(images, "zoom_blur", 4)
    monkeypatch.setattr("wildcal.corruptions.blur._SMALL", 0)
    large = corrupt(images, "zoom_blur", 4)
    assert np.abs(small.astype(int) - large).max() <= 1
    assert (small != large).mean() < 1e-3


@pytest.mark.parametrize(("height", "width"), [(32, 32), (60, 41)])
def test_jpeg_is_pillows(make, height, width):
    images = make(20, height, width)
    scale = "cifar" if height == 32 else "imagenet"
    for severity in (1, 5):
        quality = int(STRENGTHS[scale]["jpeg_compression"][severity - 1][0])
        for image, got in zip(images, corrupt(images, "jpeg_compression", severity), strict=True):
            file = io.BytesIO()
            Image.fromarray(image).save(file, "JPEG", quality=quality)
            assert np.array_equal(got, np.asarray(Image.open(file)))


@pytest.mark.parametrize(("height", "width"), [(32, 32), (60, 41), (97, 130), (97, 301)])
def test_pixelate_is_pillows(make, height, width):
    images = make(5, height, width)
    scale = "cifar" if height == 32 else "imagenet"
    for severity in range(1, 6):
        c = STRENGTHS[scale]["pixelate"][severity - 1][0]
        for image, got in zip(images, corrupt(images, "pixelate", severity), strict=True):
            small = Image.fromarray(image).resize((int(width * c), int(height * c)), Image.BOX)
            assert np.array_equal(got, np.asarray(small.resize((width, height), Image.BOX)))


@pytest.mark.parametrize("severity", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("name", ["brightness", "saturate"])
def test_colors_go_through_hsv(make, name, severity):
    image = make(1)[0]
    image[0, :4] = [[0, 0, 0], [90, 90, 90], [255, 255, 255], [255, 0, 0]]
    strength = STRENGTHS["cifar"][name][severity - 1]
    expected = np.empty(image.shape)
    for at in np.ndindex(32, 32):
        h, s, v = colorsys.rgb_to_hsv(*(image[at] / 255))
        if name == "brightness":
            v = min(v + strength[0], 1)
        else:
            s = min(max(s * strength[0] + strength[1], 0), 1)
        expected[at] = np.multiply(colorsys.hsv_to_rgb(h, s, v), 255)
    got = corrupt(image[None], name, severity)[0]
    assert np.array_equal(got, np.floor(expected + 1e-3))


def test_impulse_noise_by_counting():
    flat = np.full((200, 32, 32, 3), 100, np.uint8)
    got = corrupt(flat, "impulse_noise", 5)
    n = got.size
    for level in (0, 255):
        assert abs((got == level).sum() - 0.035 * n) < 4 * np.sqrt(0.035 * n)
    assert set(np.unique(got)) == {0, 100, 255}


@pytest.mark.parametrize(("level", "severity"), [(1, 1), (100, 3), (250, 5)])
def test_shot_noise_is_poisson(level, severity):
    c = STRENGTHS["cifar"]["shot_noise"][severity - 1][0]
    got = corrupt(np.full((100, 32, 32, 3), level, np.uint8), "shot_noise", severity)
    counts = np.arange(2000)
    expected = np.zeros(256)
    outcome = (np.minimum(counts / c, 1) * 255).astype(int)
    np.add.at(expected, outcome, poisson.pmf(counts, c * level / 255))
    n = got.size
    seen = np.bincount(got.ravel(), minlength=256)
    assert (np.abs(seen - n * expected) < 5 * np.sqrt(n * expected) + 3).all()


def test_alias_tables_hold_the_probabilities():
    proba = np.random.default_rng(0).dirichlet(np.full(256, 0.1), 5)
    table = _alias(proba)
    threshold, alias = (table >> 8) / 2**24, table & 255
    got = threshold / 256
    for row in range(5):
        np.add.at(got[row], alias[row], (1 - threshold[row]) / 256)
    assert np.abs(got - proba).max() < 1e-7


@pytest.mark.parametrize("name", ["gaussian_noise", "speckle_noise"])
def test_normal_noise_has_its_deviation(name):
    sigma = STRENGTHS["cifar"][name][2][0] * (255 if name == "gaussian_noise" else 128)
    got = corrupt(np.full((100, 32, 32, 3), 128, np.uint8), name, 3).astype(float)
    assert got.mean() == pytest.approx(127.5, abs=0.2)  # truncated, not rounded
    assert got.std() == pytest.approx(sigma, rel=0.01)


def test_streams_of_neighbors_are_unrelated():
    z = RandomStreams.of("fog", 1, 0, np.arange(400, dtype=np.uint64)).normal((100,))
    assert len(np.unique(z)) > 0.999 * z.size
    assert np.abs(np.corrcoef(z[:-1].ravel(), z[1:].ravel())[0, 1]) < 0.02
    assert abs(z.mean()) < 0.02
    assert z.std() == pytest.approx(1, abs=0.02)
    other = RandomStreams.of("fog", 2, 0, np.arange(400, dtype=np.uint64)).normal((100,))
    assert np.abs(np.corrcoef(z.ravel(), other.ravel())[0, 1]) < 0.02


@pytest.mark.parametrize("sigma", [8.5, 19.5, 170.8])
@pytest.mark.parametrize(("height", "width"), [(64, 64), (45, 70)])
def test_wide_waves_are_the_convolution(sigma, height, width):
    """By the kernel on a plane that is mirrored until it is wide enough."""
    noise = np.random.default_rng(0).uniform(-1, 1, (height, width, 2)).astype(np.float32)
    kernel = gaussian_kernel(sigma, 3.0).astype(float)
    wide = np.pad(noise, [(len(kernel) // 2,) * 2] * 2 + [(0, 0)], mode="symmetric")
    for axis in (0, 1):
        wide = np.apply_along_axis(np.convolve, axis, wide, kernel, "valid")
    got = digital._smooth(noise, sigma)
    assert np.abs(got - np.moveaxis(wide, 2, 0)).max() < 1e-6


@pytest.mark.parametrize("scale", ["cifar", "imagenet"])
@pytest.mark.parametrize("severity", [1, 2, 3, 4, 5])
def test_frost_cuts_every_pair_of_levels(monkeypatch, scale, severity):
    a, b, _ = strength = STRENGTHS[scale]["frost"][severity - 1]
    x, ice = np.meshgrid(np.arange(256), np.arange(256))
    texture = np.repeat(ice[..., None], 3, axis=2).astype(np.uint8)
    monkeypatch.setattr(weather, "fitted_textures", lambda *_: (texture,))
    image = np.repeat(x[None, ..., None], 3, axis=3).astype(np.uint8)
    got = weather.frost(image, strength, streams("frost", 1, 1), None)
    expected = np.floor(np.minimum(a * x + b * ice, 255) + 1e-6)
    assert np.array_equal(got[0, ..., 1], expected)


@pytest.mark.parametrize("scale", ["cifar", "imagenet"])
@pytest.mark.parametrize("severity", [1, 3, 5])
def test_snow_by_its_formula(make, scale, severity):
    mean, deviation, zoom, threshold, radius, sigma, mix = STRENGTHS[scale]["snow"][severity - 1]
    images = make(3)
    got = corrupt(images, "snow", severity, scale=scale)
    for image, result, rng in zip(images, got, streams("snow", severity), strict=True):
        layer = mean + deviation * rng.standard_normal((32, 32), dtype=np.float32)
        angle = rng.uniform(-135, -45)
        layer = zoomed(layer[None, :, :, None].astype(np.float32), zoom)[0, :, :, 0]
        layer = np.where(layer < threshold, 0, np.clip(layer, 0, 1))
        fall = np.rint(streak((255 * layer).astype(np.uint8), radius, sigma, angle)) / 255
        x = image / 255
        gray = (x @ [0.299, 0.587, 0.114])[..., None]
        x = mix * x + (1 - mix) * np.maximum(x, 1.5 * gray + 0.5)
        x = x + (fall + np.rot90(fall, 2))[..., None]
        assert np.abs(result - np.clip(255 * x, 0, 255)).max() < 1.5
