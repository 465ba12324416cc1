"""The images a network learned from, which neighbors are searched among; never those to tune on."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.checks import check_count
from wildcal._old.vision.batches import batch_size
from wildcal._old.vision.datasets import ArrayImages, ImageSet, image_folder, make_split
from wildcal._old.vision.preprocess import Preprocess
from wildcal._old.vision.training_data import CIFAR, rows_to_learn

# The published share of ImageNet's training images: 1 %.
_IMAGENET_SHARE = 100
# Data sets have a few images twice. More than this share of them is a mistake.
_MOST_SHARED = 0.01
# Of pictures in files, which take long to read, as many tell whether more are shared than that. Few
# that are found in so small a part may be chance.
_LOOKED_AT = 2000
_A_FEW = 10


@dataclass(frozen=True, slots=True, eq=False)
class TrainingImages:
    """Some rows of a data set.

    `others` are those they were drawn from, without them; `duplicates` counts images that were left
    out because they are for tuning too.
    """

    images: ImageSet
    rows: NDArray[np.int64]
    others: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    duplicates: int = 0
    sha256: str = ""
    """Of the pixels of all rows."""


def training_images(
    dataset: str,
    folder: Path,
    look: Preprocess,
    *,
    train: Path | None = None,
    rows: int | None = None,
    seed: int = 0,
) -> TrainingImages:
    """Return the images that a network for a data set learned from.

    Parameters
    ----------
    dataset
        cifar10 and cifar100: the first nine tenths of the training images. Others: the class
        folders in `train` inside `folder`.
    look
        How pictures are cut out.
    train
        Another folder of class folders.
    rows
        How many of them, drawn at random; by default all, of imagenet 1 %.
    """
    if train is None and dataset in CIFAR:
        images = CIFAR[dataset](folder, "train")
        n = rows_to_learn(images)
    else:
        place = folder / "train" if train is None else train
        if not place.is_dir():
            raise FileNotFoundError(
                f"{place} was not found; give the folder of the images that the network learned"
                " from with train=, one folder for each class inside."
            )
        # Cut out as the images to tune and to test on are.
        images = image_folder(place, **look.pictures)
        n = len(images)
    if rows is None:
        rows = max(1, n // _IMAGENET_SHARE) if dataset == "imagenet" else n
    if check_count("train_rows", rows) > n:
        raise ValueError(f"train_rows must be at most {n:,}, the images there are, got {rows:,}.")
    chosen = make_split(n, {"train": rows}, seed).rows("train")
    return TrainingImages(images, chosen, np.setdiff1d(np.arange(n), chosen))


def without_shared(
    training: TrainingImages, tuning: ImageSet, tuning_rows: NDArray[np.int64]
) -> TrainingImages:
    """Return the training images without those that are for tuning too, pixel by pixel.

    Training images that were not drawn are looked at as well, because a small sample shows little
    of what is shared: all of an array, some of pictures in files.

    Raises
    ------
    ValueError
        If more than 1 % of the tuning images are among the training images. Their distances would
        be those of images the network knows, and the calibration would be too sure of itself.
    """
    known = {_digest(image) for image in _each(tuning, tuning_rows)}
    whole = hashlib.sha256()
    shared: set[bytes] = set()
    kept = []
    for row, image in zip(training.rows, _each(training.images, training.rows), strict=True):
        digest = _digest(image)
        if digest in known:
            shared.add(digest)
            continue
        kept.append(row)
        whole.update(digest)
    others = _some_of(training)
    if len(others):
        shared |= known & {_digest(image) for image in _each(training.images, others)}
    looked, total = len(training.rows) + len(others), len(training.rows) + len(training.others)
    estimate = len(shared) * total / looked if len(shared) > _A_FEW else len(shared)
    if estimate > _MOST_SHARED * len(known):
        part = f"; {looked:,} of {total:,} were looked at" if looked < total else ""
        raise ValueError(
            f"{len(shared):,} of {len(known):,} images to tune on are among the training images"
            f" ({training.images.name}{part}). Distances to images that the network knows say"
            " nothing; give the images it learned from with train=, or others to tune on."
        )
    return replace(
        training,
        rows=np.array(kept, np.int64),
        duplicates=len(training.rows) - len(kept),
        sha256=whole.hexdigest(),
    )


def _some_of(training: TrainingImages) -> NDArray[np.int64]:
    """Return the rows besides those drawn that are looked at."""
    others = training.others
    if isinstance(training.images, ArrayImages):
        return others
    count = min(len(others), max(0, _LOOKED_AT - len(training.rows)))
    return others[np.linspace(0, len(others) - 1, count).astype(np.int64)]


def _each(images: ImageSet, rows: NDArray[np.int64]) -> Iterable[NDArray[np.uint8]]:
    first = images.read(rows[:1])
    step = batch_size(first.shape[1])
    for start in range(0, len(rows), step):
        yield from images.read(rows[start : start + step])


def _digest(image: NDArray[np.uint8]) -> bytes:
    return hashlib.blake2b(image.tobytes(), digest_size=16).digest()
