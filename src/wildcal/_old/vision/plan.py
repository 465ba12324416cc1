"""What a suite is made of: which images of which data set go into which split.

Every network of a study is extracted by the same plan, so that every method is tuned and tested on
the same rows.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal._old.io.suite.manifest import NAME
from wildcal._old.shift import (
    CORRUPTIONS,
    SEVERITIES,
    TUNING_TRANSFORMS,
    VALIDATION_CORRUPTIONS,
    corrupt,
    transform,
)
from wildcal._old.shift.checks import check_name
from wildcal._old.vision.cells import Cell, Change, Plan
from wildcal._old.vision.datasets import ImageSet, Split
from wildcal._old.vision.datasets.order import random_order
from wildcal._old.vision.sizes import Sizes, usual_ood_rows

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
    drawn
        Whether these are in random order; then corrupted cells take the first of them.
    splits
        How those rows were drawn, to be kept with the suite.
    ood
        Sets of images of other classes, by name.
    extra
        More sets with the network's classes, by name.
    corrupted
        Reader of published corrupted test images; by default they are made on the fly.
    types
        The corruptions to test with.
    paired
        Whether the cells of all corruptions have the same images. Otherwise each type has its own
        draw, so that cells of several types pooled are nearly independent.
    transforms
        Which of `TUNING_TRANSFORMS` are for tuning too.
    """

    data: dict[str, Any]
    validation: ImageSet
    test: ImageSet
    validation_rows: NDArray[np.int64] | None = None
    test_rows: NDArray[np.int64] | None = None
    drawn: bool = False
    splits: Mapping[str, Split] = field(default_factory=dict)
    ood: Mapping[str, ImageSet] = field(default_factory=dict)
    extra: Mapping[str, ImageSet] = field(default_factory=dict)
    corrupted: Corrupted | None = None
    types: Sequence[str] = CORRUPTIONS
    paired: bool = True
    transforms: Sequence[str] = tuple(TUNING_TRANSFORMS)
    sizes: Sizes = field(default_factory=Sizes)
    seed: int = 0

    def make(self) -> Plan:
        """Return the plan."""
        self._splits = dict(self.splits)
        validation = self._all(self.validation, self.validation_rows)
        test = self._all(self.test, self.test_rows)
        cells = [
            Cell("validation", "tune", "none", _opened(self.validation), validation),
            *self._ood("tune"),
            *self._shifted_tuning(validation),
            Cell("test", "test", "none", _opened(self.test), test),
            *self._test_corruptions(test),
            *self._ood("test"),
            *self._extra(),
        ]
        _check_names([cell.name for cell in cells])
        data = self.data | {
            "sizes": vars(self.sizes) | {"ood": self._ood_rows()},
            "paired": self.paired,
            "corrupted": "generated" if self.corrupted is None else "published",
            "sources": self._fingerprints(),
        }
        return Plan(
            data, self.test.class_names, self.seed, tuple(cells), self._splits, self._notes()
        )

    def _notes(self) -> tuple[str, ...]:
        wanted = self._ood_rows()
        found = {name: len(self._splits[name].rows("tune")) for name in self.ood}
        return tuple(
            f"{name}: {count:,} rows tune, not {wanted:,}, because it has {len(images):,} images"
            " and half of them are for tests."
            for (name, images), count in zip(self.ood.items(), found.values(), strict=True)
            if count < wanted
        )

    def _fingerprints(self) -> dict[str, dict[str, Any]]:
        """Return what tells other images apart: their number, labels and a few of the pixels."""
        sets = [self.validation, self.test, *self.ood.values(), *self.extra.values()]
        found = {}
        for images in sets:
            some = np.linspace(0, len(images) - 1, min(8, len(images))).astype(np.int64)
            digest = hashlib.sha256(images.labels.astype("<i8").tobytes())
            digest.update(images.read(some).tobytes())
            found[images.name] = {"rows": len(images), "sha256": digest.hexdigest()}
        return found

    def _shifted_tuning(self, validation: NDArray[np.int64]) -> Iterable[Cell]:
        rows = self._some("validation", self.validation, validation, self.sizes.tuning)
        kinds: list[tuple[Change, str, int]]
        kinds = [(corrupt, name, len(SEVERITIES)) for name in VALIDATION_CORRUPTIONS]
        for name, levels in TUNING_TRANSFORMS.items():  # in this order, whatever the order asked
            if name in self.transforms:
                kinds.append((transform, name, len(levels)))
        for change, name, count in kinds:
            for level in range(1, count + 1):
                yield Cell(
                    f"validation-{name}-{level}",
                    "tune",
                    "covariate",
                    _opened(self.validation),
                    rows,
                    name,
                    level,
                    change,
                )

    def _test_corruptions(self, test: NDArray[np.int64]) -> Iterable[Cell]:
        for name in map(check_name, self.types):
            own = "" if self.paired else name
            rows = self._some("test", self.test, test, self.sizes.corrupted, own)
            for level in SEVERITIES:
                yield Cell(
                    f"{name}-{level}",
                    "test",
                    "covariate",
                    self._corrupted(name, level),
                    rows,
                    name,
                    level,
                    corrupt if self.corrupted is None else None,
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

    def _ood_rows(self) -> int:
        return self.sizes.ood or usual_ood_rows(len(self.test.class_names))

    def _ood(self, role: str) -> Iterable[Cell]:
        for name, images in self.ood.items():
            if name not in self._splits:
                n = len(images)
                if n < 2:
                    raise ValueError(f"{name} must have at least 2 images, got {n}.")
                tune, test = min(self._ood_rows(), n // 2), self.sizes.ood_test
                # From both ends: the rows of one part do not depend on the size of the other.
                order = random_order(n, self.seed)
                rest = order[tune:][::-1]
                parts = {"tune": order[:tune], "test": rest[: len(rest) if test is None else test]}
                self._splits[name] = Split(n, self.seed, parts, images.name)
            rows = self._splits[name].rows(role)
            yield Cell(f"{name}-{role}", role, "semantic", _opened(images), rows)

    def _extra(self) -> Iterable[Cell]:
        for name, images in self.extra.items():
            rows = np.arange(len(images))
            yield Cell(name, "test", "covariate", _opened(images), rows)

    def _all(self, images: ImageSet, rows: NDArray[np.int64] | None) -> NDArray[np.int64]:
        return np.arange(len(images)) if rows is None else rows

    def _some(
        self,
        name: str,
        images: ImageSet,
        rows: NDArray[np.int64],
        size: int | None,
        own: str = "",
    ) -> NDArray[np.int64]:
        """Return random rows, the same for every type and severity, so that cells are paired.

        With a name of their `own` they are others.
        """
        if own or not self.drawn:
            rows = rows[random_order(len(rows), self.seed, own)]
        chosen = rows[:size]
        kept = f"{name}-{own}" if own else name
        self._splits[kept] = Split(len(images), self.seed, {"corrupted": chosen}, images.name)
        return chosen


def _check_names(names: Sequence[str]) -> None:
    """Raise if a suite could not hold splits of these names; best known before the work."""
    seen: set[str] = set()
    for name in names:
        if not NAME.fullmatch(name):
            raise ValueError(
                f"{name!r:.60} cannot be the name of a split: use letters, digits and . _ -"
            )
        if name.lower() in seen:
            raise ValueError(f"the name {name!r} is taken; give the set another one.")
        seen.add(name.lower())


def _opened(images: ImageSet) -> Callable[[], ImageSet]:
    """Return the source of a cell whose images are open already."""
    return lambda: images
