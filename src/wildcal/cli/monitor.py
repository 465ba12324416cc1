"""`wildcal monitor`: watch a stream of samples for drift."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray

from wildcal.cli import options as common
from wildcal.cli.output import say, warn
from wildcal.cli.types import COUNT, PATH
from wildcal.core.exceptions import FileFormatError, InputError

if TYPE_CHECKING:
    from wildcal.monitor import Monitor
    from wildcal.monitor.result import MonitorResult

ALERT_EXIT: Final = 3
"""The exit code of `--exit-on-alert`."""
_CHUNK: Final = 1 << 16
_MAX_LINE: Final = 1 << 24
_STATUS: Final = (
    *("estimated_accuracy", "estimated_accuracy_low", "estimated_accuracy_high", "drift_alert"),
)


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


monitor_options = common.combined(
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
    "--log-every", type=COUNT, metavar="N", help="Write only the status, after every N samples."
)
@click.option("--skip-invalid", is_flag=True, help="Leave out samples that are not valid.")
def run_command(
    calibrator: Path,
    window: int,
    false_alert_rate: float,
    estimator: Path | None,
    state: Path | None,
    save_every: SaveEvery | None,
    **options: Any,
) -> None:
    """Calibrate samples from standard input and watch them for drift.

    A line of JSON is a list of scores, or an object with them (`logits`, or what the calibrator was
    fitted on) whose other fields are copied. The line of a sample with an `id` may be followed
    later by {"id": ..., "label": ...}. Output lines have the class, its confidence, the estimated
    accuracy of the window and whether there is a drift alert.

    \b
    Example:
      wildcal monitor run calibrator.json < logits.jsonl > confidence.jsonl
      tail -f live.jsonl | wildcal monitor run calibrator.json --state state.json --exit-on-alert
    """
    if save_every is not None and state is None:
        raise click.UsageError("--save-every needs --state, the file to write.")
    from wildcal.monitor import Monitor
    from wildcal.monitor.state import read_state

    fitted, watched = _load(calibrator, estimator)
    found = Monitor(fitted, window=window, false_alert_rate=false_alert_rate, estimator=watched)
    if state is not None and state.exists():
        found = found.restored(read_state(state), state)
        say(f"Continuing after sample {found.n_samples:,} of {state}.")
    runner = _Runner(found, **options)
    saved, last = found.n_samples, time.monotonic()
    try:
        for lines in _read_lines():
            runner.take(lines)
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
@common.output_option
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
    """Merge the states of several replicas: files, or folders of `serve`.

    \b
    Example:
      wildcal monitor merge calibrator.json a.json b.json -o both.json
      wildcal monitor merge calibrator.json replica-1/ replica-2/ --stream camera-7 -o both.json
    """
    from wildcal.monitor import Monitor
    from wildcal.monitor.state import stream_file

    fitted, watched = _load(calibrator, estimator)
    name = model or calibrator.stem
    if len({path.resolve() for path in states}) < len(states):
        raise InputError("states must be different files.", "states")
    parts = []
    for path in states:
        file = stream_file(path, name, stream) if path.is_dir() else path
        if not file.exists():
            raise FileFormatError(f"{path} has no stream {stream!r} of {name!r}.")
        parts.append(Monitor.load(file, fitted, estimator=watched))
    whole = reduce(Monitor.merged, parts)
    whole.save(output)
    say(f"{whole.n_samples:,} samples: {whole.status().message}.")


def _load(calibrator: Path, estimator: Path | None) -> tuple[Any, Any]:
    """Return a saved calibrator and, if there is a file, an accuracy estimator."""
    watched = None if estimator is None else common.load_fitted(estimator, "estimator")[0]
    return common.load_fitted(calibrator)[0], watched


class _Sample(NamedTuple):
    """A line with scores."""

    number: int
    scores: NDArray[Any]
    others: dict[str, Any]


@dataclass
class _Runner:
    """Takes lines of samples and labels into a monitor and writes the results."""

    monitor: "Monitor"
    on_alert: str | None
    exit_on_alert: bool
    proba: bool
    log_every: int | None
    skip_invalid: bool
    n_lines: int = 0
    n_skipped: int = 0

    def take(self, lines: list[bytes]) -> None:
        """Take in the samples of some lines, then the labels."""
        samples, labels = [], []
        for number, line in enumerate(lines, start=self.n_lines + 1):
            if not line.strip():
                continue
            try:
                document = json.loads(line)
                if self._is_label(document):
                    labels.append((number, document["id"], document["label"]))
                else:
                    samples.append(self._sample(number, document))
            except (ValueError, TypeError, RecursionError) as error:
                self._refuse(number, error)
        self.n_lines += len(lines)
        is_alert = self._update(samples) if samples else False
        for number, key, label in labels:
            try:
                self.monitor.label([key], [label])
            except InputError as error:
                self._refuse(number, error)
        if is_alert:
            self._report_alert()

    def _is_label(self, document: Any) -> bool:
        """Return whether a line has the label of an earlier sample."""
        if not isinstance(document, dict) or self.monitor.calibrator.input_ in document:
            return False
        return {"id", "label"} <= document.keys()

    def _sample(self, number: int, document: Any) -> _Sample:
        """Return the sample of a line: a list of scores, or an object with them."""
        calibrator = self.monitor.calibrator
        kind, n_classes = calibrator.input_, calibrator.n_classes_
        if not isinstance(document, dict):
            document = {kind: document}
        if kind not in document:
            raise InputError(f"it must have {kind!r}, or an id and a label.", "samples")
        scores = np.asarray(document.pop(kind), dtype=np.float64)
        shape = () if kind in ("score", "confidence") else (n_classes,)
        if scores.shape != shape:
            raise InputError(f"{kind} must have shape {shape}, got {scores.shape}.", "samples")
        return _Sample(number, scores, document)

    def _update(self, samples: list[_Sample]) -> bool:
        """Take samples in and write their lines; return whether there is a new alert."""
        before = self.monitor.n_samples
        scores = np.stack([sample.scores for sample in samples])
        ids = [sample.others.get("id") for sample in samples]
        try:
            result = self.monitor.update(scores, ids)
        except InputError as error:
            if len(samples) > 1:  # one by one, to find those that are not valid
                return any([self._update([sample]) for sample in samples])
            self._refuse(samples[0].number, error)
            return False
        self._write(result, samples, before)
        return bool(result.alerts)

    def _refuse(self, number: int, error: Exception) -> None:
        """End at a line that is not valid, or leave it out."""
        problem = f"line {number}: {error}"
        if not self.skip_invalid:
            raise FileFormatError(f"{problem} --skip-invalid leaves such lines out.") from error
        self.n_skipped += 1
        say(f"skipped: {problem}")

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
            raise click.exceptions.Exit(ALERT_EXIT)

    def _write(self, result: "MonitorResult", samples: list[_Sample], before: int) -> None:
        """Write the lines of samples, or the status if it is due."""
        status = self.monitor.status().to_dict()
        if self.log_every is not None:
            if before // self.log_every < self.monitor.n_samples // self.log_every:
                click.echo(json.dumps(status))
            return
        names = self.monitor.calibrator.class_names_
        shown = {name: status[name] for name in _STATUS}
        for i, sample in enumerate(samples):
            k = int(result.predicted[i])
            line = {**sample.others, "class": k if names is None else names[k]}
            line["confidence"] = float(result.confidence[i])
            if self.proba:
                line["proba"] = result.probabilities[i].tolist()
            sys.stdout.write(json.dumps({**line, **shown}) + "\n")
        sys.stdout.flush()


def _read_lines() -> Iterator[list[bytes]]:
    """Yield the lines that are there whenever standard input is read."""
    stdin: Any = sys.stdin.buffer
    rest = b""
    while chunk := stdin.read1(_CHUNK):
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > _MAX_LINE:
            raise FileFormatError("standard input must have lines of at most 16 MB.")
        yield lines
    yield [rest]
