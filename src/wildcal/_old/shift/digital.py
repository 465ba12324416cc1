"""Digital changes: contrast, saturation, pixels and compression."""

from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray

from wildcal._old.shift.levels import Images, merged, split, truncate, turned
from wildcal._old.shift.parameters import Strength
from wildcal._old.shift.streams import Streams


def contrast(images: Images, strength: Strength, streams: Streams) -> Images:
    """Return (x - μ) c + μ, μ the mean of each channel of the image; strength = (c,)."""
    c = strength[0]
    means = np.array([cv2.mean(image)[:3] for image in images], np.float32)
    # An output depends on its input level and its channel alone: one table for each image.
    tables = np.arange(256, dtype=np.float32)[:, None] * np.float32(c)
    levels = truncate(tables + np.float32(1 - c) * means[:, None])
    out = np.empty_like(images)
    for image, table, row in zip(images, levels, out, strict=True):
        cv2.LUT(image, table[None], dst=row)
    return out


def saturate(images: Images, strength: Strength, streams: Streams) -> Images:
    """Map the saturation S of HSV to a · S + b, clipped to [0, 1]; strength = (a, b).

    With value V and hue kept, x becomes V - (V - x) · S' / S. Gray has S = 0 and the hue of red,
    so it becomes (V, V (1 - S'), V (1 - S')).
    """
    a, b = strength
    planes = split(images)
    high = np.maximum(np.maximum(planes[0], planes[1]), planes[2])
    low = np.minimum(np.minimum(planes[0], planes[1]), planes[2])
    v, m = np.arange(256.0)[:, None], np.arange(256.0)
    spread = np.maximum(v - m, 1)
    factor = np.clip(a * spread / np.maximum(v, 1) + b, 0, 1) * v / spread
    minus = -factor.astype(np.float32).take(high.astype(np.uint16) << 8 | low, mode="clip")
    changed = []
    for channel, plane in enumerate(planes):
        out = minus * (high - plane)
        out += high
        if b > 0 and channel > 0:
            np.subtract(out, np.float32(b) * high, out=out, where=high == low)
        changed.append(truncate(out))
    return merged(changed)


def pixelate(images: Images, strength: Strength, streams: Streams) -> Images:
    """Shrink to int(c · size) and enlarge again, both with Pillow's box; strength = (c,).

    Pillow resizes along rows first, then along columns, and rounds in between. Its box takes
    the means of runs of pixels; enlarging, it takes the pixel below the middle of each new one.
    Whole rows are fast to add and to copy, so along rows we work on the transposed stack of all
    images.
    """
    c = strength[0]
    n, height, width, _ = images.shape
    down, right = int(height * c), int(width * c)
    columns = turned(images.reshape(n * height, width, 3))
    columns = _means(columns.reshape(1, width, -1), right)
    rows = turned(columns.reshape(right, n * height, 3))
    rows = _means(rows.reshape(n, height, -1), down)
    columns = turned(rows.reshape(n * down, right, 3))
    rows = turned(columns.take(_middles(right, width), axis=0))
    return rows.reshape(n, down, width, 3).take(_middles(down, height), axis=1)


def _means(rows: Images, count: int) -> Images:
    """Return the rounded means of `count` runs of rows, shape (N, rows, values)."""
    wide = rows.astype(np.uint16)
    out = np.empty((len(rows), count, rows.shape[2]), np.uint8)
    for length, at, start in _runs(rows.shape[1], count):
        total = wide.take(start, axis=1)
        for step in range(1, length):
            total += wide.take(start + step, axis=1)
        total += length // 2  # a half goes up, as Pillow has it for runs of at most 5
        total //= length
        out[:, at] = total
    return out


@lru_cache(maxsize=16)
def _runs(size: int, count: int) -> list[tuple[int, NDArray[np.intp], NDArray[np.intp]]]:
    """Return for each length which runs have it, and where they start.

    A run holds the pixels whose middles lie in (i, i + 1] · size / count, in Pillow's own steps,
    because a middle may lie on an edge up to rounding errors.
    """
    scale = size / count
    center = (np.arange(count) + 0.5) * scale
    start = (center - scale * 0.5 + 0.5).astype(np.intp)
    stop = np.minimum((center + scale * 0.5 + 0.5).astype(np.intp), size)
    start += (start - center + 0.5) * (1 / scale) <= -0.5
    stop -= (stop - center - 0.5) * (1 / scale) > 0.5
    runs = []
    for length in np.unique(stop - start).tolist():
        at = np.flatnonzero(stop - start == length)
        runs.append((length, at, start[at]))
    return runs


def _middles(count: int, size: int) -> NDArray[np.intp]:
    """Return below the middle of which of `count` pixels each of `size` pixels lies."""
    return ((np.arange(size) + 0.5) * (count / size)).astype(np.intp)


def jpeg_compression(images: Images, strength: Strength, streams: Streams) -> Images:
    """Compress as JPEG of quality q with halved color resolution; strength = (q,).

    OpenCV's encoder gives the bytes of Pillow's (a test compares them) in a fifth of the time.
    """
    options = [
        cv2.IMWRITE_JPEG_QUALITY,
        int(strength[0]),
        cv2.IMWRITE_JPEG_SAMPLING_FACTOR,
        cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420,
    ]
    out = np.empty_like(images)
    for image, row in zip(images, out, strict=True):
        data = cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), options)[1]
        decoded = np.asarray(cv2.imdecode(data, cv2.IMREAD_COLOR))
        cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB, dst=row)
    return out
