"""Images to the numbers that networks read, with or without random crops and flips."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.checks import check_choice

CHANNELS: Final = ("rgb", "bgr")

Pixels: TypeAlias = NDArray[np.uint8]
"""Images, shape (n, H, W, 3)."""


def batch_size(side: int) -> int:
    """Return the images per forward pass: 32 of 32 x 32 pixels, 8 of 224 x 224.

    It depends on nothing else, because the last bits of the logits may depend on it. More at once
    are no faster on a CPU: what they give no longer fits its caches.
    """
    return max(1, min(32, 8 * 224**2 // side**2))


def filled(images: Pixels, size: int) -> Pixels:
    """Return the images, the last repeated until their number is a multiple of `size`.

    A network that always sees as many images gives an image the same bits, whatever their number.
    """
    missing = -len(images) % size
    if not missing:
        return images
    return np.concatenate([images, np.repeat(images[-1:], missing, axis=0)])


PAD = 4
"""Black pixels around an image, into which crops may reach."""


@dataclass(frozen=True, slots=True)
class Normalizer:
    """Pixels 0..255 to what the network expects: (scale * x / 255 - mean) / std.

    Parameters
    ----------
    mean, std
        Of red, green and blue, in units of the scale.
    channels
        The order in which the network reads them: "rgb" or "bgr".
    scale
        What white is before the mean is taken off: 1, or 255 for pixels as they are.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    channels: str = "rgb"
    scale: float = 1.0

    def __post_init__(self) -> None:
        check_choice("channels", self.channels, CHANNELS)
        if len(self.mean) != 3 or len(self.std) != 3 or min(self.std) <= 0:
            raise ValueError(
                "mean and std must be three numbers each, std above 0,"
                f" got {self.mean} and {self.std}."
            )
        if not 0 < self.scale < float("inf"):
            raise ValueError(f"scale must be above 0, got {self.scale}.")

    def __call__(self, images: Pixels) -> NDArray[np.float32]:
        """Return float32 of the same shape, (n, H, W, 3)."""
        mean, std = np.array([self.mean, self.std], np.float32) * np.float32(255 / self.scale)
        pixels = images.astype(np.float32)
        pixels -= mean
        pixels /= std
        return pixels if self.channels == "rgb" else np.ascontiguousarray(pixels[..., ::-1])


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
        batch may be short; a single image left over is dropped, since no batch normalization can
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
