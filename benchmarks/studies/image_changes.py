"""Thirty changes of small images, none of them among the 19 corruptions, at three strengths.

Each takes images (n, 32, 32, 3) of uint8, a strength 0, 1 or 2, and a random generator.
`context_changes.py` shows networks what they make of validation images.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

Images = NDArray[np.uint8]
Change = Callable[[Images, int, np.random.Generator], Images]
SIDE = 32
DOWN, ACROSS = np.mgrid[0:SIDE, 0:SIDE]
CENTER, RADIUS, TURN = (SIDE - 1) / 2, 22, 6.3


def pixels(values: np.ndarray) -> Images:
    """Return numbers as pixels."""
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)


def blend(images: np.ndarray, other: np.ndarray, part: float) -> Images:
    """Return images of which a part is something else."""
    return pixels((1 - part) * images + part * other)


def stripes(images: Images, strength: int, rng: np.random.Generator) -> Images:
    """Put black bars down the image, eight pixels apart."""
    start = rng.integers(0, 8, len(images))
    bars = (ACROSS + start[:, None, None]) % 8 < (2, 3, 4)[strength]
    return np.where(bars[..., None], 0, images).astype(np.uint8)


def holes(images: Images, strength: int, rng: np.random.Generator) -> Images:
    """Cover squares of six pixels with random colors."""
    changed = images.copy()
    for image in changed:
        for _ in range((4, 8, 14)[strength]):
            top, left = rng.integers(0, 27, 2)
            image[top : top + 6, left : left + 6] = rng.integers(0, 256, 3)
    return changed


def checkerboard(images: Images, strength: int, rng: np.random.Generator) -> Images:
    """Lay a chessboard over the image."""
    board = (ACROSS // 4 + DOWN // 4) % 2 * 255.0
    return blend(images, board[..., None], (0.2, 0.35, 0.5)[strength])


def swapped_colors(images: Images, strength: int, rng: np.random.Generator) -> Images:
    """Replace each color partly by another."""
    return blend(images, images[..., [2, 0, 1]], (0.4, 0.7, 1.0)[strength])


def few_levels(images: Images, strength: int, rng: np.random.Generator) -> Images:
    """Keep five, three or two levels of each color."""
    steps = (5, 3, 2)[strength] - 1
    return pixels(np.rint(images / 255.0 * steps) / steps * 255)


def jittered_rows(images: Images, strength: int, rng: np.random.Generator) -> Images:
    """Roll every row of pixels by a distance of its own."""
    most = (2, 4, 7)[strength]
    moved = rng.integers(-most, most + 1, (len(images), SIDE))
    source = (np.arange(SIDE) - moved[..., None]) % SIDE
    return np.take_along_axis(images, source[..., None], axis=2)


def waves(images: Images, strength: int, rng: np.random.Generator) -> Images:
    """Move pixels along sines."""
    size, phase = (2, 3.5, 5)[strength], rng.uniform(0, TURN, len(images))[:, None, None]
    down = np.clip(DOWN + size * np.sin(ACROSS / 3.0 + phase), 0, SIDE - 1)
    across = np.clip(ACROSS + size * np.sin(DOWN / 3.0 + phase), 0, SIDE - 1)
    number = np.arange(len(images))[:, None, None]
    return images[number, np.rint(down).astype(int), np.rint(across).astype(int)]


def another_image(images: Images, strength: int, rng: np.random.Generator) -> Images:
    """Lay another image over each."""
    return blend(images, images[rng.permutation(len(images))], (0.25, 0.35, 0.45)[strength])


def colored_dots(images: Images, strength: int, rng: np.random.Generator) -> Images:
    """Give single pixels random colors."""
    hit = rng.random(images.shape[:3]) < (0.03, 0.08, 0.16)[strength]
    return np.where(hit[..., None], rng.integers(0, 256, images.shape), images).astype(np.uint8)


def white_dots(images: Images, strength: int, rng: np.random.Generator) -> Images:
    """Make single pixels white."""
    hit = rng.random(images.shape[:3]) < (0.03, 0.08, 0.16)[strength]
    return np.where(hit[..., None], 255, images).astype(np.uint8)


def vignette(images: Images, strength: int, rng: np.random.Generator) -> Images:
    """Darken towards the corners."""
    far = np.clip(np.hypot(ACROSS - CENTER, DOWN - CENTER) / RADIUS * 1.3, 0, 1)
    return pixels(images * (1 - (0.6, 0.8, 0.95)[strength] * far)[..., None])


def side_light(images: Images, strength: int, rng: np.random.Generator) -> Images:
    """Light a random side, and darken the other."""
    angle = rng.uniform(0, TURN, len(images))[:, None, None]
    slope = (np.cos(angle) * (ACROSS - CENTER) + np.sin(angle) * (DOWN - CENTER)) / RADIUS
    return pixels(images + 255 * (0.5, 0.8, 1.1)[strength] * slope[..., None] * 0.7)


def gray(images: Images, strength: int, rng: np.random.Generator) -> Images:
    """Take most or all of the color away."""
    return blend(images, images.mean(-1, keepdims=True), (0.6, 0.9, 1.0)[strength])


def solarized(images: Images, strength: int, rng: np.random.Generator) -> Images:
    """Invert bright values."""
    return np.where(images > (200, 140, 90)[strength], 255 - images, images).astype(np.uint8)


def shuffled_blocks(images: Images, strength: int, rng: np.random.Generator) -> Images:
    """Let a third of the blocks change places."""
    n = (2, 4, 8)[strength]
    side, blocks = SIDE // n, np.empty((len(images), n * n), int)
    for order in blocks:
        order[:] = np.arange(n * n)
        some = rng.permutation(n * n)[: max(2, n * n // 3)]
        order[some] = np.roll(some, 1)
    cut = images.reshape(-1, n, side, n, side, 3).transpose(0, 1, 3, 2, 4, 5)
    cut = cut.reshape(-1, n * n, side, side, 3)[np.arange(len(images))[:, None], blocks]
    return cut.reshape(-1, n, n, side, side, 3).transpose(0, 1, 3, 2, 4, 5).reshape(images.shape)


def sharpened(images: Images, strength: int, rng: np.random.Generator) -> Images:
    """Make edges much harder."""
    values = images.astype(float)
    smooth = ndimage.gaussian_filter(values, (0, 1, 1, 0))
    return pixels(values + (1.5, 3, 6)[strength] * (values - smooth))


def median(images: Images, strength: int, rng: np.random.Generator) -> Images:
    """Take the median of a neighborhood."""
    side = (3, 5, 7)[strength]
    return ndimage.median_filter(images, size=(1, side, side, 1))


def tinted(images: Images, strength: int, rng: np.random.Generator) -> Images:
    """Lay one random color over each image."""
    color = rng.integers(0, 256, (len(images), 1, 1, 3))
    return blend(images, color, (0.3, 0.5, 0.7)[strength])


def dithered(images: Images, strength: int, rng: np.random.Generator) -> Images:
    """Keep few levels of each color, rounded at random."""
    steps = (4, 3, 2)[strength] - 1
    return pixels(np.floor(images / 255.0 * steps + rng.random(images.shape)) / steps * 255)


def shaded(images: Images, strength: int, rng: np.random.Generator) -> Images:
    """Lay smooth patches of light and shade over the image."""
    patches = ndimage.zoom(rng.standard_normal((len(images), 4, 4)), (1, 8, 8), order=1)
    return pixels(images * np.exp((0.5, 0.8, 1.2)[strength] * patches)[..., None])


def left_black(images: Images, strength: int, rng: np.random.Generator) -> Images:
    """Make the left part black."""
    changed = images.copy()
    changed[:, :, : (10, 14, 18)[strength]] = 0
    return changed


def pink_noise(images: Images, strength: int, rng: np.random.Generator) -> Images:
    """Add noise of long waves more than of short ones."""
    waves = np.fft.fftfreq(SIDE)
    frequency = np.hypot(waves[:, None], waves)
    frequency[0, 0] = 1
    noise = np.fft.fft2(rng.standard_normal((len(images), SIDE, SIDE, 3)), axes=(1, 2))
    noise = np.fft.ifft2(noise / (frequency[..., None] ** 0.7), axes=(1, 2)).real
    return pixels(images + (20, 35, 55)[strength] * noise / noise.std())


def uniform_noise(images: Images, strength: int, rng: np.random.Generator) -> Images:
    """Add noise of equal chance within limits."""
    most = (25, 50, 80)[strength]
    return pixels(images + rng.uniform(-most, most, images.shape))


def gray_noise(images: Images, strength: int, rng: np.random.Generator) -> Images:
    """Add normal noise, the same in all colors."""
    noise = rng.standard_normal(images.shape[:3])[..., None]
    return pixels(images + (12, 22, 38)[strength] * noise)


def scan_lines(images: Images, strength: int, rng: np.random.Generator) -> Images:
    """Darken every second row."""
    light = np.where(DOWN % 2 == 0, 1 - (0.5, 0.75, 1.0)[strength], 1.0)
    return pixels(images * light[..., None])


def coarse_pixels(images: Images, strength: int, rng: np.random.Generator) -> Images:
    """Give squares the color of one pixel."""
    size = (2, 3, 4)[strength]
    kept = np.arange(SIDE) // size * size
    return images[:, kept][:, :, kept]


def haze(images: Images, strength: int, rng: np.random.Generator) -> Images:
    """Lay a light gray over the image."""
    return blend(images, np.array([200, 200, 210.0]), (0.4, 0.6, 0.75)[strength])


def dark(images: Images, strength: int, rng: np.random.Generator) -> Images:
    """Take light away."""
    return pixels(images * (0.4, 0.2, 0.1)[strength])


def pale(images: Images, strength: int, rng: np.random.Generator) -> Images:
    """Lift dark values, by a power."""
    return pixels(255 * (images / 255.0) ** (0.5, 0.35, 0.2)[strength])


def ghost(images: Images, strength: int, rng: np.random.Generator) -> Images:
    """Lay the image over itself, moved aside."""
    return pixels(0.5 * images + 0.5 * np.roll(images, (3, 5, 8)[strength], 2))


CHANGES: dict[str, Change] = {
    "stripes": stripes,
    "holes": holes,
    "checker": checkerboard,
    "channelswap": swapped_colors,
    "posterize": few_levels,
    "rowjitter": jittered_rows,
    "wave": waves,
    "mixother": another_image,
    "dots": colored_dots,
    "whitedots": white_dots,
    "vignette": vignette,
    "light": side_light,
    "gray": gray,
    "invert": solarized,
    "blockshuffle": shuffled_blocks,
    "sharpen": sharpened,
    "median": median,
    "tint": tinted,
    "dither": dithered,
    "shading": shaded,
    "half": left_black,
    "pinknoise": pink_noise,
    "uniformnoise": uniform_noise,
    "graynoise": gray_noise,
    "scan": scan_lines,
    "downnear": coarse_pixels,
    "haze": haze,
    "dark": dark,
    "gammaup": pale,
    "ghost": ghost,
}
"""By the names that files of logits have for them. The order gives each its seeds."""
STRENGTHS = (0, 1, 2)
