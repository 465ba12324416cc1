"""Elastic transform: a jittered affine map, then small smooth displacements."""

import cv2
import numpy as np

from wildcal.shift.blur import smooth
from wildcal.shift.levels import Images, truncate
from wildcal.shift.parameters import Strength
from wildcal.shift.streams import Streams


def elastic_transform(images: Images, strength: Strength, streams: Streams) -> Images:
    """Move three points by U(±t), then every pixel by α · Gaussian_σ(U(-1, 1)) in x and in y.

    strength = (α, σ, t), all in pixels. The three points are corners of a square with sides of two
    thirds of the image around its centre. OpenCV interpolates between pixels on a grid of 1/32.
    """
    alpha, sigma, jitter = strength
    height, width = images.shape[1:3]
    centre, side = np.array([width // 2, height // 2]), min(height, width) // 3
    corners = (centre + side * np.array([[1, 1], [1, -1], [-1, -1]])).astype(np.float32)
    y, x = np.mgrid[:height, :width]
    grid = np.stack([x, y], axis=-1).astype(np.float32)
    out = np.empty(images.shape, np.float32)
    for image, row, rng in zip(images.astype(np.float32), out, streams, strict=True):
        moved = corners + rng.uniform(-jitter, jitter, corners.shape).astype(np.float32)
        affine = cv2.getAffineTransform(corners, moved)
        warped = cv2.warpAffine(image, affine, (width, height), borderMode=cv2.BORDER_REFLECT_101)
        if alpha == 0:
            row[:] = warped
            continue
        noise = rng.random((height, width, 2), dtype=np.float32)
        noise *= 2
        noise -= 1
        move = smooth(noise, sigma, reach=3.0, border=cv2.BORDER_REFLECT)
        move *= np.float32(alpha)
        move += grid
        to_x, to_y = cv2.split(move)
        cv2.remap(warped, to_x, to_y, cv2.INTER_LINEAR, dst=row, borderMode=cv2.BORDER_REFLECT)
    return truncate(out)
