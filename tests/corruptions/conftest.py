"""Images for the tests of this layer, which all need its extra."""

from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent


def make_images(n, height=32, width=32, seed=0):
    """Smooth colors with edges and grain: something for every type to change."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width] / 32
    waves = rng.uniform(1, 4, (n, 1, 1, 3)), rng.uniform(0, 6, (n, 1, 1, 3))
    images = 128 + 70 * np.sin(waves[0] * x[..., None] + waves[1]) + 40 * np.cos(3 * y)[..., None]
    images[:, height // 4 : height // 2, width // 3 : width // 2] = [210, 60, 40]
    images += rng.normal(0, 8, images.shape)
    return np.clip(images, 0, 255).astype(np.uint8)


@pytest.fixture(scope="session")
def images():
    return make_images(130)


@pytest.fixture(scope="session")
def make():
    return make_images
