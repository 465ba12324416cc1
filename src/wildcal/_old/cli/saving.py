"""`--save-every`: after so many seconds, or rows."""

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from wildcal._old.stream import Stream


@dataclass(frozen=True, slots=True)
class SaveEvery:
    """When a window is saved: one of the two is known."""

    seconds: float | None = None
    rows: int | None = None


class _SaveEvery(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    name = "SECONDSs|ROWS"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> SaveEvery:
        """Return what 10s or 500 stands for."""
        if isinstance(value, SaveEvery):
            return value
        text = str(value).strip()
        if re.fullmatch(r"[0-9]{1,9}", text) and int(text) > 0:
            return SaveEvery(rows=int(text))
        if re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?s", text) and float(text[:-1]) > 0:
            return SaveEvery(seconds=float(text[:-1]))
        self.fail(f"give seconds such as 10s, or rows such as 500, got {value!r}.", param, ctx)


SAVE_EVERY = _SaveEvery()


class Saver:
    """Writes the state of a stream when it is time, and at the end; without a file, never."""

    def __init__(self, live: "Stream", path: Path | None, every: SaveEvery | None) -> None:
        self._live, self._path, self._every = live, path, every or SaveEvery()
        self._note()

    def look(self) -> None:
        """Save if the time, or the row, has come."""
        rows, seconds = self._every.rows, self._every.seconds
        enough = rows is not None and self._live.seen - self._seen >= rows
        if enough or (seconds is not None and time.monotonic() - self._time >= seconds):
            self.save()

    def save(self) -> None:
        """Save now."""
        if self._path is not None:
            self._live.save(self._path)
            self._note()

    def _note(self) -> None:
        self._seen, self._time = self._live.seen, time.monotonic()
