"""What `wildcal stream` writes: a line for each row, or one for many; and a file of gauges."""

import json
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from wildcal._old.cli.options import write_text
from wildcal._old.cli.stream_input import Batch
from wildcal._old.core.softmax import softmax_at

if TYPE_CHECKING:
    from wildcal._old.stream import Stream, StreamRows

CLOCK = "clock"
# Seconds between two writings of the gauges; nobody reads them more often.
_PAUSE = 1.0


class Lines:
    """Writes rows to standard output, and lets the reader of the pipe have them at once."""

    def __init__(self, time_field: str | None, proba: bool, every: int | None) -> None:
        self._time, self._proba = time_field, proba
        self._groups = None if every is None else _Groups(every)

    def write(self, rows: "StreamRows", batch: Batch) -> None:
        """Write what was said of the rows of a batch."""
        times = self._times(batch)
        if self._groups is not None:
            _echo(self._groups.add(rows, times))
            return
        columns: dict[str, list[Any]] = {
            **({"time": times} if times is not None else {}),
            "class": rows.pred.tolist(),
            "confidence": rows.confidence.tolist(),
            "temperature": rows.temperature.tolist(),
            **_window_columns(rows),
        }
        if self._proba:
            logits = np.asarray(batch.logits)
            columns["proba"] = softmax_at(logits, lambda b: rows.temperature[b.rows]).tolist()
        _echo(
            [
                {**other, **dict(zip(columns, values, strict=True))}
                for other, values in zip(
                    batch.others, zip(*columns.values(), strict=True), strict=True
                )
            ]
        )

    def end(self) -> None:
        """Write the rows that did not fill a group."""
        if self._groups is not None:
            _echo(self._groups.rest())

    def _times(self, batch: Batch) -> list[Any] | None:
        if self._time is None:
            return None
        if self._time == CLOCK:
            return [time.time()] * len(batch.others)
        return [other.get(self._time) for other in batch.others]


def _echo(lines: list[dict[str, Any]]) -> None:
    if lines:
        click.echo("\n".join(json.dumps(line, allow_nan=False) for line in lines))  # and flushes


def _window_columns(rows: "StreamRows") -> dict[str, list[Any]]:
    return {
        "estimated_accuracy": rows.accuracy.tolist(),
        "estimated_accuracy_low": rows.accuracy_low.tolist(),
        "estimated_accuracy_high": rows.accuracy_high.tolist(),
        "drift": rows.drift.tolist(),
        "alarm": rows.alarm.tolist(),
    }


class _Groups:
    """Gathers N rows to a line: their mean confidence, and their window at the last of them."""

    def __init__(self, every: int) -> None:
        self._every = every
        self._confidence: list[float] = []
        self._alarm = False
        self._times: tuple[Any, Any] | None = None
        self._last: dict[str, Any] = {}

    def add(self, rows: "StreamRows", times: list[Any] | None) -> list[dict[str, Any]]:
        """Take rows in; return the lines that they completed."""
        confidence, window = rows.confidence.tolist(), _window_columns(rows)
        lines, start = [], 0
        while start < len(rows):
            stop = min(len(rows), start + self._every - len(self._confidence))
            self._confidence += confidence[start:stop]
            self._alarm |= any(window["alarm"][start:stop])
            if times is not None:
                first = self._times[0] if self._times else times[start]
                self._times = (first, times[stop - 1])
            self._last = {name: values[stop - 1] for name, values in window.items()}
            self._last["row"] = rows.first + stop
            if len(self._confidence) == self._every:
                lines += self.rest()
            start = stop
        return lines

    def rest(self) -> list[dict[str, Any]]:
        """Return the line of what was gathered, if anything, and begin anew."""
        n = len(self._confidence)
        if not n:
            return []
        last = dict(self._last)
        line: dict[str, Any] = {"row": last.pop("row"), "rows": n}
        if self._times is not None:
            line |= {"time_first": self._times[0], "time_last": self._times[1]}
        # Exactly rounded, so that it does not matter how rows came in batches.
        line |= {"confidence": math.fsum(self._confidence) / n, **last, "alarm": self._alarm}
        self._confidence, self._alarm, self._times = [], False, None
        return [line]


class MetricsFile:
    """Keeps the gauges of a stream in a file, whole at every moment; without a file, nothing."""

    def __init__(self, live: "Stream", path: Path | None) -> None:
        self._live, self._path, self._written = live, path, -math.inf

    def look(self) -> None:
        """Write if the last time is some time ago."""
        if self._path is not None and time.monotonic() - self._written >= _PAUSE:
            self.write()

    def write(self) -> None:
        """Write now."""
        if self._path is None:
            return
        from wildcal._old.stream.gauges import gauges, textfile

        write_text(self._path, textfile(gauges(self._live)))
        self._written = time.monotonic()
