"""Warnings of metrics on many cells: collected, and told once with the first cell's name."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from wildcal._old.core.errors import CalibrationWarning


class Rough:
    """What metrics warned of, by the kind of the warning.

    >>> rough = Rough()
    >>> for split in ("fog-1", "fog-2"):
    ...     with rough.collected():
    ...         rough.place = f"ts on {split}"
    ...         warnings.warn("kde_ece is rough: too few rows.", CalibrationWarning)
    >>> rough.told()
    ['ts on fog-1: kde_ece is rough: too few rows. So it is in 1 more.']
    """

    def __init__(self) -> None:
        self.place = ""
        """The name under which what comes next is collected."""
        self._found: dict[str, list[str]] = {}

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Collect the warnings of what is computed inside; others are handed on at the end."""
        others: list[tuple[Warning, type[Warning], str, int]] = []

        def take(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: Any = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, CalibrationWarning):
                kind = str(message).partition(":")[0]
                self._found.setdefault(kind, []).append(f"{self.place}: {message}")
            else:
                text = message if isinstance(message, Warning) else category(message)
                others.append((text, category, filename, lineno))

        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = take
            yield
        for each in others:
            warnings.warn_explicit(*each)

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
