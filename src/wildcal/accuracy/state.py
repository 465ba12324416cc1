"""What an estimator keeps of a window of rows: sums, which add."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self, final

import numpy as np

from wildcal.core.arrays import FloatArray, Labels

# More rows than this are not counted exactly by floats, and not met.
_MOST: Final = 1 << 53


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
    log_sums: FloatArray
    """Logarithms of sums, for terms that may be too large or too small for a float."""

    def __add__(self, other: Self) -> "WindowState":
        """Return the state of both windows together."""
        mine = self.method, len(self.counts), len(self.sums), len(self.log_sums)
        theirs = other.method, len(other.counts), len(other.sums), len(other.log_sums)
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
            np.logaddexp(self.log_sums, other.log_sums),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and lists, ready for JSON."""
        return {
            "method": self.method,
            "n": self.n,
            "counts": self.counts.tolist(),
            "sums": self.sums.tolist(),
            "log_sums": self.log_sums.tolist(),
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> "WindowState":
        """Return the state that `to_dict` described; raise a ValueError if it cannot be one."""
        try:
            method, n, counts = document["method"], document["n"], document["counts"]
            sums, log_sums = document["sums"], document["log_sums"]
        except (KeyError, TypeError) as error:
            raise ValueError(f"this is not the state of a window: {error!r:.80}.") from error
        whole = [n, *counts] if isinstance(counts, list) else [None]
        if (
            type(method) is not str
            or len(whole) < 3
            or any(type(count) is not int or not 0 <= count <= _MOST for count in whole)
            or n < 1
            or sum(counts) != n
        ):
            raise ValueError(
                "n and counts of a state must be whole numbers of two or more classes, and n their"
                " sum, at least 1."
            )
        for numbers in (sums, log_sums):
            if not isinstance(numbers, list) or not all(
                type(x) in (int, float) and np.isfinite(x) for x in numbers
            ):
                raise ValueError("the sums of a state must be lists of finite numbers.")
        return cls(
            method,
            n,
            np.array(counts, np.int64),
            np.array(sums, np.float64),
            np.array(log_sums, np.float64),
        )
