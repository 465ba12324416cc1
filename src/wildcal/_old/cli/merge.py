"""`wildcal merge`: the windows of several replicas as one."""

from pathlib import Path

import click

from wildcal._old.cli.options import PATH, json_option, quiet_option, refuse_same
from wildcal._old.cli.output import print_json, say, warn
from wildcal._old.cli.stream import window_map
from wildcal._old.io.files import check_writable


@click.command(no_args_is_help=True)
@click.argument("calibrator", type=PATH)
@click.argument("states", nargs=-1, required=True, type=PATH)
@click.option("-o", "--output", type=PATH, help="Write the merged window to this file.")
@click.option("--stream", "name", default="default", show_default=True, help="Of folders.")
@click.option("--model", help="Of folders.  [the name of the calibrator's file]")
@json_option
@quiet_option
def merge(
    calibrator: Path,
    states: tuple[Path, ...],
    output: Path | None,
    name: str,
    model: str | None,
    as_json: bool,
) -> None:
    """Put the windows of several replicas together, and say what they hold.

    STATES are files that `wildcal stream --state` wrote, or folders of `wildcal serve --state`, of
    which the window of one stream is taken. The merged window is as large as all of them together;
    `wildcal stream --state` goes on from it.

    \b
    Example:
      wildcal merge context.json a.json b.json -o both.json
      wildcal merge context.json replica-1/ replica-2/ --stream camera-7 --json
    """
    from wildcal._old.stream import Stream, merged
    from wildcal._old.stream.folder import stream_files

    refuse_same(output)
    if output is not None:
        check_writable(output)
    fitted, _ = window_map(calibrator)
    paths = [
        stream_files(path, model or calibrator.stem, name)[1] if path.is_dir() else path
        for path in states
    ]
    _refuse_twice(paths)
    streams = [Stream.load(path, fitted) for path in paths]
    _warn_of_copies([path for path, stream in zip(paths, streams, strict=True) if stream.seen])
    whole = merged(streams)
    if output is not None:
        whole.save(output)
    estimate, drift = whole.estimated_accuracy, whole.drift
    if as_json:
        print_json(
            {
                "rows": whole.seen,
                "window": estimate.n,
                "estimated_accuracy": estimate.to_dict(),
                "drift": drift.to_dict(),
            }
        )
        return
    value, low, high = (100 * v for v in (estimate.value, estimate.low, estimate.high))
    click.echo(
        f"{estimate.n:,} rows of {len(paths)} windows: estimated accuracy {value:.1f} %"
        f" ({low:.1f} to {high:.1f}), drift {drift.score:.1f}, threshold {drift.threshold:.1f},"
        f" {'alarm' if drift.alarm else 'no alarm'}."
    )
    if output is not None:
        say(f"wrote {output}")


def _refuse_twice(paths: list[Path]) -> None:
    """Raise where a file is given twice: its rows would count twice."""
    files = [path.resolve() for path in paths]
    for k, path in enumerate(paths):
        if files[k] in files[:k]:
            raise click.UsageError(f"{path} is given twice. Give the window of each replica once.")


def _warn_of_copies(paths: list[Path]) -> None:
    """Say where two files hold the same: two replicas hardly ever see the same rows."""
    contents = [path.read_bytes() for path in paths]
    for k, path in enumerate(paths):
        if contents[k] in contents[:k]:
            first = paths[contents.index(contents[k])]
            warn(f"warning: {path} and {first} hold the same rows, which count twice. A copy?")
