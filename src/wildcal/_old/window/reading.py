"""What a window of unlabeled rows told a fitted method, as a few numbers."""

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True)
class WindowReading:
    """The context that a method of this room makes of a window; it belongs to that method."""

    method: str
    """Short name of the calibrator that made it."""
    n: int
    """Rows in the window."""
    numbers: tuple[float, ...]
    """A temperature, or a weight for each class."""
