"""Spatter: drops of water or splashes of mud on the lens."""

import cv2
import numpy as np

from wildcal._old.shift.blur import smooth
from wildcal._old.shift.levels import Floats, Images, thrice, truncate
from wildcal._old.shift.parameters import Strength
from wildcal._old.shift.streams import Streams

_WATER = np.array([175, 238, 238], np.float32)
_MUD = np.array([63, 42, 20], np.float32)
_LEAST = float(np.nextafter(np.float32(0.8), np.float32(0)))
"""Mud below 0.8 is none: OpenCV keeps what is above this number."""

_EMBOSS = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])


def spatter(images: Images, strength: Strength, streams: Streams) -> Images:
    """Cover parts of the image; strength = (mean, deviation, σ, threshold, intensity, mud?).

    A smoothed normal layer above the threshold says where. Water adds its color, weighted by an
    embossed height; mud hides what is behind it.
    """
    mean, deviation, sigma, threshold, intensity, mud = strength
    layers = streams.normal(images.shape[1:3])
    layers *= np.float32(deviation)
    layers += np.float32(mean)
    for layer in layers:  # which becomes the weight of water or mud
        liquid = smooth(layer, sigma)
        if mud:
            cover = smooth((liquid > threshold).astype(np.float32), intensity)
            cv2.threshold(cover, _LEAST, 0, cv2.THRESH_TOZERO, dst=layer)
        else:
            liquid *= liquid >= threshold
            np.multiply(_height(liquid), np.float32(intensity), out=layer)
    # A row of one color, because NumPy would broadcast it in steps of three numbers.
    n, height, width, _ = images.shape
    color = np.tile(_MUD if mud else _WATER, width)
    rows = images.reshape(n, height, -1)
    weight: Floats = thrice(layers).reshape(rows.shape)
    weight *= color - rows if mud else color
    weight += rows
    return truncate(weight).reshape(images.shape)


def _height(liquid: Floats) -> Floats:
    """Return the shine of the drops, 0 to 1: their depth, embossed by light from one side."""
    drops = np.clip(255 * liquid, 0, 255).astype(np.uint8)
    away = cv2.distanceTransform(255 - cv2.Canny(drops, 50, 150), cv2.DIST_L2, 5)
    away = cv2.blur(np.minimum(away, 20), (3, 3)).astype(np.uint8)
    lit = cv2.filter2D(cv2.equalizeHist(away), cv2.CV_8U, _EMBOSS)
    shine: Floats = cv2.blur(lit, (3, 3)).astype(np.float32)
    shine *= drops
    return shine / max(float(shine.max()), 1e-6)  # no drop at all: the image stays
