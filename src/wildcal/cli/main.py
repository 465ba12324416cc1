"""The command group. An error becomes one line on stderr and an exit code: 1, or 2 for usage."""

import signal
import sys
import traceback
import warnings
from typing import Any

import click

from wildcal.calibrators import make_calibrator
from wildcal.cli.accuracy import accuracy
from wildcal.cli.apply import apply
from wildcal.cli.compare import compare
from wildcal.cli.corrupt import corrupt
from wildcal.cli.demo import demo
from wildcal.cli.evaluate import evaluate
from wildcal.cli.export import export
from wildcal.cli.extract import extract
from wildcal.cli.fit import fit
from wildcal.cli.groups import SuggestingGroup
from wildcal.cli.inspect import inspect
from wildcal.cli.merge import merge
from wildcal.cli.methods import methods
from wildcal.cli.output import warn
from wildcal.cli.report import report
from wildcal.cli.reproduce import reproduce
from wildcal.cli.serve import serve
from wildcal.cli.stream import stream
from wildcal.cli.suite_group import suite
from wildcal.cli.train import train
from wildcal.cli.words import as_flags
from wildcal.core.errors import CalibrationWarning, WildcalError
from wildcal.version import __version__


@click.group(
    cls=SuggestingGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="wildcal")
@click.option("--debug", is_flag=True, help="Show the full traceback of an error.")
@click.option(
    "--threads", type=click.IntRange(min=1), envvar="WILDCAL_THREADS", help="Kernel threads."
)
@click.option(
    "--use",
    "own",
    multiple=True,
    metavar="MODULE:CLASS",
    help="A method of your own, for files that were saved with it; repeatable.",
)
@click.pass_context
def cli(context: click.Context, debug: bool, threads: int | None, own: tuple[str, ...]) -> None:
    """Make a classifier's confidence mean what it says, on clean data and under shift.

    \b
    Example:
      wildcal fit val.npz -o auto.json
      wildcal evaluate test.npz --with auto.json
    """
    for name in own:
        if ":" not in name:
            raise click.UsageError(f"--use takes MODULE:CLASS, got {name!r}.")
        make_calibrator(name)
    # --debug is read by `run`, which catches the errors after this context is gone.
    if threads is not None:
        from wildcal.core.parallel import use_threads

        context.with_resource(use_threads(threads))


for command in (
    fit,
    apply,
    export,
    stream,
    merge,
    serve,
    evaluate,
    compare,
    accuracy,
    methods,
    inspect,
    corrupt,
    train,
    extract,
    suite,
    report,
    reproduce,
    demo,
):
    cli.add_command(command)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit."""
    words = sys.argv[1:] if arguments is None else arguments
    signal.signal(signal.SIGTERM, _interrupt)  # so that `kill` cleans up as Ctrl-C does
    sys.exit(run(words))


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def run(words: list[str]) -> int:
    """Run one command line and return its exit code."""
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        warnings.simplefilter("always", CalibrationWarning)
        try:
            code = cli.main(words, prog_name="wildcal", standalone_mode=False)
        except click.UsageError as error:
            error.show()
            return 2
        except (click.Abort, KeyboardInterrupt):
            warn("interrupted; no unfinished file was left.")
            return 1
        except BrokenPipeError:  # the reader of our output, such as `head`, has seen enough
            sys.stderr.close()
            return 1
        except Exception as error:  # whatever it was, a user gets one line
            if "--debug" in words:
                traceback.print_exc()
            text = " ".join(str(error).split()) or type(error).__name__
            if "unknown method" in text:
                text += ". A method of your own? Name it with --use MODULE:CLASS"
            expected = isinstance(error, WildcalError | ValueError | OSError | MemoryError)
            hint = "" if expected else f" ({type(error).__name__}; --debug shows where)"
            warn(f"error: {as_flags(text)}{hint}")
            return 1
    return code if isinstance(code, int) else 0  # a number is what `click.exceptions.Exit` held


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    warn(f"warning: {as_flags(str(message))}")
