"""A contact sheet: every corruption and every transform at every level, beside the clean image."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from wildcal._old.shift.corrupt import corrupt
from wildcal._old.shift.levels import Images
from wildcal._old.shift.parameters import CORRUPTIONS, SEVERITIES
from wildcal._old.shift.transform import transform
from wildcal._old.shift.tuning import TUNING_TRANSFORMS

ROWS: Final = (*CORRUPTIONS, *TUNING_TRANSFORMS)
_LEVELS = max(map(len, TUNING_TRANSFORMS.values()))
_TILE, _SPACE, _MARGIN, _LABELS, _HEAD = 112, 6, 24, 188, 56
_PAPER, _INK, _FAINT = (250, 250, 248), (30, 32, 36), (120, 124, 130)


def gallery(
    image: Images,
    *,
    seed: int = 0,
    frost_textures: str | Path | None = None,
    advance: Callable[[], object] = lambda: None,
) -> Images:
    """Return the sheet of one image (H, W, 3) as an RGB image.

    An image of 32 x 32 is shown enlarged under CIFAR's strengths; any other is cut to its middle
    square, resized to 224 x 224 and shown reduced under ImageNet's. `advance` is called after
    each of `ROWS`.
    """
    if image.shape[:2] != (32, 32):
        image = _square(image, 224)
    line = _TILE + _SPACE
    width = 2 * _MARGIN + _LABELS + (1 + len(SEVERITIES)) * line - _SPACE
    height = 2 * (_MARGIN + _HEAD) + len(ROWS) * line - _SPACE
    sheet = Image.new("RGB", (width, height), _PAPER)
    draw = ImageDraw.Draw(sheet)
    font, small = ImageFont.load_default(19), ImageFont.load_default(15)
    left, y = _MARGIN + _LABELS, _MARGIN
    strengths = "CIFAR strengths" if len(image) == 32 else "ImageNet strengths"
    heads = {  # above which row, what it says, and how many columns follow
        CORRUPTIONS[0]: (strengths, "severity", len(SEVERITIES)),
        next(iter(TUNING_TRANSFORMS)): ("transforms to tune on", "level", _LEVELS),
    }
    for name in ROWS:
        if name in heads:
            y += _HEAD
            title, word, count = heads[name]
            draw.text((_MARGIN, y - 14), title, _FAINT, small, anchor="ls")
            words = ("clean", *(f"{word} {number}" for number in range(1, count + 1)))
            for column, text in enumerate(words):
                x = left + column * line + _TILE // 2
                draw.text((x, y - 14), text, _FAINT, small, anchor="ms")
        star = "*" if name == "frost" and frost_textures is None else ""
        label = name.replace("_", " ") + star
        draw.text((left - 16, y + _TILE // 2), label, _INK, font, anchor="rm")
        for column, tile in enumerate((image, *_changed(image, name, seed, frost_textures))):
            sheet.paste(_tile(tile), (left + column * line, y))
        y += line
        advance()
    return np.asarray(sheet)


def _changed(
    image: Images, name: str, seed: int, frost_textures: str | Path | None
) -> Iterator[Images]:
    if name in TUNING_TRANSFORMS:
        for level in range(1, 1 + len(TUNING_TRANSFORMS[name])):
            yield transform(image[None], name, level, seed=seed)[0]
        return
    for severity in SEVERITIES:
        yield corrupt(image[None], name, severity, seed=seed, frost_textures=frost_textures)[0]


def _square(image: Images, size: int) -> Images:
    height, width = image.shape[:2]
    side = min(height, width)
    y, x = (height - side) // 2, (width - side) // 2
    middle = Image.fromarray(np.ascontiguousarray(image[y : y + side, x : x + side]))
    return np.asarray(middle.resize((size, size), Image.Resampling.LANCZOS))


def _tile(image: Images) -> Image.Image:
    # Small images keep their pixels visible; large ones are reduced smoothly.
    kind = Image.Resampling.NEAREST if len(image) < _TILE else Image.Resampling.LANCZOS
    return Image.fromarray(image).resize((_TILE, _TILE), kind)
