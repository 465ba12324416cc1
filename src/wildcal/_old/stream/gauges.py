"""What a stream says at one moment, as named numbers that a monitor reads."""

import math
from collections.abc import Mapping
from typing import Any, Final

from wildcal._old.stream.stream import Stream, StreamRows

GAUGES: Final = {
    "rows": "Rows of the stream since it began.",
    "window": "Rows in the window.",
    "confidence": "Mean confidence of the last rows.",
    "estimated_accuracy": "Accuracy of the window, estimated without labels.",
    "estimated_accuracy_low": "Lower end of its 95 % interval.",
    "estimated_accuracy_high": "Upper end of its 95 % interval.",
    "drift": "Distance of the window from clean rows, in standard errors.",
    "threshold": "The drift that a clean window seldom passes.",
    "alarm": "1 while the alarm rings.",
    "rows_since_alarm": "Rows since the alarm was last raised.",
}
"""Names and meanings; in Prometheus they begin with `wildcal_stream_`."""


def gauges(stream: Stream) -> dict[str, Any]:
    """Return what a stream says now; nothing of accuracy before its first row."""
    estimate, drift = stream.estimated_accuracy, stream.drift
    found = {
        "rows": stream.seen,
        "window": estimate.n,
        "estimated_accuracy": estimate.value,
        "estimated_accuracy_low": estimate.low,
        "estimated_accuracy_high": estimate.high,
        "drift": drift.score,
        "threshold": drift.threshold,
        "alarm": drift.alarm,
    }
    return {name: value for name, value in found.items() if not math.isnan(value)}


def gauges_at(stream: Stream, rows: StreamRows, i: int) -> dict[str, Any]:
    """Return what a stream said at one of the rows that it has read, and which one that was."""
    row = rows.first + i + 1
    return {
        "row": row,
        "rows": row,
        "window": min(row, stream.window),
        "estimated_accuracy": float(rows.accuracy[i]),
        "estimated_accuracy_low": float(rows.accuracy_low[i]),
        "estimated_accuracy_high": float(rows.accuracy_high[i]),
        "drift": float(rows.drift[i]),
        "threshold": stream.drift.threshold,
        "alarm": bool(rows.alarm[i]),
    }


def textfile(numbers: Mapping[str, Any]) -> str:
    r"""Return gauges as Prometheus reads them, for the textfile collector of its node exporter.

    Examples
    --------
    >>> print(textfile({"rows": 7, "alarm": False}), end="")
    # HELP wildcal_stream_rows Rows of the stream since it began.
    # TYPE wildcal_stream_rows gauge
    wildcal_stream_rows 7.0
    # HELP wildcal_stream_alarm 1 while the alarm rings.
    # TYPE wildcal_stream_alarm gauge
    wildcal_stream_alarm 0.0
    """
    lines = []
    for name, words in GAUGES.items():
        if numbers.get(name) is not None:
            full = f"wildcal_stream_{name}"
            lines += [
                f"# HELP {full} {words}",
                f"# TYPE {full} gauge",
                f"{full} {float(numbers[name])!r}",
            ]
    return "".join(line + "\n" for line in lines)
