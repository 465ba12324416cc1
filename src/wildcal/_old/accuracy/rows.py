"""Functions of logits that several estimators read, in float64, piece by piece."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from wildcal._old.core.arrays import BoolArray, FloatArray, Labels, Logits
from wildcal._old.core.checks import check_logits, reject_logit_row

PIECE: Final = 1 << 18
"""Entries of a matrix that are worked on together."""


def pieces(logits: Logits) -> Iterator[FloatArray]:
    """Yield the rows in float64, some at a time."""
    step = max(1, PIECE // logits.shape[1])
    for start in range(0, len(logits), step):
        yield logits[start : start + step].astype(np.float64)


def by_pieces(logits: Logits, function: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Return a function of single rows, joined over all pieces."""
    return np.concatenate([function(piece) for piece in pieces(logits)])


def log_proba(logits: Logits, temperature: float) -> FloatArray:
    """Return log softmax(z / T) in float64."""
    z = logits.astype(np.float64)
    z = (z - z.max(axis=1, keepdims=True)) / temperature
    return np.asarray(z - np.log(np.exp(z).sum(axis=1, keepdims=True)))


def proba(logits: Logits, temperature: float) -> FloatArray:
    """Return softmax(z / T) in float64."""
    z = logits.astype(np.float64)
    z -= z.max(axis=1, keepdims=True)
    z /= temperature
    np.exp(z, out=z)
    z /= z.sum(axis=1, keepdims=True)
    return z


def confidence(logits: Logits, temperature: float) -> FloatArray:
    """Return the largest probability of each row of softmax(z / T)."""
    z = logits.astype(np.float64)
    z = (z - z.max(axis=1, keepdims=True)) / temperature
    return np.asarray(1.0 / np.exp(z).sum(axis=1))


def negative_entropy(logits: Logits, temperature: float) -> FloatArray:
    """Return Σ p log p of each row of softmax(z / T), where 0 log 0 is 0."""
    log = log_proba(logits, temperature)
    p = np.exp(log)
    return np.asarray((p * np.where(p > 0, log, 0.0)).sum(axis=1))


def check_window(window: ArrayLike, n_classes: int, name: str = "logits") -> Logits:
    """Return a window of logits; NaN, infinities and other numbers of classes are refused."""
    try:
        z = check_logits(window, n_classes=n_classes)
    except ValueError as error:
        if name == "logits":
            raise
        raise ValueError(f"{name}: {error}") from None
    top = z.max(axis=1)
    if not np.isfinite(top).all():
        row = int(np.flatnonzero(~np.isfinite(top))[0])
        reject_logit_row(row, z[row])
    return z


@dataclass(frozen=True, slots=True)
class Rows:
    """Labeled rows to fit on."""

    logits: Logits
    y: Labels
    environment: Labels
    """0 for clean rows, 1, 2, ... for shifted ones."""
    second: Logits | None
    """What a second network said of the same rows."""

    @property
    def shifted(self) -> list[int]:
        """Shifted environments with labels."""
        return [int(e) for e in np.unique(self.environment[self.y >= 0]) if e > 0]

    def where(self, mask: BoolArray | Labels) -> "Rows":
        """Return some of the rows."""
        second = None if self.second is None else self.second[mask]
        return Rows(self.logits[mask], self.y[mask], self.environment[mask], second)

    def of(self, environment: int) -> "Rows":
        """Return the labeled rows of an environment."""
        return self.where((self.environment == environment) & (self.y >= 0))

    def without(self, environments: list[int]) -> "Rows":
        """Return the rows of all other environments."""
        return self.where(~np.isin(self.environment, environments))

    def accuracy(self) -> float:
        """Return the share of rows whose largest logit, the first on ties, is that of the label."""
        return float((self.logits.argmax(axis=1) == self.y).mean())
