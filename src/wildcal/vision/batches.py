"""Images to the numbers that networks read, with or without random crops and flips."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Pixels: TypeAlias = NDArray[np.uint8] | NDArray[np.float32]
"""Images, shape (n, H, W, 3): uint8 as they were taken, or float32 and normalised already."""


def batch_size(side: int) -> int:
    """Return the images per forward pass: 500 of 32 x 32 pixels, fewer of larger ones.

    It depends on nothing else, because the last bits of the logits may depend on it.
    """
    return max(1, min(500, 2_000_000 // side**2))


PAD = 4
"""Black pixels around an image, into which crops may reach."""


@dataclass(frozen=True, slots=True)
class Normaliser:
    """Pixels 0..255 to what the network expects: ((x / 255) - mean) / std."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, images: Pixels) -> NDArray[np.float32]:
        """Return float32 of the same shape, (n, H, W, 3); what is float32 already stays as it is.

        So noise can be added to what the network reads, where uint8 would round and clip it.
        """
        if images.dtype == np.float32:
            return np.asarray(images, np.float32)
        mean, std = np.array([self.mean, self.std], np.float32) * np.float32(255)
        pixels = images.astype(np.float32)
        pixels -= mean
        pixels /= std
        return pixels


@dataclass(frozen=True, slots=True)
class Augmented:
    """Training images with room for random crops; made once, read every epoch."""

    padded: NDArray[np.uint8]
    labels: NDArray[np.int64]

    @classmethod
    def of(cls, images: NDArray[np.uint8], labels: NDArray[np.int64]) -> "Augmented":
        """Return the images with their black border."""
        room = ((0, 0), (PAD, PAD), (PAD, PAD), (0, 0))
        return cls(np.pad(images, room), np.asarray(labels, np.int64))

    def batches(
        self, rng: np.random.Generator, *, size: int, crop: int
    ) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.int64]]]:
        """Yield every image once, in random order, cropped and flipped at random.

        Crops as large as the image reach into the border, smaller ones stay inside it. The last
        batch may be short; a single image left over is dropped, since no batch normalisation can
        be taken of it.
        """
        n, side = self.padded.shape[:2]
        low = 0 if crop == side - 2 * PAD else PAD
        high = side - low - crop
        order = rng.permutation(n)
        places = rng.integers(low, high + 1, size=(n, 2))
        flips: NDArray[np.bool_] = np.less(rng.random(n), 0.5)
        windows = np.lib.stride_tricks.sliding_window_view(self.padded, (crop, crop), axis=(1, 2))
        for start in range(0, n, size):
            part = slice(start, start + size)
            rows = order[part]
            if len(rows) < 2:
                return
            cut = windows[rows, places[part, 0], places[part, 1]].transpose(0, 2, 3, 1)
            cut[flips[part]] = cut[flips[part], :, ::-1]
            yield np.ascontiguousarray(cut), self.labels[rows]
