"""What a suite is made of: which images of which data set go into which split.

Every network of a study is extracted by the same plan, so that every method is tuned and tested on
the same rows.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal.shift import CORRUPTIONS, SEVERITIES, VALIDATION_CORRUPTIONS, corrupt
from wildcal.vision.datasets import ImageSet, Split, make_split


@dataclass(frozen=True, slots=True)
class Cell:
    """One split of a suite: some rows of a data set, as they are or corrupted on the fly."""

    name: str
    role: str
    shift: str
    source: Callable[[], ImageSet]
    rows: NDArray[np.int64]
    corruption: str | None = None
    severity: int | None = None
    generated: bool = True
    """Whether the corruption is applied here; False where the source holds corrupted images."""

    def pixels(self, source: ImageSet, rows: NDArray[np.int64], seed: int) -> NDArray[np.uint8]:
        """Return the images of some of the rows."""
        images = source.read(rows)
        if self.corruption is None or self.severity is None or not self.generated:
            return images
        return corrupt(images, self.corruption, self.severity, seed=seed, indices=rows)

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

    @property
    def rows(self) -> int:
        """The number of images in all cells together."""
        return sum(len(cell.rows) for cell in self.cells)


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How many rows the parts of a suite have; None takes all there are.

    Parameters
    ----------
    corrupted
        Rows of each corrupted test cell.
    tuning
        Rows of each corrupted tuning cell.
    ood
        Rows of each semantic set that are for tuning; the rest are for tests.
    """

    corrupted: int | None = None
    tuning: int | None = 1000
    ood: int = 500


Corrupted = Callable[[str, int], ImageSet]


@dataclass(kw_only=True)
class PlanMaker:
    """Put a plan together from data sets.

    Parameters
    ----------
    validation, test
        Images with the network's classes; rows that the network was not trained on.
    validation_rows, test_rows
        Which of them; by default all.
    splits
        How those rows were drawn, to be kept with the suite.
    semantic
        Sets of images of other classes, by name.
    extra
        More sets with the network's classes, by name.
    corrupted
        Reader of published corrupted test images; by default they are made on the fly.
    """

    data: dict[str, Any]
    validation: ImageSet
    test: ImageSet
    validation_rows: NDArray[np.int64] | None = None
    test_rows: NDArray[np.int64] | None = None
    splits: Mapping[str, Split] = field(default_factory=dict)
    semantic: Mapping[str, ImageSet] = field(default_factory=dict)
    extra: Mapping[str, ImageSet] = field(default_factory=dict)
    corrupted: Corrupted | None = None
    sizes: Sizes = field(default_factory=Sizes)
    seed: int = 0

    def make(self) -> Plan:
        """Return the plan."""
        self._splits = dict(self.splits)
        validation = self._all(self.validation, self.validation_rows)
        test = self._all(self.test, self.test_rows)
        cells = [
            Cell("validation", "tune", "none", _opened(self.validation), validation),
            *self._semantic("tune"),
            *self._tuning_corruptions(validation),
            Cell("test", "test", "none", _opened(self.test), test),
            *self._test_corruptions(test),
            *self._semantic("test"),
            *self._extra(),
        ]
        data = self.data | {"sizes": vars(self.sizes), "corrupted": self._corrupted_source()}
        return Plan(data, self.test.class_names, self.seed, tuple(cells), self._splits)

    def _corrupted_source(self) -> str:
        return "generated" if self.corrupted is None else "published"

    def _tuning_corruptions(self, validation: NDArray[np.int64]) -> Iterable[Cell]:
        rows = self._some("validation", validation, self.sizes.tuning)
        for name in VALIDATION_CORRUPTIONS:
            for level in SEVERITIES:
                yield Cell(
                    f"validation-{name}-{level}",
                    "tune",
                    "covariate",
                    _opened(self.validation),
                    rows,
                    name,
                    level,
                )

    def _test_corruptions(self, test: NDArray[np.int64]) -> Iterable[Cell]:
        rows = self._some("test", test, self.sizes.corrupted)
        for name in CORRUPTIONS:
            for level in SEVERITIES:
                yield Cell(
                    f"{name}-{level}",
                    "test",
                    "covariate",
                    self._corrupted(name, level),
                    rows,
                    name,
                    level,
                    generated=self.corrupted is None,
                )

    def _corrupted(self, name: str, level: int) -> Callable[[], ImageSet]:
        """Return how to open the source of a corrupted cell, whose rows must match the clean."""
        published = self.corrupted
        if published is None:
            return _opened(self.test)

        def source() -> ImageSet:
            images = published(name, level)
            if not np.array_equal(images.labels, self.test.labels):
                raise ValueError(
                    f"{images.name} must have the {len(self.test):,} images of {self.test.name}"
                    f" in the same order, got {len(images):,} whose labels differ."
                )
            return images

        return source

    def _semantic(self, role: str) -> Iterable[Cell]:
        for name, images in self.semantic.items():
            if name not in self._splits:
                tune = min(self.sizes.ood, len(images) // 2)
                self._splits[name] = make_split(
                    len(images), {"tune": tune, "test": -1}, self.seed, data=images.name
                )
            rows = self._splits[name].rows(role)
            yield Cell(f"{name}-{role}", role, "semantic", _opened(images), rows)

    def _extra(self) -> Iterable[Cell]:
        for name, images in self.extra.items():
            rows = np.arange(len(images))
            yield Cell(name, "test", "covariate", _opened(images), rows)

    def _all(self, images: ImageSet, rows: NDArray[np.int64] | None) -> NDArray[np.int64]:
        return np.arange(len(images)) if rows is None else rows

    def _some(self, name: str, rows: NDArray[np.int64], size: int | None) -> NDArray[np.int64]:
        """Return random rows, the same for every type and severity, so that cells are paired."""
        size = len(rows) if size is None else min(size, len(rows))
        split = make_split(len(rows), {"corrupted": size}, self.seed, data=name)
        self._splits[name] = split
        return rows[split.rows("corrupted")]


def _opened(images: ImageSet) -> Callable[[], ImageSet]:
    """Return the source of a cell whose images are open already."""
    return lambda: images
