"""The tuning loss of a temperature map, with exact gradient and Hessian.

Every method that gives each row a temperature h(x; phi) is fitted on the same two losses, and
needs only dh/dphi: the kernel returns each row's loss with its first two derivatives by h, and the
chain rule does the rest. Here h = link(offset + design @ phi), which covers temperature scaling
(link exp), energy scaling (identity) and the softplus maps.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from wildcal.core.arrays import FloatArray, Labels, Logits
from wildcal.core.blocks import Block, for_each_block

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


def row_losses(
    logits: Logits, y: Labels, h: FloatArray, loss: Loss
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return each row's loss at temperature h, and its first two derivatives by h.

    With beta = 1/h, s = beta * dl/dbeta and c = beta² * d²l/dbeta²:
    dl/dh = -s/h and d²l/dh² = (c + 2s)/h².
    """
    value, slope, curvature = (np.empty(len(logits)) for _ in range(3))

    def work(block: Block) -> None:
        rows, beta = block.rows, 1.0 / h[block.rows]
        terms = block.log_loss_terms if loss == "nll" else block.squared_loss_terms
        ell, s, c = terms(beta, y[rows])
        value[rows], slope[rows], curvature[rows] = ell, -s * beta, (c + 2 * s) * beta * beta

    for_each_block(logits, work)
    return value, slope, curvature


def mean_loss(logits: Logits, y: Labels, weight: FloatArray | None, h: float, loss: Loss) -> float:
    """Return the mean loss at one temperature: half the work of `row_losses`."""
    value = np.empty(len(logits))

    def work(block: Block) -> None:
        of_rows = block.log_loss if loss == "nll" else block.squared_loss
        value[block.rows] = of_rows(np.full(block.n, 1.0 / h), y[block.rows])

    for_each_block(logits, work)
    return float(np.average(value, weights=weight))


@dataclass(frozen=True, slots=True)
class Point:
    """An objective evaluated at one parameter vector."""

    value: float
    gradient: FloatArray
    hessian: FloatArray


@dataclass(slots=True)
class TemperatureObjective:
    """Mean loss of softmax(z / h), h = link(offset + design @ phi), as a function of phi."""

    logits: Logits
    y: Labels
    weight: FloatArray | None
    design: FloatArray
    link: Link
    offset: float = 0.0
    loss: Loss = "mse"
    evaluations: int = field(default=0, init=False)

    def __call__(self, phi: FloatArray) -> Point:
        """Return loss, gradient and Hessian at phi."""
        self.evaluations += 1
        h, h1, h2 = self.link(self.offset + self.design @ phi)
        value, slope, curvature = row_losses(self.logits, self.y, h, self.loss)
        weight = np.ones(len(value)) if self.weight is None else self.weight
        total = weight.sum()
        first = weight * slope * h1
        second = weight * (curvature * h1 * h1 + slope * h2)
        return Point(
            float(weight @ value / total),
            self.design.T @ first / total,
            (self.design.T * second) @ self.design / total,
        )

    def warm_up(self, n_rows: int) -> list["TemperatureObjective"]:
        """Return the objective on about n_rows rows, a cheap place to start from, if that is few.

        Every step-th row, as a view. If a pattern left no weight on them there is no warm-up.
        """
        step = len(self.y) // n_rows
        rows = slice(None, None, step)
        if step < 2 or (self.weight is not None and not self.weight[rows].any()):
            return []
        weight = None if self.weight is None else self.weight[rows]
        return [
            TemperatureObjective(
                self.logits[rows],
                self.y[rows],
                weight,
                self.design[rows],
                self.link,
                self.offset,
                self.loss,
            )
        ]
