"""What maps read of the rows of logits: the counterpart of `wildcal.core.blocks.Block`.

Each quantity is computed by the same steps as there. What is looked up in tables (`steady_*`) is
rounded as there too, to the same bits, because a step of a table would show the last one.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from wildcal.core.block import SPLITTER
from wildcal.interop.maps.ops import Ops, Tensor, class_numbers

# A class ruled out by -inf counts as this far below the largest logit, as in `Block`.
_MINUS_INFINITY: Final = -1e4
_EPS_OF_40_BITS: Final = 2.0**-40


def _once(compute: Callable[[Any], Tensor]) -> property:
    """Return a property that is computed when it is first read.

    In place of `functools.cached_property`, whose lock torch.compile cannot see through.
    """
    name = compute.__name__

    def get(rows: Any) -> Tensor:
        if name not in rows._known:
            rows._known[name] = compute(rows)
        return rows._known[name]

    return property(get, doc=compute.__doc__)


class Rows:
    """Rows of logits, and what was computed of them so far."""

    def __init__(self, ops: Ops, logits: Tensor, n_classes: int) -> None:
        self.ops, self.n_classes = ops, n_classes
        self.logits = ops.working(logits)
        self._known: dict[str, Tensor] = {}

    @_once
    def top(self) -> Tensor:
        """Return the largest logit of each row."""
        return self.ops.row_max(self.logits)

    @_once
    def shifted(self) -> Tensor:
        """Return the logits minus the largest one."""
        return self.ops.finite(self.logits - self.top)

    @_once
    def pred(self) -> Tensor:
        """Return the predicted class of each row: the first of its largest logits."""
        return self.ops.argmax(self.logits)

    @_once
    def is_pred(self) -> Tensor:
        """Return whether a column is the predicted class, (n, K)."""
        return self.ops.equal(class_numbers(self.ops, self.n_classes), self.pred)

    @_once
    def ruled_out(self) -> Tensor:
        """Return whether a logit is -inf."""
        return self.ops.less(self.logits, self.ops.lowest)

    @_once
    def uniform(self) -> Tensor:
        """Return the uniform distribution over the classes that are not at -inf, in float64."""
        possible = self.ops.where(self.ruled_out, 0.0, self.ops.wide(self.logits) * 0.0 + 1.0)
        return possible / self.ops.row_sum(possible)

    @_once
    def _exponentials(self) -> Tensor:
        return self.ops.exp(self.shifted)

    @_once
    def _sums(self) -> Tensor:
        return self.ops.wide(self.ops.row_sum(self._exponentials))

    @_once
    def energy(self) -> Tensor:
        """Return the free energy F = -logsumexp(z), in float64."""
        return (self.ops.wide(self.top) + self.ops.log(self._sums)) * -1.0

    @_once
    def proba(self) -> Tensor:
        """Return the softmax."""
        return self.ops.softmax(self.shifted)

    @_once
    def wide_shifted(self) -> Tensor:
        """Return the logits minus the largest one, in float64 from the start."""
        return self.ops.finite(self.ops.wide(self.logits) - self.ops.wide(self.top))

    def steady_softmax(self, beta: Tensor | None = None) -> Tensor:
        """Return softmax(beta * z) with the bits of `Block.steady_softmax`, as float64."""
        e = self.ops.exp(self.wide_shifted if beta is None else self.wide_shifted * beta)
        return self._forty_bits(e * (1.0 / self.ops.row_sum(e)))

    def steady_others(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return what `Block.steady_others` does: a mass, exponentials and their sums."""
        e = self.ops.where(self.is_pred, 0.0, self.ops.exp(self.wide_shifted))
        sums = self.ops.row_sum(e)
        return self._steady(sums / (sums + 1.0)), e, sums

    def _steady(self, x: Tensor) -> Tensor:
        """Return x as float32 holds it, or with 40 bits where the logits are float64."""
        if self.ops.eps > _EPS_OF_40_BITS:
            return self.ops.wide(self.ops.narrow(x))
        return self._forty_bits(x)

    def _forty_bits(self, x: Tensor) -> Tensor:
        """Return a float64 with 40 significant bits."""
        t = x * SPLITTER
        return t - (t - x)

    def or_nan(self, x: Tensor) -> Tensor:
        """Return x, but NaN in rows without a softmax: those with NaN, +inf or nothing but -inf."""
        return self.ops.where(self.ops.less(0.0, self._sums), x, np.nan)

    def softmax(self, beta: Tensor) -> Tensor:
        """Return softmax(beta * z), beta in float64."""
        return self.ops.softmax(self.shifted * self.ops.narrow(beta))

    def confidence(self, beta: Tensor) -> Tensor:
        """Return the largest softmax probability at inverse temperature beta."""
        e = self.ops.exp(self.shifted * self.ops.narrow(beta))
        return 1.0 / self.ops.wide(self.ops.row_sum(e))

    @_once
    def entropy(self) -> Tensor:
        """Return the entropy of the softmax in nats, exact where it is tiny."""
        ops = self.ops
        others = ops.where(self.is_pred, 0.0, self._exponentials)
        rest = ops.wide(ops.row_sum(others))
        weighted = others * ops.maximum(self.shifted, _MINUS_INFINITY)
        return ops.log1p(rest) - ops.wide(ops.row_sum(weighted)) / (rest + 1.0)

    @_once
    def margin(self) -> Tensor:
        """Return the largest logit minus the second."""
        others = self.ops.where(self.is_pred, -np.inf, self.shifted)
        return self.ops.wide(self.ops.row_max(others)) * -1.0
