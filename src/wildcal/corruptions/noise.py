"""Noise of single pixels: Gaussian, shot, impulse and speckle."""

from functools import lru_cache
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from wildcal.corruptions.parameters import Strength
from wildcal.corruptions.pixels import Images, to_uint8
from wildcal.corruptions.random import RandomStreams


def gaussian_noise(images: Images, strength: Strength, streams: RandomStreams) -> Images:
    """Return x + N(0, σ); strength = (σ,) on the scale of [0, 1]."""
    return to_uint8(images + 255 * strength[0] * streams.normal(images.shape[1:]))


def speckle_noise(images: Images, strength: Strength, streams: RandomStreams) -> Images:
    """Return x + x · N(0, σ); strength = (σ,)."""
    return to_uint8(images * (1 + strength[0] * streams.normal(images.shape[1:])))


def impulse_noise(images: Images, strength: Strength, streams: RandomStreams) -> Images:
    """Turn each value of each channel black or white with probability p; strength = (p,)."""
    u = streams.words(images.shape[1:])
    # The random bits decide whether, the lowest of them which.
    is_hit = u < np.uint32(strength[0] * 2**32)
    black_or_white = u.astype(np.uint8)
    black_or_white &= 1
    black_or_white *= 255
    return _where(is_hit, black_or_white, images)


def shot_noise(images: Images, strength: Strength, streams: RandomStreams) -> Images:
    """Return Poisson(c · x) / c; strength = (c,), the photons of a white pixel.

    An output level depends on its input level alone: 256 distributions over 256 levels. They are
    sampled by Walker's alias method, with one table look-up per value, exact to 2^-32.
    """
    u = streams.words(images.shape[1:])
    level = u.astype(np.uint8)  # its lowest byte
    where = images.astype(np.uint16) << 8 | level
    entry = _shot_table(strength[0]).take(where, mode="clip")  # never clips, but is faster
    u |= 255  # now u >= entry compares their upper 24 bits
    return _where(u >= entry, entry.astype(np.uint8), level)


def _where(condition: NDArray[np.bool_], yes: Images, no: Images) -> Images:
    """Return np.where(condition, yes, no), ten times as fast."""
    return np.asarray(cv2.copyTo(yes, condition.view(np.uint8), no.copy()), np.uint8)


@lru_cache(maxsize=10)
def _shot_table(c: float) -> NDArray[np.uint32]:
    """Return for (input level, drawn level) a 24-bit threshold and, below it, the alias."""
    rate = c * np.arange(256)[:, None] / 255
    counts = np.arange(np.ceil(c + 12 * np.sqrt(c) + 30))  # twelve standard deviations and more
    mass = np.exp(xlogy(counts, rate) - rate - gammaln(counts + 1))
    level = (np.minimum(counts / c, 1) * 255).astype(np.uint8)
    proba = np.zeros((256, 256))
    np.add.at(proba.T, level, mass.T)
    return _alias(proba / proba.sum(axis=1, keepdims=True)).ravel()


def _alias(proba: NDArray[np.float64]) -> NDArray[np.uint32]:
    """Return the alias tables of all rows: the smallest entry is filled up from the largest."""
    n = proba.shape[1]
    rows = np.arange(len(proba))
    share: NDArray[Any] = proba * n
    low, high = share.copy(), share.copy()  # with the finished entries out of the way
    threshold = np.ones_like(share)
    alias = np.tile(np.arange(n), (len(proba), 1))
    for _ in range(n - 1):
        poor, rich = low.argmin(axis=1), high.argmax(axis=1)
        have = low[rows, poor]
        threshold[rows, poor], alias[rows, poor] = have, rich
        low[rows, rich] -= 1 - have
        high[rows, rich] = low[rows, rich]
        low[rows, poor], high[rows, poor] = np.inf, -np.inf
    bits: NDArray[Any] = np.clip(np.rint(threshold * 2**24), 0, 2**24 - 1)
    table: NDArray[Any] = bits.astype(np.uint32) << 8 | alias.astype(np.uint32)
    return table
