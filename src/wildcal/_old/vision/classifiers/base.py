"""What every classifier can do, whatever it is made of."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal._old.vision.batches import Normalizer, Pixels, batch_size


class Classifier(ABC):
    """Images in, logits out.

    Attributes
    ----------
    about
        What a suite's manifest says of the network: plain words and numbers.
    normalize
        What is done to the pixels first.
    """

    about: dict[str, Any]
    normalize: Normalizer
    class_names: tuple[str, ...] | None = None
    """The classes it was trained for, where they are known."""
    size: int | None = None
    """The side of the images it takes, where only one will do."""

    def block(self, side: int) -> int:
        """Return how many images of a side the network reads at once."""
        return batch_size(side)

    @abstractmethod
    def logits(self, images: Pixels) -> NDArray[np.float32]:
        """Return float32 logits, shape (n, n_classes), of images (n, H, W, 3).

        Images of float32 are normalized already; uint8 are normalized here.
        """

    def features(
        self, images: Pixels, layers: Sequence[str]
    ) -> tuple[NDArray[np.float32], list[NDArray[np.float32]]]:
        """Return the logits, the same bits as `logits`, and the pooled outputs of some layers.

        Each of these is float32 of shape (n, width); see `wildcal._old.vision.pooling`.
        """
        raise ValueError(f"{type(self).__name__} cannot show what its layers give.")

    def default_layers(self, images: Pixels) -> tuple[str, ...]:
        """Return the layers that are read when nobody names some; `images` are tried for that."""
        raise ValueError(f"{type(self).__name__} cannot show what its layers give.")
