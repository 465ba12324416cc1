"""Maps that read a window: its sums are an input, and what each row adds to them an output."""

from abc import abstractmethod
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from wildcal.calibrators import Context
from wildcal.interop.maps.base import CONTEXT, STATISTICS, TEMPERATURE, Inputs, Outputs
from wildcal.interop.maps.ops import Ops, Tensor
from wildcal.interop.maps.rows import Rows
from wildcal.interop.maps.temperatures import Scaling


def context_vector(context: Context) -> NDArray[np.float64]:
    """Return a context as the row of numbers that modules and graphs read.

    They are the rows of the window, the sums of their features, a count for each class, and for
    `context` the first and the last of the sums for each class: shape (1, 5 + 3 K).

    >>> context_vector(Context(n=2, sums=(1.5, 1.25, 1.0), counts=(2, 0), by_class=(1.5, 0.0)))
    array([[2.  , 1.5 , 1.25, 1.  , 2.  , 0.  , 1.5 , 0.  ]])
    """
    numbers = [context.n, *context.sums, *context.counts, *context.by_class]
    return np.array([numbers], np.float64)


class WindowScaling(Scaling):
    """A temperature that depends on the window of a row.

    The input `context` has a row of 1 + sums + K numbers, and K more for each sum that is kept for
    each class too; one for all rows, or one for each of them;
    zeros are no context. The output `statistics` has such a row for each row of logits: added up
    over the rows of a window, they are its context.
    """

    gives = (TEMPERATURE, STATISTICS)
    reads = (CONTEXT,)
    sums: int
    """How many features of a row are summed."""
    by_class: tuple[int, ...] = ()
    """Which of them are summed for each class too."""

    def width(self, name: str) -> int | None:
        """Return the number of columns of an input or output."""
        wide = name in (CONTEXT, STATISTICS)
        return self._columns(1 + len(self.by_class)) if wide else super().width(name)

    def apply(self, rows: Rows, inputs: Inputs, wanted: Collection[str]) -> Outputs:
        """Return the probabilities, the temperature and what a context is made of."""
        found = super().apply(rows, inputs, wanted)
        if STATISTICS in wanted:
            found[STATISTICS] = self._statistics(rows)
        return found

    def counts(self, ops: Ops, context: Tensor) -> Tensor:
        """Return the class counts of a context."""
        return ops.columns(context, self._columns(0), self._columns(1))

    def inside(self, ops: Ops, context: Tensor, which: int) -> Tensor:
        """Return one of the sums of a context for each class."""
        return ops.columns(context, self._columns(1 + which), self._columns(2 + which))

    def _columns(self, blocks: int) -> int:
        """Return how many columns there are up to the end of a block of classes."""
        return 1 + self.sums + self.n_classes * blocks

    @abstractmethod
    def features(self, rows: Rows) -> list[Tensor]:
        """Return the features of each row in float64, (n, 1) each."""

    def _statistics(self, rows: Rows) -> Tensor:
        """Return what each row adds to the context of a window."""
        ops, features = rows.ops, self.features(rows)
        sums = ops.side_by_side([features[0] * 0.0 + 1.0, *features])
        # Zeros of the right shape, where a class that is ruled out would make NaN of them.
        zeros = ops.where(rows.ruled_out, 0.0, rows.shifted * 0.0)
        counts = ops.where(rows.is_pred, 1.0, zeros)
        inside = [counts * ops.narrow(features[i]) for i in self.by_class]
        return ops.side_by_side([ops.narrow(sums), counts, *inside])
