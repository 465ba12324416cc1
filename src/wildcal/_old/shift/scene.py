"""A picture drawn by the program, for a gallery without a photograph at hand."""

import numpy as np
from PIL import Image, ImageDraw

from wildcal._old.shift.levels import Images

_OVER = 4
"""Drawn this much larger and reduced, which smooths the edges."""


def scene(size: int = 224) -> Images:
    """Return a house with a tree below hills, shape (size, size, 3)."""
    big = size * _OVER
    y = np.linspace(0, 1, big)[:, None, None]
    sky = np.array([70, 130, 200]) * (1 - y) + np.array([245, 215, 180]) * y
    picture = Image.fromarray(np.broadcast_to(sky, (big, big, 3)).astype(np.uint8))
    draw = ImageDraw.Draw(picture)

    def at(*numbers: float) -> list[float]:
        return [number * big for number in numbers]

    draw.ellipse(at(0.70, 0.08, 0.86, 0.24), fill=(255, 236, 150))
    x = np.linspace(0, 1, 200)
    for base, wave, color in (
        (0.50, 0.07, (112, 134, 160)),
        (0.60, 0.05, (84, 128, 96)),
        (0.72, 0.03, (102, 156, 72)),
    ):
        ridge = base + wave * np.sin(2 * np.pi * (1.3 * x + 7 * base)) + wave / 3 * np.sin(31 * x)
        line = [(a * big, b * big) for a, b in zip(x.tolist(), ridge.tolist(), strict=True)]
        draw.polygon([(0, big), *line, (big, big)], fill=color)
    draw.rectangle(at(0.16, 0.52, 0.50, 0.80), fill=(236, 222, 198))
    draw.polygon(at(0.11, 0.54, 0.33, 0.34, 0.55, 0.54), fill=(178, 58, 44))
    draw.rectangle(at(0.29, 0.62, 0.38, 0.80), fill=(96, 62, 40))
    for left in (0.19, 0.41):
        draw.rectangle(at(left, 0.58, left + 0.07, 0.66), fill=(60, 90, 130))
        draw.line(at(left + 0.035, 0.58, left + 0.035, 0.66), fill=(240, 240, 240), width=_OVER)
        draw.line(at(left, 0.62, left + 0.07, 0.62), fill=(240, 240, 240), width=_OVER)
    draw.rectangle(at(0.73, 0.58, 0.77, 0.82), fill=(92, 64, 44))
    rng = np.random.default_rng(5)
    for _ in range(260):  # leaves
        turn, far = rng.uniform(0, 2 * np.pi), 0.14 * np.sqrt(rng.random())
        cx, cy = 0.75 + far * np.cos(turn), 0.50 + far * np.sin(turn)
        shade = tuple(int(v) for v in np.array([46, 110, 44]) + rng.integers(-24, 40))
        draw.ellipse(at(cx - 0.018, cy - 0.018, cx + 0.018, cy + 0.018), fill=shade)
    for _ in range(220):  # grass and flowers
        gx, gy = rng.random(), rng.uniform(0.82, 1.0)
        if rng.random() < 0.15:
            color = ((230, 60, 90), (250, 210, 60), (250, 250, 250))[rng.integers(3)]
            draw.ellipse(at(gx, gy, gx + 0.014, gy + 0.014), fill=color)
        else:
            draw.line(at(gx, gy, gx + 0.008, gy - 0.03), fill=(64, 120, 48), width=_OVER)
    return np.asarray(picture.resize((size, size), Image.Resampling.LANCZOS))
