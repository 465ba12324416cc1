"""`wildcal monitor`: watch a stream of samples for drift."""

import json
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
import numpy as np

from wildcal.cli import options as common
from wildcal.cli.output import check_output, say, warn
from wildcal.cli.types import COUNT, PATH
from wildcal.core.exceptions import FileFormatError, InputError

if TYPE_CHECKING:
    from wildcal.monitor import Monitor
    from wildcal.monitor.result import MonitorResult

ALERT_EXIT: Final = 3
"""The exit code of `--exit-on-alert`."""
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
    help="Also write --state: 10s every ten seconds, 500 after every 500 samples.  [at the end]",
)
@click.option("--exit-on-alert", is_flag=True, help="End with exit code 3 at a drift alert.")
@click.option("--proba", is_flag=True, help="Also write the probability of every class.")
@click.option(
    "--log-every", type=COUNT, metavar="N", help="Write only the status, every N samples."
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
    if state is not None:
        check_output(state, name="state")
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
        for number, line in enumerate(sys.stdin.buffer, start=1):
            if line.strip():
                runner.take(number, line)
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
        if path.is_dir() and not file.exists():
            text = f"{path} has no stream {stream!r} of {name!r}. Try --stream and --model."
            raise FileFormatError(text)
        parts.append(Monitor.load(file, fitted, estimator=watched))
    whole = reduce(Monitor.merged, parts)
    whole.save(output)
    say(f"{whole.n_samples:,} samples: {whole.status().message}.")


def _load(calibrator: Path, estimator: Path | None) -> tuple[Any, Any]:
    """Return a saved calibrator and, if there is a file, an accuracy estimator."""
    watched = None if estimator is None else common.load_fitted(estimator, "estimator")[0]
    return common.load_fitted(calibrator)[0], watched


@dataclass
class _Runner:
    """Takes lines of samples and labels into a monitor and writes the results."""

    monitor: "Monitor"
    on_alert: str | None
    exit_on_alert: bool
    proba: bool
    log_every: int | None
    skip_invalid: bool
    n_skipped: int = 0

    def take(self, number: int, line: bytes) -> None:
        """Take in a line and write the result of a sample; a line that is not valid ends the run.

        Samples are taken one by one, so that results do not depend on how fast lines arrive.
        """
        kind = self.monitor.calibrator.input_
        try:
            document = json.loads(line)
            if not isinstance(document, dict):
                document = {kind: document}
            if kind in document:
                result = self._update(document.pop(kind), document.get("id"))
            elif {"id", "label"} <= document.keys():
                self.monitor.label([document["id"]], [document["label"]])
                return
            else:
                raise InputError(f"it must have {kind!r}, or an id and a label.", "samples")
        except (ValueError, TypeError, RecursionError) as error:
            reason = "it must be JSON." if isinstance(error, json.JSONDecodeError) else error
            problem = f"line {number}: {reason}"
            if not self.skip_invalid:
                raise FileFormatError(f"{problem} --skip-invalid leaves such lines out.") from error
            self.n_skipped += 1
            say(f"skipped: {problem}")
            return
        self._write(result, document)
        if result.alerts:
            self._report_alert()

    def _update(self, values: Any, key: Any) -> "MonitorResult":
        """Take in the scores of a sample."""
        calibrator = self.monitor.calibrator
        scores = np.asarray(values, dtype=np.float64)
        shape = () if calibrator.input_ in ("score", "confidence") else (calibrator.n_classes_,)
        if scores.shape != shape:
            raise InputError(
                f"{calibrator.input_} must have shape {shape}, got {scores.shape}.", "samples"
            )
        return self.monitor.update(scores[None], [key])

    def _write(self, result: "MonitorResult", others: dict[str, Any]) -> None:
        """Write the line of a sample, or the status if it is due."""
        if self.log_every is not None and self.monitor.n_samples % self.log_every:
            return
        status = self.monitor.status().to_dict()
        if self.log_every is not None:
            click.echo(json.dumps(status))
            return
        k, names = int(result.predicted[0]), self.monitor.calibrator.class_names_
        line = {**others, "class": k if names is None else names[k]}
        line["confidence"] = float(result.confidence[0])
        if self.proba:
            line["proba"] = result.probabilities[0].tolist()
        click.echo(json.dumps({**line, **{name: status[name] for name in _STATUS}}))

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
