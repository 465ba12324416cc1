"""`wildcal serve`: serve calibrators over HTTP."""

from pathlib import Path
from typing import Any

import click

from wildcal.cli import options as common
from wildcal.cli.monitor import SaveEvery, monitor_options, save_interval
from wildcal.cli.output import say
from wildcal.cli.types import COUNT, PATH
from wildcal.core.exceptions import InputError, WildcalError


@click.command(no_args_is_help=True)
@click.argument("calibrators", nargs=-1, required=True, metavar="[NAME=]CALIBRATOR...")
@click.option("--host", default="127.0.0.1", help="Address to listen on.")
@click.option("--port", default=8000, type=click.IntRange(0, 65535))
@click.option("--token-file", type=PATH, help="Bearer tokens, one per line. [no token is needed]")
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="Name in the Host header to accept without tokens, besides localhost and IP addresses.",
)
@click.option("--state", type=PATH, metavar="FOLDER", help="Keep the streams in this folder.")
@click.option(
    "--save-every",
    callback=save_interval,
    metavar="SECONDS|SAMPLES",
    default="10s",
    help="When to save streams: 10s every ten seconds, 500 after every 500 samples.",
)
@monitor_options
@click.option(
    "--estimator",
    "estimators",
    multiple=True,
    metavar="[NAME=]FILE",
    help="A saved accuracy estimator of the calibrator NAME, instead of ATC; repeatable.",
)
@click.option("--max-streams", default=1000, type=COUNT, help="Streams in memory, others on disk.")
@click.option("--max-samples", default=65536, type=COUNT, help="Samples of one request.")
@click.option("--max-bytes", default=1 << 24, type=COUNT, help="Bytes of the body of one request.")
@click.option("--max-connections", default=1000, type=COUNT, help="Open connections.")
def serve(
    calibrators: tuple[str, ...],
    host: str,
    port: int,
    token_file: Path | None,
    hosts: tuple[str, ...],
    state: Path | None,
    save_every: SaveEvery,
    estimators: tuple[str, ...],
    **options: Any,
) -> None:
    """Serve saved calibrators by the Open Inference Protocol, as KServe and Triton do.

    The root URL is a dashboard: estimated accuracy, drift and alerts of each stream.
    /metrics is for Prometheus. Needs the extra `serve`.

    \b
    Example:
      wildcal serve resnet=calibrator.json --state streams
      curl localhost:8000/v2/models/resnet
    """
    from wildcal.serve.app import Service
    from wildcal.serve.run import run
    from wildcal.serve.security import read_tokens
    from wildcal.serve.settings import Settings

    paths = dict(map(_named, calibrators))
    if len(paths) < len(calibrators):
        raise InputError("calibrators must have different names. Try NAME=FILE.", "calibrators")
    settings = Settings(
        tokens=() if token_file is None else read_tokens(token_file),
        hosts=(host, *hosts),
        state=state,
        save_seconds=save_every.seconds,
        save_samples=save_every.samples,
        **options,
    )
    watched = {}
    for word in estimators:
        name, path = _named(word) if "=" in word else (next(iter(paths)), Path(word))
        if name not in paths:
            raise InputError(f"estimators must name a calibrator, got {name!r}.", "estimators")
        watched[name] = common.load_fitted(path, "estimator")[0]
    fitted = {name: common.load_fitted(path)[0] for name, path in paths.items()}
    service = Service(fitted, settings, watched)
    for stream in service.streams.all():
        say(f"Continuing {stream.model}/{stream.name} after sample {stream.monitor.n_samples:,}.")
    if token_file is None and host not in ("127.0.0.1", "localhost", "::1"):
        text = f"Warning: everybody who reaches {host} can use this server. Try --token-file."
        click.echo(text, err=True)
    saved = run(service, host, port, lambda text: click.echo(text, err=True))
    if not saved:
        raise WildcalError(f"the streams could not be saved in {state}.")
    say("Stopped." if state is None else f"Stopped. The streams are in {state}.")


def _named(word: str) -> tuple[str, Path]:
    name, equals, path = word.partition("=")
    return (name, Path(path)) if equals else (Path(word).stem, Path(word))
