"""Snow, frost, fog, brightness and spatter."""

from pathlib import Path

import cv2
import numpy as np

from wildcal.corruptions.blur import smooth, streak, zoomed
from wildcal.corruptions.frost import fitted_textures
from wildcal.corruptions.parameters import Strength
from wildcal.corruptions.pixels import ROUNDING, Floats, Images, as_rgb, split_channels, to_uint8
from wildcal.corruptions.plasma import plasma
from wildcal.corruptions.random import RandomStreams


def snow(images: Images, strength: Strength, streams: RandomStreams) -> Images:
    """Whiten the image and add two layers of falling flakes.

    strength = (mean, deviation, zoom, threshold, radius, σ, mix): a normal layer is zoomed, set to
    0 below the threshold and blurred along a direction from U(-135°, -45°). The image becomes
    mix · x + (1 - mix) · max(x, 1.5 gray + 0.5), plus the layer and the layer transposed by 180°.
    """
    mean, deviation, zoom, threshold, radius, sigma, mix = strength
    n, height, width, _ = images.shape
    layers, angles = np.empty((n, height, width, 1), np.float32), np.empty(n)
    for i, rng in enumerate(streams):
        rng.standard_normal(out=layers[i], dtype=np.float32)
        angles[i] = rng.uniform(-135, -45)
    layers = deviation * layers + mean
    layers = zoomed(layers, zoom) if zoom > 1 else layers
    layers = np.where(layers >= threshold, 255 * layers, 0)
    flakes = np.clip(layers, 0, 255)[..., 0].astype(np.uint8)
    falling = np.stack([streak(f, radius, sigma, a) for f, a in zip(flakes, angles, strict=True)])
    fall: Floats = np.rint(falling)
    # One call for all images, as one tall image.
    white = cv2.cvtColor(images.reshape(n * height, width, 3), cv2.COLOR_RGB2GRAY)
    white = 1.5 * white.reshape(n, height, width).astype(np.float32) + 127.5
    whitened = (1 - mix) * np.maximum(images, as_rgb(white)) + np.float32(mix) * images
    return to_uint8(whitened + as_rgb(fall + fall[:, ::-1, ::-1]))


def frost(
    images: Images, strength: Strength, streams: RandomStreams, folder: Path | None
) -> Images:
    """Return a · x + b · ice; strength = (a, b, scale of the textures).

    The ice is a random part of one of the textures.
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
        # OpenCV rounds; subtracting a half truncates. Levels are multiples of 0.05.
        cv2.addWeighted(image, a, ice, b, ROUNDING - 0.5, dst=row)
    return out


def fog(images: Images, strength: Strength, streams: RandomStreams) -> Images:
    """Return (x + c · plasma) · max / (max + c); strength = (c, decay, size of the plasma).

    max is the brightest value of the image. Images larger than the plasma get a larger one.
    """
    c, decay, size = strength
    n, height, width, _ = images.shape
    side = max(int(size), 1 << (max(height, width) - 1).bit_length())
    uniform = np.empty((n, side * side - 1), np.float32)
    for row, rng in zip(uniform, streams, strict=True):
        rng.random(out=row, dtype=np.float32)
    clouds = plasma(2 * uniform - 1, side, decay)[:, :height, :width]
    top = images.max(axis=(1, 2, 3), keepdims=True).astype(np.float32)
    return to_uint8((images + as_rgb(255 * c * clouds)) * (top / (top + 255 * c)))


def brightness(images: Images, strength: Strength, streams: RandomStreams) -> Images:
    """Add c to the value V of HSV; strength = (c,).

    Hue and saturation stay, so every channel is multiplied by min(V + c, 1) / V; black becomes
    gray. An output depends on (V, x) alone: one table of 256 x 256.
    """
    v = np.arange(256)
    brighter = np.minimum(v + 255 * strength[0], 255)
    table = np.minimum(v, v[:, None]) * (brighter / np.maximum(v, 1))[:, None]
    table[0] = brighter[0]
    red, green, blue = split_channels(images)
    value = np.maximum(np.maximum(red, green), blue).astype(np.uint16)
    where = as_rgb(value << 8)
    where |= images
    return to_uint8(table.astype(np.float32)).take(where, mode="clip")


_WATER = np.array([175, 238, 238], np.float32)
_MUD = np.array([63, 42, 20], np.float32)
_LEAST = float(np.nextafter(np.float32(0.8), np.float32(0)))
"""Mud of a weight below 0.8 is left out: OpenCV keeps the values above this number."""

_EMBOSS = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])


def spatter(images: Images, strength: Strength, streams: RandomStreams) -> Images:
    """Cover parts of the image; strength = (mean, deviation, σ, threshold, intensity, mud?).

    A smoothed normal layer is thresholded. Water adds its color, weighted by an
    embossed height; mud replaces the image.
    """
    mean, deviation, sigma, threshold, intensity, mud = strength
    layers = deviation * streams.normal(images.shape[1:3]) + mean
    for layer in layers:  # which becomes the weight of water or mud
        liquid = smooth(layer, sigma)
        if mud:
            cover = smooth((liquid > threshold).astype(np.float32), intensity)
            cv2.threshold(cover, _LEAST, 0, cv2.THRESH_TOZERO, dst=layer)
        else:
            liquid *= liquid >= threshold
            np.multiply(_height(liquid), np.float32(intensity), out=layer)
    # Tiled along the width: broadcasting three numbers is slow.
    n, height, width, _ = images.shape
    color = np.tile(_MUD if mud else _WATER, width)
    rows = images.reshape(n, height, -1)
    weight: Floats = as_rgb(layers).reshape(rows.shape)
    weight *= color - rows if mud else color
    weight += rows
    return to_uint8(weight).reshape(images.shape)


def _height(liquid: Floats) -> Floats:
    """Return the shine of the drops, 0 to 1: their depth, embossed by light from one side."""
    drops = np.clip(255 * liquid, 0, 255).astype(np.uint8)
    away = cv2.distanceTransform(255 - cv2.Canny(drops, 50, 150), cv2.DIST_L2, 5)
    away = cv2.blur(np.minimum(away, 20), (3, 3)).astype(np.uint8)
    lit = cv2.filter2D(cv2.equalizeHist(away), cv2.CV_8U, _EMBOSS)
    shine: Floats = cv2.blur(lit, (3, 3)).astype(np.float32)
    shine *= drops
    return shine / max(float(shine.max()), 1e-6)  # no drop at all: the image stays
