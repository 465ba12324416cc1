"""The few tensor operations that every map is written with.

A map says once what a calibrator does; a backend says what each operation is in its own world:
torch runs it, ONNX writes it down as a node. Tensors add, subtract, multiply and divide by their
operators, with tensors of the same type or with Python numbers. Matrices are (n, K), and what
there is one of for each row is (n, 1), so that nothing ever needs a new axis.

Matrices are worked on in the precision of the logits (float32 for half types), unless a table or a
matrix product would show their rounding; those, and numbers of a row, are float64: the same places
as in the NumPy calibrators, and therefore the same digits.
"""

from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Tensor: TypeAlias = Any
"""A torch tensor, or the name of a value in an ONNX graph."""
Number: TypeAlias = float | int


class Ops(Protocol):
    """What a backend offers."""

    lowest: float
    """The lowest finite number of the precision that matrices are worked on in."""
    tiny: float
    """Its smallest normal number."""
    eps: float
    """The distance from 1 to the next number."""

    def working(self, logits: Tensor) -> Tensor:
        """Return logits in the precision to work in."""

    def wide(self, x: Tensor) -> Tensor:
        """Return x in float64."""

    def narrow(self, x: Tensor) -> Tensor:
        """Return x in the precision to work in."""

    def parameter(self, name: str) -> Tensor:
        """Return a fitted value: float64, or int64 for positions."""

    def constant(self, values: NDArray[Any]) -> Tensor:
        """Return fixed numbers that are not fitted."""

    def length(self, table: Tensor) -> int:
        """Return the length of a fitted value."""

    def exp(self, x: Tensor) -> Tensor:
        """Return exp(x)."""

    def softmax(self, x: Tensor) -> Tensor:
        """Return exp(x) divided by its sum in each row."""

    def log(self, x: Tensor) -> Tensor:
        """Return the natural logarithm."""

    def log1p(self, x: Tensor) -> Tensor:
        """Return log(1 + x), exact near zero."""

    def sqrt(self, x: Tensor) -> Tensor:
        """Return the square root."""

    def softplus(self, x: Tensor) -> Tensor:
        """Return log(1 + exp(x)) without overflow."""

    def tanh(self, x: Tensor) -> Tensor:
        """Return tanh(x)."""

    def maximum(self, x: Tensor, y: Tensor | Number) -> Tensor:
        """Return the larger one, entry by entry."""

    def minimum(self, x: Tensor, y: Tensor | Number) -> Tensor:
        """Return the smaller one, entry by entry."""

    def less(self, x: Tensor, y: Tensor | Number) -> Tensor:
        """Return x < y."""

    def less_equal(self, x: Tensor, y: Tensor | Number) -> Tensor:
        """Return x <= y."""

    def equal(self, x: Tensor, y: Tensor | Number) -> Tensor:
        """Return x == y."""

    def where(self, condition: Tensor, x: Tensor | Number, y: Tensor | Number) -> Tensor:
        """Return x where the condition holds, else y; at least one of them is a tensor."""

    def row_max(self, x: Tensor) -> Tensor:
        """Return the largest entry of each row, (n, 1)."""

    def row_min(self, x: Tensor) -> Tensor:
        """Return the smallest entry of each row, (n, 1)."""

    def row_sum(self, x: Tensor) -> Tensor:
        """Return the sum of each row, (n, 1)."""

    def argmax(self, x: Tensor) -> Tensor:
        """Return the position of the largest entry of each row, the first on ties, (n, 1)."""

    def largest(self, x: Tensor, k: int) -> Tensor:
        """Return the k largest entries of each row in descending order, (n, k)."""

    def pick(self, x: Tensor, position: Tensor) -> Tensor:
        """Return the entry at one position, (n, 1), of each row."""

    def take(self, table: Tensor, position: Tensor) -> Tensor:
        """Return the entries of a 1-D table at many positions."""

    def matmul(self, x: Tensor, matrix: Tensor) -> Tensor:
        """Return the matrix product."""

    def finite(self, x: Tensor) -> Tensor:
        """Return x with -inf as the lowest number, where a gradient would be 0 * inf."""

    def columns(self, x: Tensor, start: int, stop: int) -> Tensor:
        """Return columns start to stop of a matrix."""

    def side_by_side(self, parts: list[Tensor]) -> Tensor:
        """Return matrices of the same rows as one."""

    def flat(self, x: Tensor) -> Tensor:
        """Return (n, 1) as (n,)."""


def clip(ops: Ops, x: Tensor, low: Tensor | Number, high: Tensor | Number) -> Tensor:
    """Return x within its limits."""
    return ops.minimum(ops.maximum(x, low), high)


def class_numbers(ops: Ops, n_classes: int) -> Tensor:
    """Return 0 to K - 1 as a row."""
    return ops.constant(np.arange(n_classes, dtype=np.int64)[None, :])
