"""Options that several commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

PATH = click.Path(path_type=Path)

Command = TypeVar("Command", bound=Callable[..., Any])

window_option = click.option(
    "--window",
    is_flag=True,
    help="Read the rows of LOGITS as one window, the context of each; for the method context."
    " Without it, each row is read alone.",
)


densities_option = click.option(
    "--densities",
    type=PATH,
    help="Distances to training rows, if in a file of their own; for dac and dac+NAME.",
)


def _replicates(context: click.Context, option: click.Parameter, value: int) -> int:
    if value == 1 or value < 0:
        raise click.BadParameter("give 0 for no intervals, or at least 2.")
    return value


replicates = click.option(
    "--bootstrap",
    default=1000,
    show_default=True,
    type=int,
    callback=_replicates,
    help="Replicates for the 95 % intervals; 0 for none.",
)


def measuring(command: Command) -> Command:
    """Add the options of a command that measures: bins, bootstrap and the form of the output."""
    options = (
        click.option(
            "--bins", default=15, show_default=True, type=click.IntRange(min=1), help="ECE bins."
        ),
        replicates,
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
        click.option("--csv", "as_csv", is_flag=True, help="Print CSV, a row for each metric."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def one_format(as_json: bool, as_csv: bool) -> None:
    """Raise if two forms of output were asked for."""
    if as_json and as_csv:
        raise click.UsageError("--json and --csv exclude each other.")
