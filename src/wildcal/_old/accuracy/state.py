"""What an estimator keeps of a window of rows: sums, which add."""

from dataclasses import dataclass
from typing import Self, final

from wildcal._old.core.arrays import FloatArray, Labels


@final
@dataclass(frozen=True, slots=True, eq=False)
class WindowState:
    """The sums over a window that an estimator reads; made by its `state`.

    States of disjoint windows can be added. They belong to the fitted estimator that made them.
    """

    method: str
    """Short name of the estimator that made it."""
    n: int
    """Rows in the window."""
    counts: Labels
    """How often each class was predicted, shape (K,)."""
    sums: FloatArray
    """Σ confidence, Σ confidence (1 - confidence), and sums of the method's own."""

    def __add__(self, other: Self) -> "WindowState":
        """Return the state of both windows together."""
        mine = self.method, len(self.counts), len(self.sums)
        theirs = other.method, len(other.counts), len(other.sums)
        if mine != theirs:
            raise ValueError(
                "states must come from the same estimator, got"
                f" {self.method} of {len(self.counts)} classes and"
                f" {other.method} of {len(other.counts)}."
            )
        return WindowState(
            self.method,
            self.n + other.n,
            self.counts + other.counts,
            self.sums + other.sums,
        )
