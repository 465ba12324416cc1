"""What a window of unlabeled rows told a fitted method, as a few numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

# More rows than this are not counted exactly by floats, and not met.
_MOST: Final = 1 << 53


@final
@dataclass(frozen=True, slots=True)
class WindowReading:
    """The context that a method of this room makes of a window; it belongs to that method.

    >>> reading = WindowReading("ace", 128, (1.7,))
    >>> WindowReading.from_dict(reading.to_dict()) == reading
    True
    """

    method: str
    """Short name of the calibrator that made it."""
    n: int
    """Rows in the window."""
    numbers: tuple[float, ...]
    """A temperature, or a weight for each class."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and lists, ready for JSON."""
        return {"method": self.method, "n": self.n, "numbers": list(self.numbers)}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> "WindowReading":
        """Return the reading that `to_dict` described; raise a ValueError if it cannot be one."""
        try:
            method, n, numbers = document["method"], document["n"], document["numbers"]
        except (KeyError, TypeError) as error:
            raise ValueError(f"this is not the reading of a window: {error!r:.80}.") from error
        if type(method) is not str or type(n) is not int or not 0 <= n <= _MOST:
            raise ValueError("a reading must have the name of its method and a count of rows.")
        if not isinstance(numbers, list | tuple) or not all(
            type(x) in (int, float) and np.isfinite(x) and x >= 0 for x in numbers
        ):
            raise ValueError("the numbers of a reading must be finite and not negative.")
        return cls(method, n, tuple(float(x) for x in numbers))
