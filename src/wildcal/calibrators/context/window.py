"""A context: what the unlabeled rows that arrive together say, as a few sums."""

from dataclasses import asdict, dataclass
from typing import Any, Final, Self, final

import numpy as np
from numpy.typing import NDArray

from wildcal.calibrators.context.features import LARGEST
from wildcal.core.arrays import FloatArray, Labels

# More rows than this are not counted exactly by floats, and not met.
_MOST: Final = 1 << 53


@final
@dataclass(frozen=True, slots=True)
class Context:
    """The sums over a window of rows that `ContextScaling` reads; made by its `context`.

    Contexts of disjoint windows can be added. They belong to the calibrator that made them, since
    features are in the units of its clean rows.

    Examples
    --------
    >>> a = Context(n=2, energy=-1.0, confidence=-3.0, counts=(2, 0))
    >>> b = Context(n=1, energy=0.5, confidence=0.5, counts=(0, 1))
    >>> a + b
    Context(n=3, energy=-0.5, confidence=-2.5, counts=(2, 1))
    >>> Context.from_dict((a + b).to_dict()) == a + b
    True
    """

    n: int
    """Rows in the window."""
    energy: float
    """Sum of the standardized logsumexp."""
    confidence: float
    """Sum of the standardized confidence after temperature scaling."""
    counts: tuple[int, ...]
    """How often each class was predicted."""

    def __add__(self, other: Self) -> "Context":
        """Return the context of both windows together."""
        if len(self.counts) != len(other.counts):
            raise ValueError(
                "contexts must have the same number of classes, got"
                f" {len(self.counts)} and {len(other.counts)}."
            )
        return Context(
            n=self.n + other.n,
            energy=self.energy + other.energy,
            confidence=self.confidence + other.confidence,
            counts=tuple(a + b for a, b in zip(self.counts, other.counts, strict=True)),
        )

    @classmethod
    def of_rows(cls, rows: "RowStatistics", n_classes: int) -> "Context":
        """Return the context of rows whose statistics are known."""
        counts = np.bincount(rows.pred, minlength=n_classes)
        return cls(
            n=len(rows.pred),
            energy=float(rows.energy.sum()),
            confidence=float(rows.confidence.sum()),
            counts=tuple(counts.tolist()),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and lists, ready for JSON."""
        return {**asdict(self), "counts": list(self.counts)}

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> "Context":
        """Return the context that `to_dict` described; raise a ValueError if it cannot be one."""
        try:
            n, counts = document["n"], document["counts"]
            sums = document["energy"], document["confidence"]
        except (KeyError, TypeError) as error:
            raise ValueError(f"this is not a context: {error!r:.80}.") from error
        whole = [n, *counts] if isinstance(counts, list | tuple) else [None]
        if any(type(count) is not int or not 0 <= count <= _MOST for count in whole) or (
            sum(counts) != n
        ):
            raise ValueError("n and counts of a context must be whole numbers, and n their sum.")
        # Each row adds at most LARGEST, and some rounding. NaN fails the comparison.
        most = LARGEST * n * (1 + 1e-9)
        if not all(type(total) in (int, float) and abs(total) <= most for total in sums):
            raise ValueError(
                "energy and confidence of a context must be numbers of at most"
                f" {LARGEST:g} for each row."
            )
        return cls(n, float(sums[0]), float(sums[1]), tuple(counts))


@dataclass(frozen=True, slots=True)
class RowStatistics:
    """What a window keeps of each row."""

    energy: FloatArray
    confidence: FloatArray
    pred: Labels

    def __getitem__(self, rows: slice | NDArray[Any]) -> "RowStatistics":
        """Return those of some of the rows."""
        return RowStatistics(self.energy[rows], self.confidence[rows], self.pred[rows])
