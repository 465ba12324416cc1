"""A context: what the unlabeled rows that arrive together say, as a few sums."""

from dataclasses import dataclass, field
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.arrays import FloatArray, Labels


@final
@dataclass(frozen=True, slots=True)
class Context:
    """The sums over a window of rows that `ContextScaling` reads; made by its `context`.

    Contexts of disjoint windows can be added. They belong to the calibrator that made them, since
    it says which features of a row are summed, and in which units: another one refuses them, unless
    it would sum the same.

    Examples
    --------
    >>> a = Context(n=2, sums=(1.5, 0.0), counts=(2, 0), by_class=(1.5, 0.0, 0.0, 0.0))
    >>> b = Context(n=1, sums=(0.75, 1.0), counts=(0, 1), by_class=(0.0, 0.75, 0.0, 1.0))
    >>> a + b
    Context(n=3, sums=(2.25, 1.0), counts=(2, 1), by_class=(1.5, 0.75, 0.0, 1.0))
    """

    n: int
    """Rows in the window."""
    sums: tuple[float, ...]
    """Of each feature: for `ContextScaling` the confidence at three temperatures, and how many
    rows are unsure."""
    counts: tuple[int, ...]
    """How often each class was predicted."""
    by_class: tuple[float, ...] = ()
    """Those of the sums that the calibrator reads for each predicted class, one after the other:
    for `ContextScaling` the first and the last."""
    made_by: str = field(default="", compare=False, repr=False)
    """A fingerprint of all that the sums of a row depend on; "" where nobody says."""

    def __add__(self, other: Self) -> "Context":
        """Return the context of both windows together."""
        if len(self.counts) != len(other.counts):
            raise ValueError(
                "contexts must have the same number of classes, got"
                f" {len(self.counts)} and {len(other.counts)}."
            )
        kinds = [(len(one.sums), len(one.by_class)) for one in (self, other)]
        other_maker = self.made_by and other.made_by and self.made_by != other.made_by
        if kinds[0] != kinds[1] or other_maker:
            raise ValueError("contexts must come from the same calibrator, to be added.")
        return Context(
            n=self.n + other.n,
            sums=tuple(a + b for a, b in zip(self.sums, other.sums, strict=True)),
            counts=tuple(a + b for a, b in zip(self.counts, other.counts, strict=True)),
            by_class=tuple(a + b for a, b in zip(self.by_class, other.by_class, strict=True)),
            made_by=self.made_by or other.made_by,
        )

    @classmethod
    def of_rows(cls, rows: "RowStatistics", n_classes: int, by_class: tuple[int, ...]) -> "Context":
        """Return the context of rows whose statistics are known."""
        return cls.of_sums(*window_sums(rows, n_classes, by_class))

    @classmethod
    def of_sums(
        cls, sums: FloatArray, counts: Labels, inside: FloatArray, made_by: str = ""
    ) -> "Context":
        """Return the context of rows with these sums."""
        parts = tuple(sums.tolist()), tuple(counts.tolist()), tuple(inside.tolist())
        return cls(int(counts.sum()), *parts, made_by)


@dataclass(frozen=True, slots=True)
class RowStatistics:
    """What a window keeps of each row."""

    features: FloatArray
    """Those that are summed, shape (features, n)."""
    pred: Labels
    own: FloatArray
    """What the row itself gives to its temperature, as its calibrator counts it."""

    def __getitem__(self, rows: slice | NDArray[Any]) -> "RowStatistics":
        """Return those of some of the rows."""
        return RowStatistics(self.features[:, rows], self.pred[rows], self.own[rows])


def window_sums(
    rows: RowStatistics, n_classes: int, by_class: tuple[int, ...]
) -> tuple[FloatArray, Labels, FloatArray]:
    """Return the sums of features, the counts of classes, and sums of some features by class."""
    counts = np.bincount(rows.pred, minlength=n_classes)
    inside = [np.bincount(rows.pred, rows.features[i], n_classes) for i in by_class]
    sums = np.array([feature.sum() for feature in rows.features])
    return sums, counts, np.concatenate([np.zeros(0), *inside])
