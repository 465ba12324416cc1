"""Digital changes: contrast, saturation, pixels and compression."""

import cv2
import numpy as np
from PIL import Image

from wildcal.shift.levels import Images, thrice, truncate
from wildcal.shift.parameters import Strength
from wildcal.shift.streams import Streams


def contrast(images: Images, strength: Strength, streams: Streams) -> Images:
    """Return (x - μ) c + μ, μ the mean of each channel of the image; strength = (c,)."""
    c = strength[0]
    means = np.array([cv2.mean(image)[:3] for image in images], np.float32)
    out = images.astype(np.float32)
    out *= np.float32(c)
    out += np.float32(1 - c) * means[:, None, None]
    return truncate(out)


def saturate(images: Images, strength: Strength, streams: Streams) -> Images:
    """Map the saturation S of HSV to a · S + b, clipped to [0, 1]; strength = (a, b).

    With value V and hue kept, x becomes V - (V - x) · S' / S. Grey has S = 0 and the hue of red,
    so it becomes (V, V (1 - S'), V (1 - S')).
    """
    a, b = strength
    red, green, blue = images[..., 0], images[..., 1], images[..., 2]
    high = np.maximum(np.maximum(red, green), blue)
    low = np.minimum(np.minimum(red, green), blue)
    v, m = np.arange(256.0)[:, None], np.arange(256.0)
    spread = np.maximum(v - m, 1)
    factor = np.clip(a * spread / np.maximum(v, 1) + b, 0, 1) * v / spread
    pair = high.astype(np.intp) << 8 | low
    top = thrice(high)
    out = (top - images).astype(np.float32)
    out *= thrice(-factor.astype(np.float32).take(pair))
    out += top
    if b > 0:
        fall = np.where(high == low, np.float32(b) * high, np.float32(0))
        out[..., 1] -= fall
        out[..., 2] -= fall
    return truncate(out)


def pixelate(images: Images, strength: Strength, streams: Streams) -> Images:
    """Shrink to int(c · size) and enlarge again, both with Pillow's box; strength = (c,).

    Pillow resizes along rows first, then along columns, and rounds in between. Images above each
    other are resized along rows as one, images beside each other along columns: four calls.
    """
    c = strength[0]
    height, width = images.shape[1:3]
    small = _along_columns(_along_rows(images, int(width * c)), int(height * c))
    return _along_columns(_along_rows(small, width), height)


def _along_rows(images: Images, width: int) -> Images:
    n, height, old, _ = images.shape
    stack = Image.fromarray(np.ascontiguousarray(images).reshape(n * height, old, 3))
    done = stack.resize((width, n * height), Image.Resampling.BOX)
    return np.asarray(done).reshape(n, height, width, 3)


def _along_columns(images: Images, height: int) -> Images:
    n, old, width, _ = images.shape
    row = Image.fromarray(images.swapaxes(0, 1).reshape(old, n * width, 3))
    done = row.resize((n * width, height), Image.Resampling.BOX)
    return np.asarray(done).reshape(height, n, width, 3).swapaxes(0, 1)


def jpeg_compression(images: Images, strength: Strength, streams: Streams) -> Images:
    """Compress as JPEG of quality q with halved colour resolution; strength = (q,).

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
        data = np.asarray(cv2.imencode(".jpg", image[..., ::-1], options)[1])
        row[:] = np.asarray(cv2.imdecode(data, cv2.IMREAD_COLOR))[..., ::-1]
    return out
