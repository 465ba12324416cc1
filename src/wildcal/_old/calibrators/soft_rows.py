"""Soft rows: a prior for fits on few labels that says "the network may well be right as it is".

Every row is added once more with the softmax of the network itself as its label, with weight lam.
A fixed number of such rows would be too weak for a few labels or too strong for many: what a fit
has to learn from are its mistakes, and lam = strength / mistakes fades with them.
"""

import numpy as np

from wildcal._old.core.arrays import FloatArray, Labels, Source
from wildcal._old.core.block import Block
from wildcal._old.core.blocks import added, map_blocks
from wildcal._old.core.objective import Point
from wildcal._old.core.optimize import TuningLoss

# One mistake in a million rows would otherwise be divided by.
_FEWEST = 1e-6


def check_prior(prior: object) -> None:
    """Raise unless the strength of soft rows is a number of at least 0."""
    number = isinstance(prior, int | float) and not isinstance(prior, bool)
    if not (number and 0 <= prior < np.inf):  # type: ignore[operator]
        raise ValueError(f"prior must be a finite number of at least 0, got {prior!r:.40}.")


def soft_weight(mistakes: float, doubt: float, strength: float) -> float:
    """Return lam = strength / max(mistakes, expected mistakes).

    >>> soft_weight(mistakes=10.0, doubt=4.0, strength=2.0)
    0.2
    """
    return strength / max(mistakes, doubt, _FEWEST)


def mistakes_and_doubt(
    logits: Source, y: Labels, weight: FloatArray | None
) -> tuple[float, float, float]:
    """Return the weight of wrong rows, of all that the network expects wrong, and of all rows."""

    def look(block: Block) -> tuple[float, float, float]:
        w = np.ones(block.n) if weight is None else weight[block.rows]
        wrong = block.pred() != y[block.rows]
        doubt = 1.0 - block.confidence(np.ones(block.n))
        return float(w @ wrong), float(w @ np.maximum(doubt, 0.0)), float(w.sum())

    mistakes, doubt, total = map_blocks(logits, look, added)
    return mistakes, doubt, total


def soft_weight_of(logits: Source, y: Labels, weight: FloatArray | None, strength: float) -> float:
    """Return lam of some rows; 0 where soft rows have no strength."""
    if not strength:
        return 0.0
    mistakes, doubt, _ = mistakes_and_doubt(logits, y, weight)
    return soft_weight(mistakes, doubt, strength)


class WithSoftRows:
    """The loss of one temperature, with soft rows added: (1 + lam) nll(beta) - lam beta g.

    With g the mean of E_1[z] - z_y, so that the derivative by beta = 1/T is that of the rows plus
    lam times the mean of E_beta[z] - E_1[z], and the minimum moves towards T = 1. phi is log T.
    """

    def __init__(self, loss: TuningLoss, lam: float, slope_at_one: float) -> None:
        self.loss, self.lam, self.slope = loss, lam, slope_at_one

    @property
    def logits(self) -> Source:
        """The rows."""
        return self.loss.logits

    def warm_up(self, n_rows: int) -> list["WithSoftRows"]:
        """Return the same on about n_rows rows."""
        return [WithSoftRows(few, self.lam, _slope(few)) for few in self.loss.warm_up(n_rows)]

    def __call__(self, phi: FloatArray) -> Point:
        """Return loss, gradient and Hessian at phi."""
        point, beta = self.loss(phi), float(np.exp(-phi[0]))
        pull = self.lam * self.slope * beta
        return Point(
            (1 + self.lam) * point.value - pull,
            (1 + self.lam) * point.gradient + pull,
            (1 + self.lam) * point.hessian - pull,
        )


def with_soft_rows(loss: TuningLoss, lam: float) -> WithSoftRows:
    """Return a loss of one log temperature with soft rows of weight lam."""
    return WithSoftRows(loss, lam, _slope(loss))


def _slope(loss: TuningLoss) -> float:
    """Return the derivative of the mean loss by beta at beta = 1: minus that by log T."""
    return -float(loss(np.zeros(1)).gradient[0])
