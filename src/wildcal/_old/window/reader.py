"""Calibrators that read a window: a few numbers of it, which then serve every row alike."""

import warnings
from abc import abstractmethod
from collections import Counter
from typing import Any, ClassVar, NamedTuple

import numpy as np

from wildcal._old.core.arrays import FloatArray, Labels, Logits
from wildcal._old.core.block import Block
from wildcal._old.core.bound import Bound, bound_constant, bound_temperature
from wildcal._old.core.calibrator import Calibrator
from wildcal._old.core.checks import check_temperature
from wildcal._old.core.errors import CalibrationWarning
from wildcal._old.core.one_thread import one_thread
from wildcal._old.core.room import loaded_for
from wildcal._old.core.rows import Rows
from wildcal._old.core.softmax import predicted_class
from wildcal._old.window.reading import WindowReading


class Told(NamedTuple):
    """What one window told."""

    numbers: FloatArray
    notes: tuple[str, ...] = ()
    """What deserves a look, in words that are the same for every window."""


class WindowReader(Calibrator):
    """A calibrator that makes a few numbers of a window and applies them to each of its rows.

    A method supplies `_read` of the rows of a window, `_alone`, the numbers of a row that is read
    without one, and `_apply`. What it says of a row depends on the row and on these numbers.
    """

    shift_invariant: ClassVar[bool] = True
    reads: ClassVar[frozenset[str]] = frozenset({"logits", "window"})

    @abstractmethod
    def _read(self, logits: Logits) -> Told:
        """Return what the rows of a window tell together."""

    @abstractmethod
    def _alone(self) -> FloatArray:
        """Return the numbers of a row without a window."""

    @abstractmethod
    def _apply(self, rows: Rows, numbers: FloatArray, which: Labels) -> Bound:
        """Return what is said of rows; row i belongs to the window with numbers[which[i]]."""

    def _context(self, rows: Rows) -> WindowReading:
        predicted_class(rows.logits)  # refuses NaN by its row
        told = self._told(loaded_for(rows, f"{type(self).__name__} with a window").logits[:])
        self._warn(Counter(told.notes), 1)
        return WindowReading(self.name, len(rows), tuple(told.numbers.tolist()))

    def _bind(self, rows: Rows) -> Bound:
        together = np.broadcast_to(np.int64(0), len(rows))
        if rows.context is not None:
            return self._apply(rows, self._numbers(rows.context)[None], together)
        if rows.window is None:
            return self._apply(rows, self._alone()[None], together)
        predicted_class(rows.logits)
        logits = rows.logits[:]
        names, which = np.unique(rows.window, return_inverse=True)
        order = np.argsort(which, kind="stable")
        parts = np.split(order, np.searchsorted(which[order], np.arange(1, len(names))))
        told = [self._told(logits[part]) for part in parts]
        self._warn(Counter(note for one in told for note in one.notes), len(told))
        numbers = np.array([one.numbers for one in told]) if told else self._alone()[None]
        return self._apply(rows, numbers, which)

    @one_thread()
    def _told(self, logits: Logits) -> Told:
        return self._read(logits) if len(logits) else Told(self._alone())

    def _warn(self, notes: Counter[str], n_windows: int) -> None:
        for note, count in notes.items():
            where = f"in {count} of {n_windows} windows " if n_windows > 1 else ""
            warnings.warn(f"{self.name}: {where}{note}", CalibrationWarning, stacklevel=4)

    def _numbers(self, context: Any) -> FloatArray:
        """Return the numbers of a context, which must be one of this method."""
        if not isinstance(context, WindowReading) or context.method != self.name:
            given = context.method if isinstance(context, WindowReading) else type(context).__name__
            raise ValueError(
                f"context must be what the method `context` of {self.name} returns for a window of"
                f" logits, got that of {given}."
            )
        numbers = np.array(context.numbers, np.float64)
        if numbers.shape != self._alone().shape:
            raise ValueError(
                f"context must hold {len(self._alone())} numbers, got {len(context.numbers)}."
            )
        return numbers


class WindowTemperature(WindowReader):
    """softmax(z / T) with one T for each window; a row without a window has that of clean rows."""

    preserves_accuracy: ClassVar[bool] = True
    temperature_: float
    """That of the clean rows."""

    def _alone(self) -> FloatArray:
        return np.array([self.temperature_])

    def _numbers(self, context: Any) -> FloatArray:
        numbers = super()._numbers(context)
        check_temperature("the temperature of the context", float(numbers[0]))
        return numbers

    def _apply(self, rows: Rows, numbers: FloatArray, which: Labels) -> Bound:
        if len(numbers) == 1:
            return bound_constant(rows.logits, float(numbers[0, 0]))
        divisor = numbers[which, 0]

        def temperature(block: Block) -> FloatArray:
            return np.asarray(divisor[block.rows])

        return bound_temperature(rows.logits, temperature)
