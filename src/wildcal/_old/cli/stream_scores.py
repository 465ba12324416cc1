"""What a row of a stream is: logits, or the other scores that a calibrator was fitted on."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.arrays import working_dtype
from wildcal._old.io.artifact import About
from wildcal._old.io.tables.interpret import interpret


@dataclass(frozen=True, slots=True)
class Scores:
    """How the numbers of a row are read."""

    n_classes: int
    about: About

    @property
    def kind(self) -> str:
        """What the numbers are; the field of an object that holds them is called so."""
        return self.about.kind

    @property
    def widths(self) -> tuple[int, ...]:
        """How many numbers a row may have."""
        if self.kind == "score":
            return (1,)
        # Of two classes, one probability tells the other.
        return (2, 1) if self.kind == "proba" and self.n_classes == 2 else (self.n_classes,)

    @property
    def width_words(self) -> str:
        """How many numbers a row may have, in words."""
        return " or ".join(str(width) for width in self.widths)

    def read(self, rows: NDArray[Any]) -> tuple[NDArray[Any], dict[int, str]]:
        """Return the logits of rows, and what is wrong with those that cannot be what they should.

        Scores are judged row by row, so that what is said of one does not depend on those that
        happened to come with it.
        """
        if self.kind == "logits":  # a class may be ruled out, with -inf
            wrong = np.flatnonzero(~np.isfinite(rows.max(axis=1)))
            return rows, dict.fromkeys(wrong.tolist(), "logits must be finite.")
        found = np.zeros((len(rows), self.n_classes), working_dtype(rows.dtype))
        problems = {}
        for i in range(len(rows)):
            try:
                found[i] = self._logits(rows[i : i + 1])
            except ValueError as error:
                reason = str(error).partition(". ")[0].rstrip(".")  # what follows is about files
                problems[i] = f"the calibrator was fitted on {self.kind}, and {reason}."
        return found, problems

    def _logits(self, row: NDArray[Any]) -> NDArray[Any]:
        classes, floor = self.about.classes, self.about.floor
        return interpret(row, None, self.kind, classes, floor=floor, judge=True).logits
