"""One stream of random numbers per image.

The stream of an image depends on (name, severity, seed, index of the image) and on nothing else, so
a subset of a batch, another order or other batches give the same images.
"""

import math
import zlib
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the finalizer of SplitMix64, in which every input bit changes every output bit."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


@lru_cache(maxsize=256)
def _keys(name: str, severity: int, seed: int) -> NDArray[np.uint64]:
    entropy = (seed, zlib.crc32(name.encode()), severity)
    return np.asarray(np.random.SeedSequence(entropy).generate_state(3, np.uint64), np.uint64)


class RandomStreams:
    """The random generators of a batch; iterating yields one per image, in its initial state.

    It is one Generator whose state is replaced for each image, which takes 1 µs where a new
    Generator takes 15. Draw all numbers of an image before advancing to the next.
    """

    def __init__(self, states: NDArray[np.uint64]) -> None:
        self._states = states

    @classmethod
    def of(
        cls, name: str, severity: int, seed: int, indices: NDArray[np.uint64]
    ) -> "RandomStreams":
        """Hash the key and the index of each image to the state of an SFC64 generator."""
        states = np.ones((len(indices), 4), np.uint64)  # the fourth word counts, from 1
        hashed = _mix((indices + np.uint64(1)) * _GOLDEN)[:, None]
        states[:, :3] = _mix(hashed ^ _keys(name, severity, seed))
        return cls(states)

    def __len__(self) -> int:
        return len(self._states)

    def __getitem__(self, part: slice) -> "RandomStreams":
        return RandomStreams(self._states[part])

    def __iter__(self) -> Iterator[np.random.Generator]:
        bits = np.random.SFC64(0)
        generator = np.random.Generator(bits)
        for words in self._states:
            bits.state = {
                "bit_generator": "SFC64",
                "state": {"state": words},
                "has_uint32": 0,
                "uinteger": 0,
            }
            yield generator

    def normal(self, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """Return the first standard normal numbers of every stream."""
        out = np.empty((len(self), *shape), np.float32)
        for row, rng in zip(out, self, strict=True):
            rng.standard_normal(out=row, dtype=np.float32)
        return out

    def words(self, shape: tuple[int, ...]) -> NDArray[np.uint32]:
        """Return the first random 32-bit words of every stream."""
        count = math.prod(shape)
        pairs = np.stack([rng.bit_generator.random_raw((count + 1) // 2) for rng in self])
        return pairs.view(np.uint32)[:, :count].reshape(-1, *shape)
