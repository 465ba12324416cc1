"""The tuning loss of a temperature map, with exact gradient and Hessian.

Every method that gives each row a temperature h(x; phi) is fitted on the same two losses, and
needs only dh/dphi: the kernel returns each row's loss with its first two derivatives by h, and the
chain rule does the rest. Here h = link(offset + design @ phi), which covers temperature scaling
(link exp), energy scaling (identity) and the softplus maps.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np

from wildcal._old.core.arrays import FloatArray, Labels, Source
from wildcal._old.core.block import Block
from wildcal._old.core.blocks import added, map_blocks
from wildcal._old.core.columns import kept

Loss: TypeAlias = Literal["nll", "mse"]
LOSSES: tuple[Loss, ...] = ("nll", "mse")
Link: TypeAlias = Callable[[FloatArray], tuple[FloatArray, FloatArray, FloatArray]]
"""h, dh/deta and d²h/deta² of the linear predictor eta."""


def exp_link(eta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return h = exp(eta) and its derivatives: eta is a log temperature."""
    h = np.exp(eta)
    return h, h, h


def identity_link(floor: float = 0.0) -> Link:
    """Return the link h = max(eta, floor); where the floor holds, h does not move."""

    def link(eta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        return np.maximum(eta, floor), (eta >= floor).astype(np.float64), np.zeros_like(eta)

    return link


def softplus_link(eta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return h = log(1 + exp(eta)) and its derivatives: positive, and close to a large eta."""
    sigmoid = np.exp(-np.logaddexp(0.0, -eta))
    return np.logaddexp(0.0, eta), sigmoid, sigmoid * (1 - sigmoid)


def loss_terms(
    block: Block, y: Labels, h: FloatArray, loss: Loss
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return each row's loss at temperature h, and its first two derivatives by h.

    With beta = 1/h, s = beta * dl/dbeta and c = beta² * d²l/dbeta²:
    dl/dh = -s/h and d²l/dh² = (c + 2s)/h². The block is used up.
    """
    beta = 1.0 / h
    ell, s, c = (block.log_loss_terms if loss == "nll" else block.squared_loss_terms)(beta, y)
    return ell, -s * beta, (c + 2 * s) * beta * beta


def mean_loss(logits: Source, y: Labels, weight: FloatArray | None, h: float, loss: Loss) -> float:
    """Return the mean loss at one temperature: half the work of `loss_terms`."""

    def sums(block: Block) -> tuple[float, float]:
        of_rows = block.log_loss if loss == "nll" else block.squared_loss
        value, w = of_rows(np.array([1.0 / h]), y[block.rows]), _weights(weight, block)
        return float(w @ value), float(w.sum())

    value, total = map_blocks(logits, sums, added)
    return float(value / total)


def _weights(weight: FloatArray | None, block: Block) -> FloatArray:
    return np.ones(block.n) if weight is None else weight[block.rows]


@dataclass(frozen=True, slots=True)
class Point:
    """An objective evaluated at one parameter vector."""

    value: float
    gradient: FloatArray
    hessian: FloatArray


@dataclass(slots=True)
class TemperatureObjective:
    """Mean loss of softmax(z / h), h = link(offset + design @ phi), as a function of phi."""

    logits: Source
    y: Labels
    weight: FloatArray | None
    design: Any
    """Some numbers for each row: `RowValues`, or an array."""
    link: Link
    offset: float = 0.0
    loss: Loss = "mse"

    def __post_init__(self) -> None:
        if isinstance(self.design, np.ndarray):
            self.design = kept(self.design)

    def __call__(self, phi: FloatArray) -> Point:
        """Return loss, gradient and Hessian at phi."""
        value, gradient, hessian, total = map_blocks(self.logits, partial(self._sums, phi), added)
        return Point(float(value / total), gradient / total, hessian / total)

    def _sums(self, phi: FloatArray, block: Block) -> tuple[float, FloatArray, FloatArray, float]:
        """Return the sums over a block, which add: they are divided by the total at the end."""
        design, weight = self.design(block), _weights(self.weight, block)
        h, h1, h2 = self.link(self.offset + design @ phi)
        value, slope, curvature = loss_terms(block, self.y[block.rows], h, self.loss)
        first = weight * slope * h1
        second = weight * (curvature * h1 * h1 + slope * h2)
        return (
            float(weight @ value),
            design.T @ first,
            (design.T * second) @ design,
            float(weight.sum()),
        )

    def warm_up(self, n_rows: int) -> list["TemperatureObjective"]:
        """Return the objective on about n_rows rows, a cheap place to start from, if that is few.

        Every step-th row. If a pattern left no weight on them there is no warm-up.
        """
        step = len(self.y) // n_rows
        rows = slice(None, None, step)
        if step < 2:
            return []
        weight = None if self.weight is None else np.ascontiguousarray(self.weight[rows])
        if weight is not None and not weight.any():
            return []
        return [
            TemperatureObjective(
                self.logits[rows],
                self.y[rows],
                weight,
                self.design.every(step),
                self.link,
                self.offset,
                self.loss,
            )
        ]
