"""`wildcal monitor`: watch a stream of samples for drift."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
import numpy as np

from wildcal.cli.options import PATH, combined, output_option
from wildcal.cli.output import say, warn
from wildcal.core.exceptions import FileFormatError, InputError
from wildcal.io.artifact import load

ALERT_EXIT: Final = 3
"""The exit code of `--exit-on-alert`."""
_CHUNK: Final = 1 << 16
_MAX_LINE: Final = 1 << 24


class SaveEvery(NamedTuple):
    """When to save: after some seconds or samples."""

    seconds: float | None = None
    samples: int | None = None


def save_interval(
    context: click.Context, option: click.Parameter, value: str | None
) -> SaveEvery | None:
    """Return what 10s or 500 says."""
    if value is None:
        return None
    with suppress(ValueError):
        if value.endswith("s") and float(value[:-1]) > 0:
            return SaveEvery(seconds=float(value[:-1]))
        if int(value) > 0:
            return SaveEvery(samples=int(value))
    raise click.BadParameter(f"must be seconds such as 10s, or samples such as 500, got {value!r}.")


monitor_options = combined(
    click.option("--window", default=400, type=int, help="Samples in the window."),
    click.option(
        "--false-alert-rate",
        default=0.01,
        type=float,
        help="Probability that an endless stream without drift ever raises an alert.",
    ),
    click.option(
        "--on-alert",
        metavar="COMMAND|URL",
        help="Run in the shell, with the alert as JSON on standard input; or post it there.",
    ),
)
estimator_option = click.option(
    "--estimator", type=PATH, help="A saved accuracy estimator (AC, DoC, ATC or CBPE). [ATC]"
)


@click.group()
def monitor() -> None:
    """Watch a stream of samples for drift, and estimate its accuracy.

    \b
    Example:
      wildcal monitor run calibrator.json < logits.jsonl > confidence.jsonl
    """


@monitor.command("run", no_args_is_help=True)
@click.argument("calibrator", type=PATH)
@monitor_options
@estimator_option
@click.option("--state", type=PATH, help="Continue from this file; write it at the end.")
@click.option(
    "--save-every",
    callback=save_interval,
    metavar="SECONDS|SAMPLES",
    help="Also write --state after seconds (10s) or samples (500).",
)
@click.option("--exit-on-alert", is_flag=True, help="End with exit code 3 at a drift alert.")
@click.option("--proba", is_flag=True, help="Also write the probability of every class.")
@click.option(
    "--log-every",
    type=click.IntRange(min=1),
    metavar="N",
    help="Write only the status, after every N samples.",
)
@click.option("--skip-invalid", is_flag=True, help="Leave out samples that are not valid.")
def run_command(
    calibrator: Path,
    window: int,
    false_alert_rate: float,
    on_alert: str | None,
    estimator: Path | None,
    state: Path | None,
    save_every: SaveEvery | None,
    exit_on_alert: bool,
    proba: bool,
    log_every: int | None,
    skip_invalid: bool,
) -> None:
    """Calibrate samples from standard input, one JSON line each, and watch them for drift.

    A line is a list of scores, or an object with them (`logits`, or what the calibrator was fitted
    on) whose other fields are copied. The line of a sample with an `id` may be followed later by
    {"id": ..., "label": ...}. Output lines have the class, its confidence, the estimated accuracy
    of the window and whether there is a drift alert.

    \b
    Example:
      wildcal monitor run calibrator.json < logits.jsonl > confidence.jsonl
      tail -f live.jsonl | wildcal monitor run calibrator.json --state state.json --exit-on-alert
    """
    if save_every is not None and state is None:
        raise click.UsageError("--save-every needs --state, the file to write.")
    from wildcal.monitor import Monitor

    fitted = load(calibrator)
    watched = None if estimator is None else load_estimator(estimator)
    found = Monitor(fitted, window=window, false_alert_rate=false_alert_rate, estimator=watched)
    if state is not None and state.exists():
        from wildcal.monitor.state import read_state

        found = found.restored(read_state(state), state)
        say(f"Continuing after sample {found.n_samples:,} of {state}.")
    runner = _Runner(found, on_alert, exit_on_alert, proba, log_every, skip_invalid)
    saved, last = found.n_samples, time.monotonic()
    try:
        for batch in _lines(fitted.input_, runner):
            runner.take(batch)
            if save_every is None or state is None:
                continue
            due = save_every.samples and found.n_samples - saved >= save_every.samples
            if due or (save_every.seconds and time.monotonic() - last >= save_every.seconds):
                found.save(state)
                saved, last = found.n_samples, time.monotonic()
    finally:
        if state is not None:
            found.save(state)
    skipped = f"; {runner.n_skipped:,} lines skipped" if runner.n_skipped else ""
    say(f"{found.n_samples:,} samples: {found.status().message}{skipped}.")


@monitor.command("merge", no_args_is_help=True)
@click.argument("calibrator", type=PATH)
@click.argument("states", type=PATH, nargs=-1, required=True)
@output_option
@estimator_option
@click.option("--model", help="With folders of `wildcal serve`: the model. [name of CALIBRATOR]")
@click.option("--stream", default="default", help="With folders: the stream.")
def merge_command(
    calibrator: Path,
    states: tuple[Path, ...],
    output: Path,
    estimator: Path | None,
    model: str | None,
    stream: str,
) -> None:
    """Put the states of several replicas together: files, or folders of `wildcal serve --state`.

    \b
    Example:
      wildcal monitor merge calibrator.json a.json b.json -o both.json
      wildcal monitor merge calibrator.json replica-1/ replica-2/ --stream camera-7 -o both.json
    """
    from wildcal.monitor import Monitor
    from wildcal.monitor.state import stream_file

    fitted = load(calibrator)
    watched = None if estimator is None else load_estimator(estimator)
    if len({path.resolve() for path in states}) < len(states):
        raise InputError("states must be different files.", "states")
    whole = None
    for path in states:
        file = stream_file(path, model or calibrator.stem, stream) if path.is_dir() else path
        if not file.exists():
            raise FileFormatError(
                f"{path} has no stream {stream!r} of {model or calibrator.stem!r}."
            )
        part = Monitor.load(file, fitted, estimator=watched)
        whole = part if whole is None else whole.merged(part)
    assert whole is not None
    whole.save(output)
    say(f"{whole.n_samples:,} samples: {whole.status().message}.")


def load_estimator(path: Path) -> Any:
    """Return the accuracy estimator in a file."""
    from wildcal.accuracy.base import AccuracyEstimator

    found = load(path)
    if not isinstance(found, AccuracyEstimator):
        raise InputError(
            f"estimator must be a file of an accuracy estimator, got {path}.", "estimator"
        )
    return found


@dataclass
class _Batch:
    """Samples that were read together."""

    scores: Any
    others: list[dict[str, Any]]
    ids: list[str | None] | None
    labels: list[tuple[str, Any]]
    place: str


@dataclass
class _Runner:
    """Takes samples into a monitor and writes the results."""

    monitor: Any
    on_alert: str | None
    exit_on_alert: bool
    proba: bool
    log_every: int | None
    skip_invalid: bool
    n_skipped: int = 0

    def refuse(self, problem: str) -> None:
        """End at a line that is not valid, or leave it out."""
        if not self.skip_invalid:
            raise FileFormatError(f"{problem} --skip-invalid leaves such lines out.")
        self.n_skipped += 1
        say(f"skipped: {problem}")

    def take(self, batch: _Batch) -> None:
        """Take samples and labels in and write their lines."""
        alerts: tuple[int, ...] = ()
        if len(batch.scores):
            before = self.monitor.n_samples
            try:
                result = self.monitor.update(batch.scores, batch.ids)
            except InputError as error:
                if len(batch.scores) == 1 or not self.skip_invalid:
                    self.refuse(f"{batch.place}: {error}")
                    return
                for i in range(len(batch.scores)):  # find those that are not valid
                    ids = None if batch.ids is None else batch.ids[i : i + 1]
                    own = slice(i, i + 1)
                    self.take(_Batch(batch.scores[own], batch.others[own], ids, [], batch.place))
                batch.scores = batch.scores[:0]
                return self.take(batch)
            alerts = result.alerts
            self._write(result, batch.others, before)
        for key, label in batch.labels:
            self.monitor.label([key], [label])
        if alerts:
            self._report_alert()

    def _report_alert(self) -> None:
        status = self.monitor.status()
        warn(f"drift alert: {status.message}.")
        if self.on_alert is not None:
            from wildcal.monitor.alerts import notify

            try:
                notify(self.on_alert, {"time": time.time(), **status.to_dict()})
            except (OSError, ValueError) as error:  # the stream continues
                warn(f"warning: {self.on_alert} did not get the alert: {error}.")
        if self.exit_on_alert:
            sys.stdout.flush()
            raise click.exceptions.Exit(ALERT_EXIT)

    def _write(self, result: Any, others: list[dict[str, Any]], before: int) -> None:
        if self.log_every is not None:
            n = self.monitor.n_samples
            if before // self.log_every < n // self.log_every:
                click.echo(json.dumps(self.monitor.status().to_dict()))
            return
        status, names = self.monitor.status(), self.monitor.calibrator.class_names_
        shared = {
            name: getattr(status, name)
            for name in ("estimated_accuracy", "estimated_accuracy_low", "estimated_accuracy_high")
        }
        lines = []
        for i, other in enumerate(others):
            k = int(result.predicted[i])
            line = {**other, "class": k if names is None else names[k]}
            line["confidence"] = float(result.confidence[i])
            if self.proba:
                line["proba"] = result.probabilities[i].tolist()
            lines.append(json.dumps({**line, **shared, "drift_alert": status.drift_alert}))
        click.echo("\n".join(lines))


def _lines(kind: str, runner: _Runner) -> Iterator[_Batch]:
    """Yield the lines that are there when standard input is read."""
    stdin: Any = sys.stdin.buffer
    rest, number = b"", 0
    while True:
        chunk = stdin.read1(_CHUNK)
        *lines, rest = (rest + chunk).split(b"\n")
        if not chunk:
            lines, rest = [rest], b""
        elif len(rest) > _MAX_LINE:
            raise FileFormatError(f"line {number + len(lines) + 1} is too long.")
        batch = _Batch([], [], [], [], f"line {number + 1}")
        for line in lines:
            number += 1
            if not line.strip():
                continue
            try:
                _add(batch, json.loads(line), kind)
            except (ValueError, RecursionError, InputError) as error:
                runner.refuse(f"line {number}: {error}")
        if batch.ids is not None and not any(batch.ids):
            batch.ids = None
        if batch.scores or batch.labels:
            batch.place = f"lines {batch.place[5:]} to {number}" if len(lines) > 1 else batch.place
            yield batch
        if not chunk:
            return


def _add(batch: _Batch, document: Any, kind: str) -> None:
    """Add a line to a batch."""
    if not isinstance(document, dict):
        document = {kind: document}
    if kind not in document:
        if "id" in document and "label" in document:
            batch.labels.append((str(document["id"]), document["label"]))
            return
        raise InputError(f"it must have {kind!r}, or an id and a label.", "samples")
    scores = np.asarray(document.pop(kind), dtype=np.float64)
    if batch.scores and scores.shape != batch.scores[0].shape:
        raise InputError(f"{kind} must have the length of the others.", "samples")
    batch.scores.append(scores)
    batch.others.append(document)
    assert batch.ids is not None
    batch.ids.append(str(document["id"]) if "id" in document else None)
