"""The features of the training images, computed once; an interrupted run keeps what it has.

They lie in a hidden folder inside the suite until the suite is finished: a description of what they
are, and one file for some thousand images each. A suite is opened and resumed with or without it.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.errors import FileFormatError
from wildcal._old.io.files import replacing
from wildcal._old.io.suite.arrays import npy_header
from wildcal._old.io.suite.files import FolderFiles
from wildcal._old.vision.ahead import ahead
from wildcal._old.vision.batches import batch_size
from wildcal._old.vision.features import FeatureReader
from wildcal._old.vision.training_images import TrainingImages

CACHE: Final = ".training-features"
_ABOUT = "about.json"
_BATCHES = 160


class FeatureCache:
    """The hidden folder; what is in it counts only if it has the same description."""

    def __init__(self, suite: Path, about: dict[str, Any]) -> None:
        self.folder = suite / CACHE
        text = json.dumps(about, sort_keys=True, indent=2)
        path = self.folder / _ABOUT
        if not path.is_file() or path.read_text("utf-8") != text:
            remove_cache(suite)
            self.folder.mkdir()
            with replacing(path) as temporary:
                temporary.write_text(text, "utf-8")

    def load(self, name: str, shape: tuple[int, int]) -> NDArray[np.float32] | None:
        """Return a block, or None if it is not there or not whole."""
        try:
            return np.array(FolderFiles(self.folder).array(name, ("<f4",), shape), np.float32)
        except FileFormatError:
            return None

    def save(self, name: str, block: NDArray[np.float32]) -> None:
        """Write a block."""
        with replacing(self.folder / name) as temporary, temporary.open("wb") as file:
            file.write(npy_header(block))
            file.write(block.data.cast("B"))


def remove_cache(suite: Path) -> None:
    """Remove the hidden folder from a suite, if it is there."""
    folder = suite / CACHE
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder)


def training_features(
    reader: FeatureReader,
    training: TrainingImages,
    cache: FeatureCache,
    *,
    size: int,
    on_rows: Callable[[str, int], None],
) -> list[NDArray[np.float32]]:
    """Return the features of all training images, one array for each layer.

    `on_rows` is told how many are done.
    """
    rows, width = training.rows, sum(reader.widths)
    features = [np.empty((len(rows), w), np.float32) for w in reader.widths]
    borders = np.cumsum(reader.widths)[:-1]
    step = batch_size(size)
    for start in range(0, len(rows), step * _BATCHES):
        part = slice(start, min(start + step * _BATCHES, len(rows)))
        name = f"{start:09d}.npy"
        block = cache.load(name, (part.stop - part.start, width))
        if block is None:
            pieces = []
            chunks = (rows[i : min(i + step, part.stop)] for i in range(start, part.stop, step))
            for images in ahead(training.images.read(chunk) for chunk in chunks):
                pieces.append(np.concatenate(reader(images)[1], axis=1))
                on_rows("training images", len(images))
            block = np.concatenate(pieces)
            cache.save(name, block)
        else:
            on_rows("training images", len(block))
        for layer, columns in zip(features, np.split(block, borders, axis=1), strict=True):
            layer[part] = columns
    return features
