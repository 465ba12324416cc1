"""What every classifier can do, whatever it is made of."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal.vision.batches import Normaliser


class Classifier(ABC):
    """Images in, logits out.

    Attributes
    ----------
    about
        What a suite's manifest says of the network: plain words and numbers.
    normalise
        What is done to the pixels first.
    """

    about: dict[str, Any]
    normalise: Normaliser
    class_names: tuple[str, ...] | None = None
    """The classes it was trained for, where they are known."""
    size: int | None = None
    """The side of the images it takes, where only one will do."""

    @abstractmethod
    def logits(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return float32 logits, shape (n, n_classes), of images (n, H, W, 3)."""
