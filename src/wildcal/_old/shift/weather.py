"""Weather: snow, frost, fog and bright light."""

from pathlib import Path

import cv2
import numpy as np

from wildcal._old.shift.frost import fitted_textures
from wildcal._old.shift.levels import NUDGE, Floats, Images, split, thrice, truncate
from wildcal._old.shift.motion import streak
from wildcal._old.shift.parameters import Strength
from wildcal._old.shift.plasma import plasma
from wildcal._old.shift.streams import Streams
from wildcal._old.shift.zoom import zoomed


def snow(images: Images, strength: Strength, streams: Streams) -> Images:
    """Whiten the image and add two layers of falling flakes.

    strength = (mean, deviation, zoom, threshold, radius, σ, mix): a normal layer is zoomed, set to
    0 below the threshold and blurred along a direction from U(-135°, -45°). The image becomes
    mix · x + (1 - mix) · max(x, 1.5 gray + 0.5), plus the layer and the layer turned by 180°.
    """
    mean, deviation, zoom, threshold, radius, sigma, mix = strength
    n, height, width, _ = images.shape
    layers, angles = np.empty((n, height, width, 1), np.float32), np.empty(n)
    for i, rng in enumerate(streams):
        rng.standard_normal(out=layers[i], dtype=np.float32)
        angles[i] = rng.uniform(-135, -45)
    layers *= np.float32(deviation)
    layers += np.float32(mean)
    layers = zoomed(layers, zoom) if zoom > 1 else layers
    layers *= layers >= threshold
    layers *= 255
    flakes = np.clip(layers, 0, 255)[..., 0].astype(np.uint8)
    falling = np.stack([streak(f, radius, sigma, a) for f, a in zip(flakes, angles, strict=True)])
    fall: Floats = np.rint(falling)
    # One tall image is turned gray in one call; the pixels do not know.
    white = cv2.cvtColor(images.reshape(n * height, width, 3), cv2.COLOR_RGB2GRAY)
    white = 1.5 * white.reshape(n, height, width).astype(np.float32) + 127.5
    out: Floats = np.maximum(images, thrice(white), dtype=np.float32)
    out *= np.float32(1 - mix)
    out += np.float32(mix) * images
    out += thrice(fall + fall[:, ::-1, ::-1])
    return truncate(out)


def frost(images: Images, strength: Strength, streams: Streams, folder: Path | None) -> Images:
    """Return a · x + b · ice; strength = (a, b, scale of the textures).

    The ice is a random part of one of the textures, our own or those of the folder.
    """
    a, b, scale = strength
    height, width = images.shape[1:3]
    textures = fitted_textures(folder, scale, height, width)
    out = np.empty_like(images)
    for image, row, rng in zip(images, out, streams, strict=True):
        texture = textures[rng.integers(len(textures))]
        y = rng.integers(texture.shape[0] - height + 1)
        x = rng.integers(texture.shape[1] - width + 1)
        ice = texture[y : y + height, x : x + width]
        # Rounded by OpenCV; less a half, that is cut. Levels are multiples of 0.05, never between.
        cv2.addWeighted(image, a, ice, b, NUDGE - 0.5, dst=row)
    return out


def fog(images: Images, strength: Strength, streams: Streams) -> Images:
    """Return (x + c · plasma) · max / (max + c); strength = (c, decay, size of the plasma).

    max is the brightest value of the image. Images larger than the plasma get a larger one.
    """
    c, decay, size = strength
    n, height, width, _ = images.shape
    side = max(int(size), 1 << (max(height, width) - 1).bit_length())
    uniform = np.empty((n, side * side - 1), np.float32)
    for row, rng in zip(uniform, streams, strict=True):
        rng.random(out=row, dtype=np.float32)
    uniform *= 2
    uniform -= 1
    clouds = plasma(uniform, side, decay)[:, :height, :width]
    out: Floats = thrice(np.float32(255 * c) * clouds)
    out += images
    top = images.reshape(n, -1).max(axis=1).astype(np.float32)
    out *= (top / (top + np.float32(255 * c)))[:, None, None, None]
    return truncate(out)


def brightness(images: Images, strength: Strength, streams: Streams) -> Images:
    """Add c to the value V of HSV; strength = (c,).

    Hue and saturation stay, so every channel is multiplied by min(V + c, 1) / V; black becomes
    gray. An output depends on (V, x) alone: one table of 256 x 256.
    """
    v = np.arange(256)
    brighter = np.minimum(v + 255 * strength[0], 255)
    table = np.minimum(v, v[:, None]) * (brighter / np.maximum(v, 1))[:, None]
    table[0] = brighter[0]
    red, green, blue = split(images)
    value = np.maximum(np.maximum(red, green), blue).astype(np.uint16)
    where = thrice(value << 8)
    where |= images
    return truncate(table.astype(np.float32)).take(where, mode="clip")
