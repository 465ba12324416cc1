"""A batch is worked on in blocks, each with the streams of its own images."""

from collections.abc import Callable

import numpy as np

from wildcal._old.shift.levels import Images
from wildcal._old.shift.parameters import Strength
from wildcal._old.shift.streams import Streams

Function = Callable[[Images, Strength, Streams], Images]

_BLOCK = 1 << 16
"""Pixels worked on at a time: 64 images of CIFAR, whose floats fit into the cache of a core."""


def in_blocks(batch: Images, function: Function, strength: Strength, streams: Streams) -> Images:
    """Return function(batch, strength, streams), block by block."""
    out = np.empty(batch.shape, np.uint8)
    count = max(1, _BLOCK // (batch.shape[1] * batch.shape[2]))
    for start in range(0, len(batch), count):
        part = slice(start, start + count)
        out[part] = function(np.ascontiguousarray(batch[part]), strength, streams[part])
    return out
