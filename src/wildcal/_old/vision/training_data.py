"""CIFAR for training: which images are learned from, which are watched, how they are normalized."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from wildcal._old.vision.batches import Normalizer
from wildcal._old.vision.datasets import ImageSet, cifar10, cifar100

CIFAR: Final = {"cifar10": cifar10, "cifar100": cifar100}
NORMALIZERS: Final = {
    "cifar10": Normalizer((0.4915, 0.4821, 0.4464), (0.2472, 0.2437, 0.2617)),
    "cifar100": Normalizer((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
    "imagenet": Normalizer((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}
WATCHED: Final = 1000
"""Images kept from training whose accuracy is shown after every epoch."""


@dataclass(frozen=True, slots=True)
class TrainingData:
    """Images and labels to learn from, and some to watch that are never learned from."""

    name: str
    class_names: tuple[str, ...]
    normalize: Normalizer
    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    watched_images: NDArray[np.uint8]
    watched_labels: NDArray[np.int64]


def rows_to_learn(images: ImageSet) -> int:
    """Return how many images of a training set are learned from: 45,000 of CIFAR's 50,000.

    The rest is kept for calibration, which would be worthless on images that the network knows.
    """
    return len(images) * 9 // 10


def read_training_data(name: str, folder: str | Path) -> TrainingData:
    """Return the training images of CIFAR-10 or CIFAR-100 without those kept for calibration."""
    images = CIFAR[name](folder, "train")
    n = rows_to_learn(images)
    watched = slice(n, min(n + WATCHED, len(images)))
    return TrainingData(
        name=name,
        class_names=images.class_names,
        normalize=NORMALIZERS[name],
        images=images.read(slice(0, n)),
        labels=images.labels[:n],
        watched_images=images.read(watched),
        watched_labels=images.labels[watched],
    )
