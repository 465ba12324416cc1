"""A stream as it was seen: estimated accuracy over time, and when it raised an alarm."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from wildcal._old.core.arrays import BoolArray, FloatArray
from wildcal._old.core.checks import check_count, check_lengths
from wildcal._old.plots.canvas import axis
from wildcal._old.report.style import CURVES, GROUPS
from wildcal._old.stream import StreamRows
from wildcal._old.stream.stream import DEFAULT_WINDOW

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def accuracy_over_time(
    rows: StreamRows,
    y: ArrayLike | None = None,
    *,
    window: int = DEFAULT_WINDOW,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the accuracy that a stream estimates, its interval, and shade where it has an alarm.

    Parameters
    ----------
    rows
        What `Stream.read` returned.
    y
        Labels of the same rows, where they came later: the true accuracy of the last `window` rows
        is drawn beside the estimate. A row with -1 counts as wrong.
    window
        That of the stream.
    ax
        Where to draw; a new axis if left out.
    """
    if not len(rows):
        raise ValueError("there are no rows to draw.")
    mine = axis(ax)
    number = rows.first + np.arange(len(rows))
    for start, stop in _spans(rows.alarm):
        label = "alarm" if "alarm" not in mine.get_legend_handles_labels()[1] else None
        # A span of one row is still to be seen.
        ends = number[start], max(number[stop - 1], number[start] + 1)
        mine.axvspan(*ends, color=GROUPS[1], alpha=0.25, linewidth=0, label=label)
    low, high = 100 * rows.accuracy_low, 100 * rows.accuracy_high
    mine.fill_between(
        number, low, high, color=CURVES[1], alpha=0.25, linewidth=0, label="95 % interval"
    )
    mine.plot(number, 100 * rows.accuracy, color=CURVES[1], label="estimated accuracy")
    if y is not None:
        labels = np.asarray(y)
        check_lengths("rows and y", rows.pred, labels)
        true = 100 * _rolling(rows.pred == labels, check_count("window", window))
        mine.plot(number, true, color="black", linestyle="--", label="accuracy, from labels")
    mine.set(xlabel="row", ylabel=f"accuracy of {window:,} rows (%)", ylim=(0, 100))
    mine.set_xlim(number[0], max(number[-1], number[0] + 1))
    mine.legend(loc="lower left", frameon=False)
    return mine


def _spans(flags: BoolArray) -> list[tuple[int, int]]:
    """Return where flags are true, as (first, after the last).

    >>> _spans(np.array([False, True, True, False, True]))
    [(1, 3), (4, 5)]
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def _rolling(right: BoolArray, window: int) -> FloatArray:
    """Return the share of right rows among the last `window` up to each.

    >>> _rolling(np.array([True, False, False]), 2)
    array([1. , 0.5, 0. ])
    """
    total = np.concatenate([[0], np.cumsum(right)])
    stop = np.arange(1, len(right) + 1)
    start = np.maximum(stop - window, 0)
    return np.asarray((total[stop] - total[start]) / (stop - start))
