"""The operations of maps in torch: plain functions, so that tracing sees through them."""

import warnings
from collections.abc import Callable
from typing import Any, Final, TypeVar

import torch
from numpy.typing import NDArray
from torch import Tensor

Number = float | int
T = TypeVar("T")

# Devices that have no float64; there, numbers of a row are float32 as well.
_NARROW_DEVICES: Final = ("mps",)


def row_dtype(device: torch.device) -> torch.dtype:
    """Return the precision in which numbers of a row are kept on a device."""
    return torch.float32 if device.type in _NARROW_DEVICES else torch.float64


def is_tracing() -> bool:
    """Return whether `torch.jit.trace` is looking on."""
    return bool(torch.jit.is_tracing())  # type: ignore[attr-defined, no-untyped-call]


def fixed(size: int) -> int:
    """Return a length that does not change from call to call as a number.

    `torch.jit.trace` makes a tensor of every length, and warns where one is used as a number.
    """
    return _silently(lambda: int(size)) if is_tracing() else size


def _silently(make: Callable[[], T]) -> T:
    """Return what is made, without a word that a trace will keep it as it is: so it is meant."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.jit.TracerWarning)  # type: ignore[attr-defined]
        return make()


class TorchOps:
    """Run the operations on the device of the logits, with the buffers of a module."""

    def __init__(self, parameters: dict[str, Tensor], logits: Tensor) -> None:
        self._parameters, self._device = parameters, logits.device
        self._row = row_dtype(logits.device)
        halves = (torch.float16, torch.bfloat16, torch.float32)
        self._dtype = torch.float32 if logits.dtype in halves else self._row
        limits = torch.finfo(self._dtype)
        self.lowest, self.tiny, self.eps = limits.min, limits.tiny, limits.eps

    def working(self, logits: Tensor) -> Tensor:
        """Return logits in the precision to work in."""
        return logits.to(self._dtype)

    def wide(self, x: Tensor) -> Tensor:
        """Return x in float64."""
        return x.to(self._row)

    def narrow(self, x: Tensor) -> Tensor:
        """Return x in the precision to work in."""
        return x.to(self._dtype)

    def parameter(self, name: str) -> Tensor:
        """Return a buffer."""
        return self._parameters[name]

    def constant(self, values: NDArray[Any]) -> Tensor:
        """Return fixed numbers."""
        if is_tracing():
            return _silently(lambda: torch.tensor(values.tolist(), device=self._device))
        return torch.tensor(values.tolist(), device=self._device)

    def length(self, table: Tensor) -> int:
        """Return the length of a fitted value."""
        return fixed(table.shape[-1])

    def exp(self, x: Tensor) -> Tensor:
        """Return exp(x)."""
        return torch.exp(x)

    def softmax(self, x: Tensor) -> Tensor:
        """Return exp(x) divided by its sum in each row."""
        return torch.softmax(x, dim=1)

    def log(self, x: Tensor) -> Tensor:
        """Return the natural logarithm."""
        return torch.log(x)

    def log1p(self, x: Tensor) -> Tensor:
        """Return log(1 + x), exact near zero."""
        return torch.log1p(x)

    def sqrt(self, x: Tensor) -> Tensor:
        """Return the square root."""
        return torch.sqrt(x)

    def softplus(self, x: Tensor) -> Tensor:
        """Return log(1 + exp(x)) without overflow."""
        if is_tracing():  # for the older ONNX exporter of torch, which does not know logaddexp
            return torch.clamp(x, min=0) + torch.log1p(torch.exp(-x.abs()))
        return torch.logaddexp(torch.zeros_like(x), x)

    def tanh(self, x: Tensor) -> Tensor:
        """Return tanh(x)."""
        return torch.tanh(x)

    def maximum(self, x: Tensor, y: Tensor | Number) -> Tensor:
        """Return the larger one, entry by entry."""
        return torch.clamp(x, min=y) if isinstance(y, Number) else torch.maximum(x, y)

    def minimum(self, x: Tensor, y: Tensor | Number) -> Tensor:
        """Return the smaller one, entry by entry."""
        return torch.clamp(x, max=y) if isinstance(y, Number) else torch.minimum(x, y)

    def less(self, x: Tensor | Number, y: Tensor | Number) -> Tensor:
        """Return x < y."""
        return x < y  # type: ignore[return-value]

    def less_equal(self, x: Tensor | Number, y: Tensor | Number) -> Tensor:
        """Return x <= y."""
        return x <= y  # type: ignore[return-value]

    def equal(self, x: Tensor, y: Tensor | Number) -> Tensor:
        """Return x == y."""
        return torch.eq(x, y)

    def where(self, condition: Tensor, x: Tensor | Number, y: Tensor | Number) -> Tensor:
        """Return x where the condition holds, else y."""
        # A Python number beside a tensor does not change its type.
        return torch.where(condition, x, y)

    def row_max(self, x: Tensor) -> Tensor:
        """Return the largest entry of each row."""
        return x.amax(dim=1, keepdim=True)

    def row_min(self, x: Tensor) -> Tensor:
        """Return the smallest entry of each row."""
        return x.amin(dim=1, keepdim=True)

    def row_sum(self, x: Tensor) -> Tensor:
        """Return the sum of each row."""
        return x.sum(dim=1, keepdim=True)

    def argmax(self, x: Tensor) -> Tensor:
        """Return the position of the largest entry of each row."""
        return x.argmax(dim=1, keepdim=True)

    def largest(self, x: Tensor, k: int) -> Tensor:
        """Return the k largest entries of each row in descending order."""
        return x.topk(k, dim=1).values

    def pick(self, x: Tensor, position: Tensor) -> Tensor:
        """Return the entry at one position of each row."""
        return x.gather(1, position)

    def take(self, table: Tensor, position: Tensor) -> Tensor:
        """Return the entries of a table at many positions."""
        return table[position]

    def matmul(self, x: Tensor, matrix: Tensor) -> Tensor:
        """Return the matrix product."""
        return x @ matrix

    def finite(self, x: Tensor) -> Tensor:
        """Return x with -inf as the lowest number: its gradient by a temperature is then zero."""
        return torch.clamp(x, min=self.lowest)

    def columns(self, x: Tensor, start: int, stop: int) -> Tensor:
        """Return columns start to stop."""
        return x[:, start:stop]

    def side_by_side(self, parts: list[Tensor]) -> Tensor:
        """Return matrices of the same rows as one."""
        return torch.cat(parts, dim=1)

    def flat(self, x: Tensor) -> Tensor:
        """Return (n, 1) as (n,)."""
        return x[:, 0]
