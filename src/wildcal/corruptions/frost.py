"""Frost textures: drawn by this module, or the published pictures from a folder.

The published corruption uses photographs that are not part of this package. Ours are drawn once per
process from a fixed seed: ferns of ice, each a bent stem with side branches at 60° and smaller ones
on these, over a cloud texture. Results with them are called "frost*".
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from wildcal.core.exceptions import InputError
from wildcal.corruptions.blur import smooth
from wildcal.corruptions.pixels import Floats, Images, round_to_uint8
from wildcal.corruptions.plasma import plasma

_SIZES = ((600, 900), (315, 560), (315, 560), (350, 527), (495, 660))
"""Heights and widths of the five published textures that are used."""

_DARK = np.array([16, 30, 48], np.float32)
_ICE = np.array([222, 238, 255], np.float32)
_GAP = 6.0
"""Pixels between two branches of a stem."""

_ENDINGS = {".png", ".jpg", ".jpeg"}


@lru_cache(maxsize=8)
def fitted_textures(
    folder: Path | None, scale: float, height: int, width: int
) -> tuple[Images, ...]:
    """Return the textures scaled, and enlarged where an image would not fit into one."""
    found = []
    for texture in own_textures() if folder is None else load_textures(folder):
        rows, columns = texture.shape[:2]
        factor = max(scale, height / rows, width / columns)
        size = (max(round(factor * columns), width), max(round(factor * rows), height))
        found.append(np.asarray(cv2.resize(texture, size), np.uint8))
    return tuple(found)


def load_textures(folder: Path) -> tuple[Images, ...]:
    """Return the first five pictures of a folder, by name, as RGB.

    There are six published files; the published script draws from five and so never uses the last.
    """
    paths = sorted(p for p in folder.glob("*") if p.suffix.lower() in _ENDINGS)[:5]
    if not paths:
        raise InputError(
            f"frost_textures must be a folder with .png or .jpg pictures, got {folder}.",
            "frost_textures",
        )
    textures = []
    for path in paths:
        with Image.open(path) as picture:
            # Transparency is dropped, as OpenCV does.
            textures.append(np.asarray(picture.convert("RGBA"))[..., :3].copy())
    return tuple(textures)


@lru_cache(maxsize=1)
def own_textures() -> tuple[Images, ...]:
    """Return five textures of ice, drawn by this program."""
    return tuple(_texture(np.random.default_rng([2024, i]), *s) for i, s in enumerate(_SIZES))


def _texture(rng: np.random.Generator, height: int, width: int) -> Images:
    cloud = _cloud(rng, height, width)
    canvas = np.zeros((height, width), np.uint8)
    # Ferns start where the cloud texture is dense; elsewhere the image stays clear.
    wanted = height * width // 2400
    while wanted:
        x, y = rng.integers(width), rng.integers(height)
        if rng.random() < 2.2 * cloud[y, x] - 0.65:
            angle, length = rng.uniform(0, 2 * np.pi), rng.uniform(0.15, 0.42) * height
            _fern(canvas, rng, np.array([x, y]), angle, length)
            wanted -= 1
    lines: Floats = canvas.astype(np.float32) / np.float32(255)
    grain = smooth(rng.standard_normal((height, width), dtype=np.float32), 0.7)
    ice = 0.75 * lines + 0.3 * smooth(lines, 2) + 0.35 * smooth(lines, 12)
    ice += (0.22 + 0.2 * grain) * cloud
    ice = np.clip(ice, 0, 1)[..., None]
    return round_to_uint8(_DARK + ice * (_ICE - _DARK))


def _cloud(rng: np.random.Generator, height: int, width: int) -> Floats:
    side = 1 << (max(height, width) - 1).bit_length()
    uniform = rng.uniform(-1, 1, (1, side * side - 1)).astype(np.float32)
    cloud = plasma(uniform, side, 1.8)[0, :height, :width]
    # Ranks, so that the same share of every texture is clear.
    rank = np.argsort(np.argsort(cloud, axis=None)) / cloud.size
    return rank.reshape(cloud.shape).astype(np.float32)


def _fern(
    canvas: Images, rng: np.random.Generator, root: NDArray[Any], angle: float, length: float
) -> None:
    """Draw a bent stem, branches on both sides that shorten to its tip, and twigs on these."""
    steps = int(length / _GAP)
    angles = angle + rng.normal(0, 0.8) * np.arange(steps) / steps
    stem = root + np.cumsum(_GAP * _towards(angles), axis=0)
    rest = 1 - np.arange(steps) / steps
    sides = np.array([[1.0], [-1.0]])
    directions = angles + sides * (np.pi / 3) + rng.normal(0, 0.06, (2, steps))
    reach = 0.36 * length * np.sqrt(rest) * rest**0.3 * rng.uniform(0.65, 1, (2, steps))
    tips = stem + reach[..., None] * _towards(directions)
    # Each fern covers what is below it; otherwise many add up to white.
    outline = np.vstack([root[None], tips[0], stem[-1:], tips[1, ::-1]])
    cv2.fillPoly(canvas, [_fixed(outline)], 28, cv2.LINE_AA, shift=4)
    along = np.linspace(0.15, 0.9, 7)[:, None, None]
    joints = stem + along[..., None] * (tips - stem)
    twig = 0.30 * reach * (1 - along)
    for side in (-1, 1):
        ends = joints + twig[..., None] * _towards(directions + side * np.pi / 3)
        _segments(canvas, joints, ends, 125)
    _segments(canvas, np.broadcast_to(stem, tips.shape), tips, 190)
    cv2.polylines(canvas, [_fixed(stem)], False, 255, 2, cv2.LINE_AA, shift=4)


def _towards(angle: NDArray[Any]) -> NDArray[Any]:
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1)


def _segments(canvas: Images, start: NDArray[Any], end: NDArray[Any], shade: int) -> None:
    lines = np.stack([start, end], axis=-2).reshape(-1, 2, 2)
    cv2.polylines(canvas, list(_fixed(lines)), False, shade, 1, cv2.LINE_AA, shift=4)


def _fixed(points: NDArray[Any]) -> NDArray[np.int32]:
    """Return points in 16ths of a pixel, so that fine lines do not jump from pixel to pixel."""
    grid: NDArray[Any] = np.rint(16 * points)
    return grid.astype(np.int32)
