"""A contact sheet: every corruption at every severity, beside the clean image."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from wildcal.shift.corrupt import corrupt
from wildcal.shift.levels import Images
from wildcal.shift.parameters import CORRUPTIONS, SEVERITIES

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
    each row.
    """
    if image.shape[:2] != (32, 32):
        image = _square(image, 224)
    line = _TILE + _SPACE
    width = 2 * _MARGIN + _LABELS + (1 + len(SEVERITIES)) * line - _SPACE
    height = 2 * _MARGIN + _HEAD + len(CORRUPTIONS) * line - _SPACE
    sheet = Image.new("RGB", (width, height), _PAPER)
    draw = ImageDraw.Draw(sheet)
    font, small = ImageFont.load_default(19), ImageFont.load_default(15)
    left, top = _MARGIN + _LABELS, _MARGIN + _HEAD
    for column, text in enumerate(("clean", *(f"severity {s}" for s in SEVERITIES))):
        x = left + column * line + _TILE // 2
        draw.text((x, top - 14), text, _FAINT, small, anchor="ms")
    strengths = "CIFAR strengths" if len(image) == 32 else "ImageNet strengths"
    draw.text((_MARGIN, top - 14), strengths, _FAINT, small, anchor="ls")
    for row, name in enumerate(CORRUPTIONS):
        y = top + row * line
        star = "*" if name == "frost" and frost_textures is None else ""
        label = name.replace("_", " ") + star
        draw.text((left - 16, y + _TILE // 2), label, _INK, font, anchor="rm")
        sheet.paste(_tile(image), (left, y))
        for severity in SEVERITIES:
            changed = corrupt(image[None], name, severity, seed=seed, frost_textures=frost_textures)
            sheet.paste(_tile(changed[0]), (left + severity * line, y))
        advance()
    return np.asarray(sheet)


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
