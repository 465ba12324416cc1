"""Gaussian noise on what a network reads, the same draws for an image at every strength."""

from dataclasses import dataclass, replace
from typing import Final, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wildcal.core.checks import check_choice
from wildcal.shift.checks import check_indices, check_seed
from wildcal.shift.streams import Streams
from wildcal.vision.batches import Normalizer

SPACES: Final = ("input", "pixels")
PERTURBATION: Final = "perturbation"


@final
@dataclass(frozen=True, slots=True)
class Noise:
    """Images to normalized pixels with noise: the `change` of a cell.

    The standard normal numbers of an image depend on (seed, its own number) alone. A subset of the
    images gets the same ones, and so does every sigma: accuracy is then nearly a smooth function of
    sigma, and a search can halve its way to a wanted value.

    Parameters
    ----------
    space
        "input": sigma is in units of the normalized input, and nothing is clipped. "pixels": sigma
        is in units of pixels in [0, 1], and what leaves that range is clipped to it.
    sigma, normalize
        Known only when there is a network; `at` fills them in.
    """

    space: str
    sigma: float | None = None
    normalize: Normalizer | None = None

    def __post_init__(self) -> None:
        check_choice("space", self.space, SPACES)

    def at(self, sigma: float, normalize: Normalizer) -> Self:
        """Return the noise of a strength, for a network that reads pixels in this form."""
        if not (np.isfinite(sigma) and sigma >= 0):
            raise ValueError(f"sigma must be finite and not negative, got {sigma}.")
        return replace(self, sigma=float(sigma), normalize=normalize)

    def __call__(
        self,
        images: NDArray[np.uint8],
        name: str = PERTURBATION,
        severity: int | None = None,
        *,
        seed: int = 0,
        indices: ArrayLike | None = None,
    ) -> NDArray[np.float32]:
        """Return the noisy input of the network; `name` and `severity` are those of the cell."""
        if self.sigma is None or self.normalize is None:
            raise ValueError("the noise has no strength yet; call at(sigma, normalize) first.")
        numbers = check_indices(indices, len(images))
        # No severity in the stream's name: these are the same numbers at every strength.
        noise = Streams.of(PERTURBATION, 0, check_seed(seed), numbers).normal(images.shape[1:])
        clean = self.normalize(images)
        if self.space == "input":
            noise *= np.float32(self.sigma)
            noise += clean
            return noise
        # Black and white as the network reads them. They are 1 / std apart, which is the unit of
        # pixels in [0, 1], so pixels need not be taken back to that range.
        black, white = self.normalize(np.array([[0], [255]], np.uint8).repeat(3, axis=1))
        noise *= np.float32(self.sigma) * (white - black)
        noise += clean
        return np.clip(noise, black, white, out=noise)
