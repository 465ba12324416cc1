"""The cells of a suite: some images of a data set each, as they are or changed on the fly."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal._old.vision.batches import Pixels
from wildcal._old.vision.datasets import ImageSet, Split

Change = Callable[..., Pixels]


@dataclass(frozen=True, slots=True)
class Cell:
    """One split of a suite: some rows of a data set, as they are or changed on the fly."""

    name: str
    role: str
    shift: str
    source: Callable[[], ImageSet]
    rows: NDArray[np.int64]
    corruption: str | None = None
    severity: int | None = None
    change: Change | None = None
    """What is applied here: `corrupt`, `transform`, or nothing where images stay."""

    def pixels(self, source: ImageSet, rows: NDArray[np.int64], seed: int) -> Pixels:
        """Return the images of some of the rows."""
        images = source.read(rows)
        if self.change is None:
            return images
        return self.change(images, self.corruption, self.severity, seed=seed, indices=rows)

    def labels(self, source: ImageSet) -> NDArray[np.int64]:
        """Return the labels of all rows: -1 where the classes are not the network's."""
        if self.shift == "semantic":
            return np.full(len(self.rows), -1, np.int64)
        return source.labels[self.rows]


@dataclass(frozen=True, slots=True)
class Plan:
    """The cells of a suite, in order, and the random rows they were made of."""

    data: Mapping[str, Any]
    class_names: tuple[str, ...]
    seed: int
    cells: tuple[Cell, ...]
    splits: Mapping[str, Split]
    notes: tuple[str, ...] = ()
    """What whoever asked for it should know."""

    @property
    def rows(self) -> int:
        """The number of images in all cells together."""
        return sum(len(cell.rows) for cell in self.cells)
