"""On real CIFAR-10 images, where the shared data lies beside the repository."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from wildcal._old.shift import CORRUPTIONS, SEVERITIES, corrupt

SHEET = Path(__file__).parents[3] / "shared" / "data" / "cifar10-test-0.webp"


@pytest.fixture(scope="module")
def cifar():
    """The first 500 test images: ten rows of fifty tiles."""
    if not SHEET.exists():
        pytest.skip(f"{SHEET} is not there")
    limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None  # the sheet is large
    try:
        with Image.open(SHEET) as sheet:
            tiles = np.asarray(sheet.convert("RGB").crop((0, 0, 1600, 320)))
    finally:
        Image.MAX_IMAGE_PIXELS = limit
    return tiles.reshape(10, 32, 50, 32, 3).swapaxes(1, 2).reshape(-1, 32, 32, 3)


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_every_type_changes_every_image_but_leaves_it_recognizable(cifar, name):
    for severity in SEVERITIES:
        got = corrupt(cifar, name, severity)
        changed = (got != cifar).any(axis=(1, 2, 3))
        # Mild spatter misses some, and a gray image has no color to take away.
        assert changed.mean() > (0.97 if name in ("spatter", "saturate") else 0.999)
        a, b = cifar.reshape(500, -1).astype(float), got.reshape(500, -1).astype(float)
        a -= a.mean(axis=1, keepdims=True)
        b -= b.mean(axis=1, keepdims=True)
        alike = (a * b).sum(axis=1) / np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1) + 1e-9)
        assert np.median(alike) > 0.5, (name, severity)
