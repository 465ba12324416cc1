"""The command `wildcal`. An error becomes one line on stderr and exit code 1, or 2 for usage."""

import os
import re
import signal
import sys
import traceback
import warnings
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import click

from wildcal.cli.output import check_options, warn
from wildcal.core.exceptions import CalibrationWarning, InputError, WildcalError
from wildcal.version import __version__

COMMANDS: Final = {
    "accuracy": "Estimate the accuracy on samples without labels.",
    "benchmark": "Fit methods on suites and test them on every split.",
    "compare": "Fit methods on calibration samples and evaluate them on test samples.",
    "compare-models": "Compare two models on the same samples.",
    "corrupt": "Corrupt images: fog, noise, blur, compression and 15 more.",
    "demo": "Benchmark the methods of the paper and auto on the installed suites.",
    "evaluate": "Measure the calibration of samples with labels.",
    "export": "Write a saved calibrator as an ONNX file.",
    "extract": "Run a model on images and write its logits as a suite.",
    "fit": "Fit a calibrator on held-out samples.",
    "methods": "List the methods.",
    "monitor": "Watch a stream of samples for drift.",
    "predict": "Add calibrated confidence to files of samples.",
    "report": "Fit methods, test them under shift, and write a page.",
    "reproduce": "Make the paper's tables and figures from suites.",
    "serve": "Serve calibrators by the Open Inference Protocol.",
    "show": "Describe a saved calibrator.",
    "suite": "List, show, create and export suites.",
    "train": "Train a network on CIFAR images.",
}
"""The commands and what they do. NAME is the function `name` of the module `wildcal.cli.name`."""

_RENAMED: Final = {
    "apply": "predict",
    "inspect": "show",
    "stream": "monitor run",
    "merge": "monitor merge",
    "suite make": "suite create",
    "suite rows": "suite export",
    "suite pack": "suite export",
    "suite compare": "benchmark",
    "suite report": "report",
    "suite fit": "fit --suite",
    "accuracy compare": "accuracy benchmark",
}
# Old names that resemble the new one are left out: click suggests it.
_RENAMED_OPTIONS: Final = {
    "--arrays": "--score-columns and --label-column",
    "--columns": "--score-columns",
    "--distances": "--knn-file",
    "--environments": "--domain-column",
    "--k": "--n-neighbors",
    "--labels": "--labels-file",
    "--note": "--metadata",
    "--ood-rows": "--n-ood",
    "--pos-label": "--positive-class",
    "--rows": "--n-corrupted",
    "--set": "--param",
    "--size": "--crop",
    "--tuning-rows": "--n-shifted-validation",
    "--use": "--plugin",
    "--with": "--calibrator",
}
# Parameters of the library that have another name on the command line.
_OPTIONS: Final = {
    "y": "label_column",
    "sample_weight": "weight_column",
    "groups": "group_column",
    "domain": "domain_column",
    "knn_distances": "knn_file",
    "X": "score_columns",
    "gate": "gates",
}


class LazyGroup(click.Group):
    """A group that imports only the command that runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands that exist."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name in COMMANDS and cmd_name not in self.commands:
            name = cmd_name.replace("-", "_")
            command = getattr(import_module(f"wildcal.cli.{name}"), name)
            _complete(command)
            self.add_command(command, cmd_name)
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        rows = [(name, COMMANDS[name]) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


@click.group(
    cls=LazyGroup,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "show_default": True,
    },
)
@click.version_option(__version__, prog_name="wildcal")
@click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="MODULE:CLASS",
    help="A calibrator class that saved files use; repeatable.",
)
def cli(plugins: tuple[str, ...]) -> None:
    """Calibrated confidence for classifiers, on in-distribution data and under shift.

    \b
    Example:
      wildcal fit val.csv --label-column species -o calibrator.json
      wildcal predict calibrator.json 'data/*.parquet' -o out/
      wildcal evaluate test.csv --calibrator calibrator.json
    """
    for place in plugins:
        if ":" not in place:
            raise click.BadParameter(f"must be MODULE:CLASS, got {place!r}.", param_hint="--plugin")
        from wildcal.core.registry import get_calibrator

        get_calibrator(place)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    signal.signal(signal.SIGTERM, _interrupt)  # `kill` cleans up as Ctrl-C does
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(words: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    is_debug = "--debug" in words
    words = [word for word in words if word != "--debug"]  # it may stand anywhere
    if sys.stderr is None:  # closed by the shell
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        warnings.simplefilter("always", CalibrationWarning)
        try:
            code = cli.main(words, prog_name="wildcal", standalone_mode=False)
        except click.UsageError as error:
            if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
                click.echo(error.format_message())  # click 8.2
            else:
                _show_usage_error(error)
            return 2
        except (click.Abort, KeyboardInterrupt) as error:
            warn("interrupted; no unfinished file was left.")
            raised = (error, error.__cause__, error.__context__)
            found = next((e for e in raised if isinstance(e, KeyboardInterrupt)), error)
            return 128 + (found.args[0] if found.args else signal.SIGINT)
        except BrokenPipeError:  # the reader of our output, such as `head`, has ended
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        except Exception as error:
            if is_debug:
                traceback.print_exc()
            text = " ".join(str(error).split()) or type(error).__name__
            if isinstance(error, OSError) and error.strerror:
                text = f"{error.filename}: " * bool(error.filename) + f"{error.strerror}."
            expected = isinstance(error, WildcalError | ValueError | OSError | MemoryError)
            hint = "" if expected else f" ({type(error).__name__}; --debug shows where)"
            warn(f"error: {text}{hint}")
            return 1
    return code if isinstance(code, int) else 0


def with_option_names(text: str, options: Mapping[str, str], param: str | None = None) -> str:
    """Return a message of the library with the options of a command for its parameters.

    >>> options = {"input": "--input", "label_column": "--label-column"}
    >>> with_option_names("input must be 'proba'. Try input='logits'.", options, "input")
    "--input must be 'proba'. Try --input logits."
    >>> with_option_names("a.csv: label_column must be given.", options, "label_column")
    'a.csv: --label-column must be given.'
    >>> with_option_names("y must lie in [0, 9].", options, "y")
    'y must lie in [0, 9]. (--label-column)'
    """
    if param is not None and param in options:
        text = re.sub(rf"(^|: ){param} ", rf"\1{options[param]} ", text, count=1)
    elif param in _OPTIONS and _OPTIONS[param] in options:
        text += f" ({options[_OPTIONS[param]]})"

    text = text.replace("`wildcal.CALIBRATORS`", "`wildcal methods`")

    def replaced(match: re.Match[str]) -> str:
        if match[1] not in options:
            return match[0]
        value = re.sub(r"[\[\]()'\"]|^True$", "", match[2]).replace(", ", ",")
        return f"{options[match[1]]} {value}".strip()

    return re.sub(r"\b(\w+)=('[^']*'|\"[^\"]*\"|[\[(][^\])]*[\])]|True|\d[\d.]*|)", replaced, text)


def _complete(command: click.Command) -> None:
    """Add --quiet to a command, and let it name its options in error messages."""
    if isinstance(command, click.Group):
        for each in command.commands.values():
            _complete(each)
        return
    from wildcal.cli.options import quiet_option

    command.params.append(quiet_option)
    given = [param for param in command.params if isinstance(param, click.Option)]
    options = {str(param.name): max(param.opts, key=len) for param in given}
    run_command = command.callback
    assert run_command is not None

    @wraps(run_command)
    def callback(*args: Any, **kwargs: Any) -> Any:
        try:
            check_options(kwargs)
            return run_command(*args, **kwargs)
        except InputError as error:
            text = with_option_names(str(error), options, error.param)
            raise InputError(text, error.param) from error

    command.callback = callback


def _show_usage_error(error: click.UsageError) -> None:
    """Print a usage error in one line, with the new name of a renamed command or option."""
    text = error.format_message()
    path = error.ctx.command_path if error.ctx else "wildcal"
    parent = path.removeprefix("wildcal").strip()
    if isinstance(error, click.NoSuchOption) and error.option_name in _RENAMED_OPTIONS:
        text = f"`{error.option_name}` was renamed `{_RENAMED_OPTIONS[error.option_name]}` in 0.2."
    elif isinstance(error, click.NoSuchOption) and error.option_name == "--fail-if":
        text = "`--fail-if` is an option of `wildcal evaluate`."
    elif found := re.match(r"No such command '([^']*)'", text):
        name = f"{parent} {found[1]}".strip()
        group: Any = error.ctx.command if error.ctx else cli
        near = get_close_matches(found[1], group.list_commands(error.ctx), 1)
        if name in _RENAMED:
            text = f"`{name}` was renamed `{_RENAMED[name]}` in 0.2."
        elif near:
            text = f"No such command {found[1]!r}. Did you mean {near[0]!r}?"
    end = "" if text.endswith((".", "?")) else "."
    warn(f"error: {text}{end} See `{path} --help`.")


def _interrupt(number: int, _: object) -> None:
    raise KeyboardInterrupt(number)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    warn(f"warning: {' '.join(str(message).split())}")
