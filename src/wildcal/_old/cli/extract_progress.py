"""How far an extraction is, in lines for a log that shows no bar."""

import time
from collections.abc import Callable

from wildcal._old.cli.output import say


class Steps:
    """A line for each tenth of the work, and at least one every few minutes.

    Parameters
    ----------
    total
        The rows of all the work.
    watched
        Whether a bar is shown, so that no lines are needed.
    every
        Seconds after which a line is due.
    clock
        Seconds since whenever.
    """

    def __init__(
        self,
        total: int,
        *,
        watched: bool,
        every: float = 120,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.total, self.watched = total, watched
        self._every, self._clock = every, clock
        self._computed = self._there = self._tenth = 0
        self._start = self._last = clock()

    @property
    def done(self) -> int:
        """The rows done, computed or found."""
        return self._computed + self._there

    def found(self, rows: int) -> None:
        """Count rows that were there; they say nothing of the rate."""
        self._there += rows
        self._tell()

    def add(self, rows: int) -> None:
        """Count rows that were computed."""
        self._computed += rows
        self._tell()

    def _tell(self) -> None:
        now, tenth = self._clock(), 10 * self.done // self.total
        if tenth > self._tenth or now - self._last >= self._every:
            self._tenth, self._last = tenth, now
            if not self.watched:
                say(f"{self.done:,} of {self.total:,} rows{self._rate(now)}.")

    def _rate(self, now: float) -> str:
        """Return the rate and the time left, once they can be told."""
        rate = self._computed / (now - self._start) if now > self._start else 0.0
        left = self.total - self.done
        if not rate or left <= 0:
            return ""
        seconds = left / rate
        if seconds >= 5400:
            return f", {rate:.3g} a second, about {seconds / 3600:.1f} hours left"
        words = f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{seconds:.0f} seconds"
        return f", {rate:.3g} a second, about {words} left"
