"""The command group. An error becomes one line on stderr and an exit code: 1, or 2 for usage."""

import errno
import signal
import sys
import traceback
import warnings
from typing import Any, Final

import click

from wildcal._old.cli.closed import replace_closed
from wildcal._old.cli.groups import Later, LaterGroup
from wildcal._old.cli.output import warn
from wildcal._old.cli.words import as_flags
from wildcal._old.core.errors import CalibrationWarning, WildcalError
from wildcal.version import __version__

_MODULES: Final = {"suite": "suite_group"}  # where a module of that name is something else


@click.group(
    cls=LaterGroup,
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
        from wildcal._old.calibrators import make_calibrator

        make_calibrator(name)
    # --debug is read by `run`, which catches the errors after this context is gone.
    if threads is not None:
        from wildcal._old.core.parallel import use_threads

        context.with_resource(use_threads(threads))


_HELP: Final = {
    "accuracy": "Estimate the accuracy on rows without labels, with an interval.",
    "apply": "Apply a saved CALIBRATOR to ROWS, a file of scores, or - for standard input.",
    "compare": "Fit methods on TUNE and measure them on TEST; print a table, least ECE first.",
    "corrupt": "Corrupt IMAGES: fog, noise, blur, compression and 15 more, at 5 severities.",
    "demo": "Fit every method of the paper on real networks' logits and test it under shift.",
    "evaluate": "Evaluate ROWS with labels: as they are, and with each saved calibrator.",
    "export": "Write a saved CALIBRATOR as an ONNX file.",
    "extract": "Run a network over the images in the folder DATA and keep its logits as a suite.",
    "fit": "Fit a calibrator on held-out ROWS and save it.",
    "inspect": "Say what a saved CALIBRATOR does.",
    "merge": "Put the windows of several replicas together, and say what they hold.",
    "methods": (
        "List every method: what it needs, whether it keeps the predicted class, its reference."
    ),
    "report": "Fit methods, test them under shift, and write a page about it.",
    "reproduce": "Make the paper's tables and figures from suites.",
    "serve": (
        "Serve saved calibrators by the Open Inference Protocol, which KServe and Triton speak."
    ),
    "stream": "Calibrate rows from stdin with a saved CALIBRATOR of the method `context`.",
    "suite": "Work with suites: one network's logits on many splits, clean and shifted.",
    "train": "Train a network on the CIFAR images in the folder DATA.",
}
"""The commands, with the first sentence of each one's help; a test compares them."""

assert isinstance(cli, LaterGroup)
cli.later = {
    name: Later("wildcal._old.cli." + _MODULES.get(name, name), name, help)
    for name, help in _HELP.items()
}


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit."""
    words = sys.argv[1:] if arguments is None else arguments
    signal.signal(signal.SIGTERM, _interrupt)  # so that `kill` cleans up as Ctrl-C does
    sys.exit(run(words))


def _interrupt(number: int, _: object) -> None:
    raise KeyboardInterrupt(number)


def run(words: list[str]) -> int:
    """Run one command line and return its exit code."""
    replace_closed()
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        warnings.simplefilter("always", CalibrationWarning)
        try:
            code = cli.main(words, prog_name="wildcal", standalone_mode=False)
        except click.UsageError as error:
            error.show()
            return 2
        except (click.Abort, KeyboardInterrupt) as error:
            warn("interrupted; no unfinished file was left.")
            # click wraps what was raised, and its older versions do not name it as the cause.
            wrapped = (error, error.__cause__, error.__context__)
            raised = next((e for e in wrapped if isinstance(e, KeyboardInterrupt)), error)
            return 128 + (raised.args[0] if raised.args else signal.SIGINT)
        except BrokenPipeError:  # the reader of our output, such as `head`, has seen enough
            sys.stderr.close()
            return 1
        except Exception as error:  # whatever it was, a user gets one line
            if "--debug" in words:
                traceback.print_exc()
            text = " ".join(str(error).split()) or type(error).__name__
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                text = "cannot write standard output: no space is left there."  # files say so
            if "unknown method" in text:
                text += ". A method of your own? Name it with --use MODULE:CLASS"
            expected = isinstance(error, WildcalError | ValueError | OSError | MemoryError)
            hint = "" if expected else f" ({type(error).__name__}; --debug shows where)"
            warn(f"error: {as_flags(text)}{hint}")
            return 1
    return code if isinstance(code, int) else 0  # a number is what `click.exceptions.Exit` held


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    warn(f"warning: {as_flags(str(message))}")
