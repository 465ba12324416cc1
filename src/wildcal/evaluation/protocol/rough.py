"""Warnings of metrics on many cells: collected, and told once with the first cell's name."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from wildcal.core.errors import CalibrationWarning


class Rough:
    """What metrics warned of, by the kind of the warning.

    >>> rough = Rough()
    >>> for split in ("fog-1", "fog-2"):
    ...     with rough.named(f"ts on {split}"):
    ...         warnings.warn("kde_ece is rough: too few rows.", CalibrationWarning)
    >>> rough.told()
    ['ts on fog-1: kde_ece is rough: too few rows. So it is in 1 more.']
    """

    def __init__(self) -> None:
        self._found: dict[str, list[str]] = {}

    @contextmanager
    def named(self, place: str) -> Iterator[None]:
        """Collect the warnings of what is computed inside, under the name of a place."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        for each in caught:
            if issubclass(each.category, CalibrationWarning):
                kind = str(each.message).partition(":")[0]
                self._found.setdefault(kind, []).append(f"{place}: {each.message}")
            else:
                warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)

    def told(self) -> list[str]:
        """Return each kind of warning once, with the first place and the number of the others."""
        return [
            first + (f" So it is in {len(others)} more." if others else "")
            for first, *others in self._found.values()
        ]

    def warn(self) -> None:
        """Warn of each kind once."""
        for text in self.told():
            warnings.warn(text, CalibrationWarning, stacklevel=2)
