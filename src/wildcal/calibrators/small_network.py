"""A network small enough to be a formula: forward and backward, on arrays."""

from dataclasses import dataclass

import numpy as np

from wildcal.core.arrays import FloatArray

# Of the standard deviation of the last layer at the start: the output hardly varies yet.
_SMALL_OUTPUT = 0.1


@dataclass(frozen=True, slots=True)
class Network:
    """k inputs, two tanh layers of m units, one output; its weights are one flat array."""

    n_inputs: int
    n_hidden: int

    @property
    def size(self) -> int:
        """The number of weights."""
        k, m = self.n_inputs, self.n_hidden
        return (k + 1) * m + (m + 1) * m + (m + 1)

    def layers(self, weights: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the three layers, each with its offsets as the last row."""
        k, m = self.n_inputs, self.n_hidden
        first, second, third = np.split(weights, [(k + 1) * m, (k + 1) * m + (m + 1) * m])
        return first.reshape(k + 1, m), second.reshape(m + 1, m), third.reshape(m + 1, 1)

    def start(self, seed: int, used: FloatArray, output: float) -> FloatArray:
        """Return seeded weights that give about `output` for every input."""
        k, m = self.n_inputs, self.n_hidden
        rng = np.random.default_rng(seed)
        first, second = rng.normal(size=(k + 1, m)), rng.normal(size=(m + 1, m))
        third = _SMALL_OUTPUT * rng.normal(size=(m + 1, 1))
        first[:k] *= used[:, None] / np.sqrt(k)  # an input that never varies says nothing
        second[:m] /= np.sqrt(m)
        first[k], second[m], third[m] = 0, 0, output
        return np.concatenate([layer.ravel() for layer in (first, second, third)])

    def forward(
        self, weights: FloatArray, x: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return both hidden layers, shape (m, n), and the n outputs, for x of shape (k, n)."""
        first, second, third = self.layers(weights)
        a = np.tanh(_affine(first, x))
        b = np.tanh(_affine(second, a))
        return a, b, _affine(third, b)[0]

    def backward(
        self, weights: FloatArray, x: FloatArray, a: FloatArray, b: FloatArray, slope: FloatArray
    ) -> FloatArray:
        """Return the gradient by the weights, `slope` being that by the output of each row."""
        _, second, third = self.layers(weights)
        to_b = third[:-1] * slope * (1 - b * b)
        to_a = second[:-1] @ to_b * (1 - a * a)
        pairs = ((x, to_a), (a, to_b), (b, slope[None]))
        return np.concatenate([np.vstack([u @ d.T, d.sum(axis=1)]).ravel() for u, d in pairs])


def _affine(layer: FloatArray, x: FloatArray) -> FloatArray:
    """Return layer[:-1].T @ x + layer[-1], added up column by column in one order.

    A matrix product would round by the number of columns, and T would depend on the batch.
    """
    out = np.repeat(layer[-1][:, None], x.shape[1], axis=1)
    for weights, values in zip(layer[:-1], x, strict=True):
        out += weights[:, None] * values
    return out
