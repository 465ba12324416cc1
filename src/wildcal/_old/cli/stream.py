"""`wildcal stream`: calibrate rows from a pipe, and watch for drift."""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
import numpy as np
from click.core import ParameterSource

from wildcal._old.cli.options import (
    PATH,
    alarm_option,
    false_alarms_option,
    on_alarm_option,
    per_100k_option,
    quiet_option,
    refuse_same,
)
from wildcal._old.cli.output import say, warn
from wildcal._old.cli.saving import SAVE_EVERY, SaveEvery, Saver
from wildcal._old.cli.stream_input import Batch, read_json_lines, read_npy_arrays
from wildcal._old.cli.stream_output import Lines, MetricsFile
from wildcal._old.cli.stream_scores import Scores
from wildcal._old.core.errors import FileFormatError
from wildcal._old.io import About, load_with_about
from wildcal._old.io.files import check_writable, standard_input

if TYPE_CHECKING:
    from wildcal._old.calibrators.context import WindowMap
    from wildcal._old.stream import Stream, StreamRows

ALERT_EXIT = 3
"""The exit code of `--alert exit`."""


@click.command(no_args_is_help=True)
@click.argument("calibrator", type=PATH)
@click.option(
    "--window", default=256, show_default=True, type=int, help="Rows in the rolling context."
)
@click.option(
    "--state", type=PATH, help="Go on from this file if it is there; write it at the end."
)
@click.option(
    "--save-every",
    type=SAVE_EVERY,
    help="Also write --state after so many seconds (10s) or rows (500).",
)
@click.option(
    "--alert",
    type=click.Choice(["print", "exit"]),
    help="When drift passes the threshold: say so on stderr, or end with exit code 3.",
)
@alarm_option
@per_100k_option
@false_alarms_option
@click.option(
    "--format",
    "form",
    default="jsonl",
    show_default=True,
    type=click.Choice(["jsonl", "npy"]),
    help="JSON lines, or .npy arrays one after the other.",
)
@click.option("--proba", is_flag=True, help="Also write the probability of every class.")
@click.option(
    "--every",
    type=click.IntRange(min=1),
    metavar="N",
    help="One line for each N rows: means, and the window at the last of them.",
)
@click.option(
    "--time",
    "time_field",
    metavar="FIELD|clock",
    help="Where the time of a row is: a field of the input, or the clock when it is read.",
)
@click.option(
    "--metrics-file",
    type=PATH,
    help="Keep the last numbers in this file, for Prometheus' textfile collector.",
)
@on_alarm_option
@click.option("--skip-bad", is_flag=True, help="Leave out bad rows instead of ending there.")
@click.pass_context
@quiet_option
def stream(
    context: click.Context,
    calibrator: Path,
    window: int,
    state: Path | None,
    save_every: SaveEvery | None,
    alert: Literal["print", "exit"] | None,
    alarm: str,
    per_100k: float,
    false_alarms: float,
    form: str,
    proba: bool,
    every: int | None,
    time_field: str | None,
    metrics_file: Path | None,
    on_alarm: str | None,
    skip_bad: bool,
) -> None:
    """Calibrate rows from stdin with a saved CALIBRATOR of the method `context`.

    A line of input is a list of logits, or an object with `logits` whose other fields are copied;
    with a calibrator that was fitted on other scores (`fit --input proba`), of these. A line of
    output has, after these, the `class`, its calibrated `confidence`, the `temperature`,
    the `estimated_accuracy` of the last rows with its 95 % interval, the `drift` of these rows from
    clean ones, in standard errors, and whether that is an `alarm`. Each line is written at once.

    An alarm may begin at any row, or with --alarm window each time the window is all new. --state
    is also written when the command ends early: at a bad row, an alarm, Ctrl-C or SIGTERM;
    --save-every bounds what even `kill -9` or a power cut can lose. Exit codes: 0 at the end of the
    input, 1 for an error, 3 for an alarm with --alert exit.

    \b
    Example:
      wildcal stream context.json --alert print < logits.jsonl > proba.jsonl
      tail -f live.jsonl | wildcal stream context.json --state state.json --alert exit
    """
    if save_every is not None and state is None:
        raise click.UsageError("--save-every needs --state, the file to write.")
    refuse_same(metrics_file, "--metrics-file")
    for path in (state, metrics_file):
        if path is not None:
            check_writable(path)  # before the work, not after it
    if every is not None and proba:
        raise click.UsageError("--every and --proba exclude each other.")
    given = _given(context)
    decisions = {"false_alarms": false_alarms, "alarm": alarm, "false_alarms_per_100k": per_100k}
    names = dict(zip(decisions, ("false_alarms", "alarm", "per_100k"), strict=True))
    changed = {option: value for option, value in decisions.items() if names[option] in given}
    fitted, about = window_map(calibrator)
    live = _open(fitted, window if "window" in given else None, decisions, changed, state)
    reader = read_json_lines if form == "jsonl" else read_npy_arrays
    skipped = _Skipped(skip_bad)
    batches = reader(standard_input(), Scores(fitted.n_classes_, about), skipped)
    watch = _Watch(live, alert, on_alarm)
    saver = Saver(live, state, save_every)
    gauges = MetricsFile(live, metrics_file)
    lines = Lines(time_field, proba, every)
    try:
        for part in _parts(batches, live) if watch.stops else batches:
            rows = _read(live, part)
            lines.write(rows, part)
            gauges.look()
            watch(rows)
            saver.look()
        lines.end()
    finally:
        saver.save()
        gauges.write()
    say(f"{live.seen:,} rows in the stream{skipped}.")


def _given(context: click.Context) -> set[str]:
    """Return the names of the options that have another value than by default."""
    default = ParameterSource.DEFAULT
    return {name for name in context.params if context.get_parameter_source(name) is not default}


def _open(
    fitted: "WindowMap",
    window: int | None,
    decisions: dict[str, Any],
    changed: dict[str, Any],
    state: Path | None,
) -> "Stream":
    """Return the stream of a state, decided upon as was said; or a new one."""
    # Here, so that the other commands do not wait for the import.
    from wildcal._old.stream import Stream
    from wildcal._old.stream.stream import DEFAULT_WINDOW

    if state is None or not state.exists():
        return Stream(fitted, DEFAULT_WINDOW if window is None else window, **decisions)
    live = Stream.load(state, fitted, **changed)
    if window is not None and live.window != window:
        raise click.UsageError(
            f"{state} has a window of {live.window} rows, got --window {window}. Leave it out, or"
            " begin with another --state."
        )
    say(f"Going on after row {live.seen:,} of {state}.")
    return live


def window_map(path: Path) -> tuple["WindowMap", About]:
    """Return the calibrator in a file, which must read windows, and how its rows are read."""
    from wildcal._old.calibrators.context import WindowMap

    fitted, about = load_with_about(path)
    if not isinstance(fitted, WindowMap):
        raise FileFormatError(
            f"{path} holds {fitted.title}; a stream needs a calibrator made by"
            " `wildcal fit --method context`."
        )
    return fitted, about


def _parts(batches: Iterable[Batch], live: "Stream") -> Iterator[Batch]:
    """Yield the rows up to each decision about an alarm, so that an exit comes at that row."""
    for batch in batches:
        start, n = 0, len(batch.logits)
        while start < n:
            stop = min(n, start + live.rows_to_decision)
            yield Batch(batch.logits[start:stop], batch.others[start:stop], batch.where)
            start = stop


def _read(live: "Stream", batch: Batch) -> "StreamRows":
    try:
        return live.read(batch.logits)
    except ValueError as error:  # rows that cannot be logits, such as probabilities
        raise ValueError(f"{batch.where}: {error}") from error


class _Watch:
    """Says, tells or ends when the alarm rises."""

    def __init__(self, live: "Stream", alert: str | None, on_alarm: str | None) -> None:
        from wildcal._old.stream.hook import Hook

        self._live = live
        self._alert = alert
        self._hook = None if on_alarm is None else Hook(on_alarm)
        self._before = live.drift.alarm
        self.stops = alert == "exit"
        """Whether no row may be read beyond that of a decision."""

    def __call__(self, rows: "StreamRows") -> None:
        """Look at rows that were read; with `stops`, the last alone is one of a decision."""
        last, row = len(rows) - 1, -1
        for row in np.flatnonzero(np.diff(rows.alarm, prepend=self._before)).tolist():
            if rows.alarm[row]:
                self._tell(rows, row)
                self._warn(rows, row)
            elif self._alert:
                say(f"clean again at row {rows.first + row + 1:,}: {self._words(rows, row)}")
        self._before = bool(rows.alarm[last])
        decided = self._live.alarm == "sequential" or self._live.seen % self._live.window == 0
        if self.stops and decided and self._before:
            if row != last:  # it rang before
                self._warn(rows, last)
            raise click.exceptions.Exit(ALERT_EXIT)

    def _warn(self, rows: "StreamRows", i: int) -> None:
        if self._alert:
            warn(f"alarm at row {rows.first + i + 1:,}: {self._words(rows, i)}")

    def _tell(self, rows: "StreamRows", i: int) -> None:
        if self._hook is None:
            return
        from wildcal._old.stream.gauges import gauges_at

        try:
            self._hook.tell({"time": time.time(), **gauges_at(self._live, rows, i)})
        except (OSError, ValueError) as error:  # the stream goes on
            warn(f"warning: {self._hook.target} could not be told of the alarm: {error}.")

    def _words(self, rows: "StreamRows", i: int) -> str:
        estimate = (rows.accuracy[i], rows.accuracy_low[i], rows.accuracy_high[i])
        value, low, high = (100 * v for v in estimate)
        return (
            f"drift {rows.drift[i]:.1f}, threshold {self._live.drift.threshold:.1f}; estimated"
            f" accuracy {value:.1f} % ({low:.1f} to {high:.1f})."
        )


class _Skipped:
    """Ends at a bad row, or leaves it out and counts."""

    def __init__(self, allowed: bool) -> None:
        self._allowed = allowed
        self._n = 0

    def __call__(self, problem: str) -> None:
        if not self._allowed:
            raise FileFormatError(f"{problem} --skip-bad leaves such rows out.")
        self._n += 1
        say(f"skipped {problem}")

    def __str__(self) -> str:
        return f"; bad rows skipped: {self._n:,}" if self._n else ""
