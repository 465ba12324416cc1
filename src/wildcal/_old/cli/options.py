"""Options that several commands share; each flag has one meaning, whatever the command."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from wildcal._old.cli.output import QUIET, print_json
from wildcal._old.io.files import check_writable, replacing

PATH = click.Path(path_type=Path)
STANDARD = Path("-")
"""Standard input or standard output."""

Command = TypeVar("Command", bound=Callable[..., Any])


class Window(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """How many rows share a context: a number, or all of them."""

    name = "ROWS|all"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | str:
        """Return the number of rows, or "all"."""
        if value == "all":
            return "all"
        if str(value).isascii() and str(value).isdigit() and int(value) > 0:
            return int(value)
        self.fail(f"give a number of rows, or all, got {value!r}.", param, ctx)


window_option = click.option(
    "--window",
    type=Window(),
    help="Rows that are each other's context: so many at a time, or all; for the method context."
    " Without it, each row is read alone.",
)

distances_option = click.option(
    "--distances",
    type=PATH,
    help="Distances to training rows, if in a file of their own; for dac and dac+NAME.",
)

methods_option = click.option(
    "--methods",
    default="paper",
    show_default=True,
    help="Names, separated by commas; 'paper', 'all' and 'window' stand for several.",
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
    help="Replicates for the 95 % intervals, fewer for costly metrics; 0 for none.",
)

bins_option = click.option(
    "--bins", default=15, show_default=True, type=click.IntRange(1, 1000), help="ECE bins."
)


def _set_quiet(context: click.Context, option: click.Parameter, value: bool) -> None:
    # What runs inside a quiet command, as in `demo`, is quiet too.
    context.meta[QUIET] = value or context.meta.get(QUIET, False)


quiet_option = click.option(
    "-q",
    "--quiet",
    is_flag=True,
    expose_value=False,
    callback=_set_quiet,
    help="Say nothing but warnings and errors.",
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@dataclass(frozen=True, slots=True)
class Output:
    """Where results go: a table on standard output unless JSON or CSV was asked for there."""

    as_json: bool = False
    csv: Path | None = None

    def write(
        self, *, json: Callable[[], Any], csv: Callable[[], str], table: Callable[[], None]
    ) -> None:
        """Write the forms that were asked for; each is made only if it is."""
        if self.csv is not None:
            write_text(self.csv, csv())
        if self.as_json:
            print_json(json())
        elif self.csv != STANDARD:
            table()


def write_text(path: Path, text: str) -> None:
    """Write a text to a file, whole or not at all; `-` is standard output."""
    if path == STANDARD:
        click.echo(text, nl=False)
        return
    with replacing(path) as temporary:
        temporary.write_text(text, "utf-8", newline="\n")


csv_option = click.option(
    "--csv",
    "csv_path",
    type=PATH,
    metavar="FILE",
    help="Write every number to this file; - for standard output.",
)


def output_options(command: Command) -> Command:
    """Add --json, --csv and --quiet; the command gets them as `output`."""

    @wraps(command)
    def with_output(*args: Any, as_json: bool, csv_path: Path | None, **options: Any) -> Any:
        if as_json and csv_path == STANDARD:
            raise click.UsageError("--json and --csv - exclude each other.")
        refuse_same(csv_path, "--csv")
        if csv_path not in (None, STANDARD):
            check_writable(csv_path)  # before the work, not after it
        return command(*args, output=Output(as_json, csv_path), **options)

    for option in (quiet_option, csv_option, json_option):
        with_output = option(with_output)
    return with_output  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Measured:
    """How a command measures, and where its results go."""

    bins: int
    bootstrap: int
    output: Output


def measuring(command: Command) -> Command:
    """Add the options of a command that measures; it gets them as `measured`."""

    @wraps(command)
    def with_measured(*args: Any, bins: int, bootstrap: int, output: Output, **options: Any) -> Any:
        return command(*args, measured=Measured(bins, bootstrap, output), **options)

    return bins_option(replicates(output_options(with_measured)))  # type: ignore[return-value]


_WRITTEN = frozenset({"output", "csv_path", "gallery", "metrics_file"})
"""Parameters of commands that name what is written and not read."""


def refuse_same(output: Path | None, flag: str = "-o") -> None:
    """Raise if a file that the running command reads would be replaced by what it writes."""
    if output in (None, STANDARD):
        return
    params = click.get_current_context().params
    read = {path for name in params.keys() - _WRITTEN for path in _paths(params[name])}
    if any(path != STANDARD and path.resolve() == output.resolve() for path in read):
        raise click.UsageError(f"{flag} {output} would replace a file that is read. Give another.")


def _paths(value: Any) -> Iterator[Path]:
    """Yield the paths in the value of a parameter, which may hold several."""
    if isinstance(value, Path):
        yield value
    elif isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _paths(part)
