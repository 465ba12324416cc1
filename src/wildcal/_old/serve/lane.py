"""One stream of a model as the server sees it: its window, and what was seen of it."""

import asyncio
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wildcal._old.serve.recent import Recent
from wildcal._old.stream import Stream, StreamRows
from wildcal._old.stream.gauges import gauges
from wildcal._old.stream.labels import LateLabels

_POINTS: Final = 300
_ALARMS: Final = 50


@dataclass(slots=True)
class Lane:
    """What belongs to one stream of rows, such as a camera or a tenant."""

    model: str
    name: str
    live: Stream | None
    """Its window; None where each row is read alone."""
    rows: int = 0
    """Since it began; a window that was loaded counts its own."""
    recent: Recent = field(default_factory=Recent)
    """What the confidences of the last rows were like."""
    alarm: bool = False
    alarm_row: int | None = None
    """The row that raised the last alarm."""
    alarms: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_ALARMS))
    points: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_POINTS))
    """The past, for the page: a few hundred moments."""
    labels: LateLabels = field(default_factory=LateLabels)
    """What labels said that came later."""
    unsaved: int = 0
    """Rows since the window was written to disk."""
    closed: bool = False
    """It has gone to disk; whoever still holds it must ask for it again."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Whose rows are being read."""
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def note(self, confidence: NDArray[Any], found: StreamRows | None) -> dict[str, Any] | None:
        """Take note of rows that were answered; return the alarm that they raised, if they did."""
        n = len(confidence)
        self.rows += n
        self.unsaved += n
        self.recent.add(confidence)
        return None if found is None else self._alarm(found)

    def _alarm(self, found: StreamRows) -> dict[str, Any] | None:
        before, self.alarm = self.alarm, bool(found.alarm[-1])
        if before == self.alarm and (len(found) == 1 or (found.alarm == before).all()):
            return None
        rises = np.flatnonzero(np.diff(found.alarm, prepend=before) & found.alarm)
        if not len(rises):
            return None
        self.alarm_row = found.first + int(rises[-1]) + 1
        event = {"time": time.time(), "row": self.alarm_row, **self.now()}
        self.alarms.append(event)
        return event

    def now(self) -> dict[str, Any]:
        """Return what there is to say of the stream at this moment, as plain numbers."""
        found: dict[str, Any] = {
            "model": self.model,
            "stream": self.name,
            "rows": self.rows,
            "confidence": self.recent.mean if self.rows else None,
            **self.labels.summary(),
        }
        if self.live is None:
            return found
        since = None if self.alarm_row is None else self.rows - self.alarm_row
        return {**found, **gauges(self.live), "rows_since_alarm": since}
