"""`wildcal serve`: calibrators as a service."""

import logging
from pathlib import Path

import click

from wildcal._old.cli.options import (
    PATH,
    alarm_option,
    false_alarms_option,
    on_alarm_option,
    per_100k_option,
    quiet_option,
)
from wildcal._old.cli.output import is_quiet, say
from wildcal._old.cli.saving import SAVE_EVERY, SaveEvery
from wildcal._old.io.artifact import load_with_about
from wildcal._old.io.files import check_writable


@click.command(no_args_is_help=True)
@click.argument("calibrators", nargs=-1, required=True, metavar="[NAME=]CALIBRATOR...")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535))
@click.option(
    "--token-file", type=PATH, help="Bearer tokens, one a line; without it, anyone may ask."
)
@click.option("--state", type=PATH, metavar="FOLDER", help="Where windows are kept on disk.")
@click.option(
    "--save-every",
    type=SAVE_EVERY,
    default="10s",
    show_default=True,
    help="Save windows after so many seconds (10s) or rows of a stream (500).",
)
@click.option("--window", default=256, show_default=True, type=int, help="Rows in a window.")
@alarm_option
@per_100k_option
@false_alarms_option
@on_alarm_option
@click.option(
    "--max-streams",
    default=1000,
    show_default=True,
    type=click.IntRange(min=1),
    help="Windows in memory; the least recently used go to disk.",
)
@click.option(
    "--max-rows", default=65536, show_default=True, type=click.IntRange(min=1), help="A request."
)
@click.option(
    "--max-bytes",
    default=1 << 24,
    show_default=True,
    type=click.IntRange(min=1),
    help="Of a request's body.",
)
@click.option(
    "--max-connections", default=1000, show_default=True, type=click.IntRange(min=1), help="Open."
)
@quiet_option
def serve(
    calibrators: tuple[str, ...],
    host: str,
    port: int,
    token_file: Path | None,
    state: Path | None,
    save_every: SaveEvery,
    window: int,
    alarm: str,
    per_100k: float,
    false_alarms: float,
    on_alarm: str | None,
    max_streams: int,
    max_rows: int,
    max_bytes: int,
    max_connections: int,
) -> None:
    """Serve saved calibrators by the Open Inference Protocol, which KServe and Triton speak.

    A calibrator is called by its file's name, or by NAME in NAME=FILE. Calibrators of the method
    `context` keep a window for each stream that requests name. /metrics is for Prometheus.
    Needs pip install 'wildcal[serve]'.

    \b
    Example:
      wildcal serve resnet=context.json --state windows
      curl localhost:8000/v2/models/resnet
    """
    # Here, so that the other commands do not wait for the import.
    from wildcal._old.serve.app import Settings
    from wildcal._old.serve.lanes import Windows
    from wildcal._old.serve.limits import Limits
    from wildcal._old.serve.model import Model
    from wildcal._old.serve.run import run
    from wildcal._old.serve.tokens import Tokens
    from wildcal._old.stream.hook import Hook

    models = []
    for name, path in map(_named, calibrators):
        fitted, about = load_with_about(path)
        models.append(Model(name, fitted, about))
        if models[-1].calibrator.name != fitted.name:
            say(f"note: {name}: served without windows, by its base {models[-1].calibrator.name}.")
    if state is not None:
        state.mkdir(parents=True, exist_ok=True)
        check_writable(state / "windows")
    settings = Settings(
        windows=Windows(window, false_alarms, alarm, per_100k),
        limits=Limits(
            streams=max_streams, rows=max_rows, body_bytes=max_bytes, connections=max_connections
        ),
        tokens=Tokens([]) if token_file is None else Tokens.read(token_file),
        state=state,
        save_seconds=save_every.seconds,
        save_rows=save_every.rows,
        hook=None if on_alarm is None else Hook(on_alarm),
    )
    for model in models:
        kept = settings.windows.new(model)  # so that a bad --window is told before any request
        if kept is None and "window" in model.calibrator.reads:
            say(
                f"note: {model.name}: a server keeps windows for the method context alone; with"
                f" {model.calibrator.name} each row is read as a clean one."
            )
    logging.basicConfig(format="%(message)s", level="WARNING" if is_quiet() else "INFO")
    logging.getLogger("uvicorn").propagate = False
    try:
        run(models, settings, host, port, say)
    except KeyboardInterrupt:  # which uvicorn raises again when all is done
        say("Stopped." if state is None else f"Stopped; windows are in {state}.")


def _named(word: str) -> tuple[str, Path]:
    """Return the name and the file of NAME=FILE, or of FILE alone."""
    name, equals, path = word.partition("=")
    return (name, Path(path)) if equals else (Path(word).stem, Path(word))
