"""What a map is: fitted numbers by name, and how they turn rows of logits into outputs."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wildcal.core.calibrator import Calibrator
from wildcal.interop.maps.ops import Ops, Tensor
from wildcal.interop.maps.rows import Rows

PROBABILITIES = "probabilities"
CONFIDENCE = "confidence"
TEMPERATURE = "temperature"
ENERGY = "energy"
CONTEXT = "context"
DISTANCES = "distances"
STATISTICS = "statistics"

Inputs = Mapping[str, Tensor]
Outputs = dict[str, Tensor]


class Map(ABC):
    """A fitted calibrator, written for any backend.

    A method keeps its fitted numbers in `__init__` and supplies `apply`. Which operations it uses
    may depend on options and on the shape of its numbers, never on their values: so a torch module
    can load other numbers.

    Attributes
    ----------
    parameters
        The fitted numbers by name: float64, or int64 for positions in a table.
    layout
        Plain values that say which operations are used; two maps with the same layout differ in
        their numbers only.
    """

    gives: ClassVar[tuple[str, ...]] = ()
    """Outputs beside probabilities, confidence and energy."""
    reads: ClassVar[tuple[str, ...]] = ()
    """Inputs beside the logits."""

    def __init__(self, calibrator: Calibrator, prefix: str = "") -> None:
        self.name, self.n_classes = calibrator.name, calibrator.n_classes_
        self.prefix = prefix
        self.parameters: dict[str, NDArray[Any]] = {}
        self.layout: dict[str, Any] = {"method": self.name, "n_classes": self.n_classes}

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of all outputs, in their order."""
        last = tuple(name for name in self.gives if name != TEMPERATURE)
        first = (TEMPERATURE,) if TEMPERATURE in self.gives else ()
        return (PROBABILITIES, CONFIDENCE, *first, ENERGY, *last)

    def width(self, name: str) -> int | None:
        """Return the number of columns of an input or output, None where it is one number."""
        return {PROBABILITIES: self.n_classes, "logits": self.n_classes}.get(name)

    def keep(self, **values: ArrayLike) -> None:
        """Keep fitted numbers under their names."""
        for name, value in values.items():
            array = np.asarray(value)
            dtype = np.int64 if array.dtype.kind in "iub" else np.float64
            # In one layout, so that a product rounds alike wherever it was copied to.
            self.parameters[self.prefix + name] = np.array(array, dtype, order="C")

    def get(self, ops: Ops, name: str) -> Tensor:
        """Return a fitted number or table."""
        return ops.parameter(self.prefix + name)

    @abstractmethod
    def apply(self, rows: Rows, inputs: Inputs, wanted: Collection[str]) -> Outputs:
        """Return the probabilities, and those of `gives` that are wanted, for one row as (n, 1)."""


def run(
    fitted: Map, ops: Ops, logits: Tensor, inputs: Inputs, wanted: Collection[str] | None = None
) -> Outputs:
    """Return the outputs of a map for rows of logits, in the order of their names."""
    wanted = fitted.outputs if wanted is None else wanted
    rows = Rows(ops, logits, fitted.n_classes)
    found = fitted.apply(rows, inputs, wanted)
    if CONFIDENCE in wanted:
        found[CONFIDENCE] = ops.pick(found[PROBABILITIES], rows.pred)
    if ENERGY in wanted:
        found[ENERGY] = ops.narrow(rows.energy)
    return {
        name: found[name] if fitted.width(name) is not None else ops.flat(ops.narrow(found[name]))
        for name in fitted.outputs
        if name in wanted
    }
