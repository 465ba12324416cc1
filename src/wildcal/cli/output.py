"""Results go to stdout; notes, warnings and progress to stderr."""

import json
import math
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click

from wildcal.core.exceptions import InputError
from wildcal.tables import Cell, Column, Table, print_table, to_csv
from wildcal.tables.render import printable

STANDARD: Final = Path("-")
"""Standard input or output."""
QUIET: Final = "wildcal.quiet"
# Seconds between two lines of progress where there is no terminal.
_EVERY: Final = 10.0


class Progress:
    """A bar on a terminal, else a line every ten seconds; `advance(n)` moves it."""

    def __init__(self, description: str, total: float | None, bar: Any = None) -> None:
        self._description, self._total, self._bar = description, total, bar
        self._done = 0.0
        self._last = time.monotonic()

    def advance(self, n: float = 1) -> None:
        """Move the bar by n."""
        self._done += n
        if self._bar is not None:
            self._bar.advance(self._bar.task_ids[0], n)
        elif self._total and self._done < self._total and time.monotonic() - self._last >= _EVERY:
            self._last = time.monotonic()
            say(f"{self._description}: {self._done:,.0f} of {self._total:,.0f}.")


@contextmanager
def progress_bar(description: str, total: float | None = None) -> Iterator[Progress]:
    """Show progress on stderr; on a terminal without a total, the elapsed time."""
    if is_quiet() or not sys.stderr.isatty():
        yield Progress(description, total)
        return
    from rich import progress
    from rich.console import Console

    columns = (*progress.Progress.get_default_columns(), progress.TimeElapsedColumn())
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        bar.add_task(description, total=total)
        yield Progress(description, total, bar)


def is_quiet() -> bool:
    """Return whether --quiet was given."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(QUIET))


def say(text: str) -> None:
    """Print a line to stderr, unless --quiet was given."""
    if not is_quiet():
        warn(text)


def warn(text: str) -> None:
    """Print a warning or an error to stderr."""
    click.echo(printable(text), err=True)


def print_line(text: str) -> None:
    """Print a line to stdout."""
    click.echo(printable(text))


def print_result(
    document: Any,
    shown: Iterable[Table | str],
    as_json: bool,
    csv_output: Path | None = None,
    records: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Print tables and lines, or JSON with null for NaN; write the records as a csv file."""
    if csv_output is not None:
        write_text(csv_output, to_csv(records))
    if as_json:
        click.echo(json.dumps(_plain(document), indent=2, allow_nan=False))
    elif csv_output != STANDARD:
        for each in shown:
            if isinstance(each, str):
                print_line(each)
            else:
                print_table(each)


def text_table(
    header: Sequence[str], rows: Iterable[Sequence[object]], *, note: str = "", n_left: int = 1
) -> Table:
    """Return a table of texts; the first `n_left` columns are aligned to the left."""
    columns = tuple(Column(name, is_number=i >= n_left) for i, name in enumerate(header))
    cells = tuple(tuple(Cell(str(cell)) for cell in row) for row in rows)
    return Table("", columns, cells, (note,) if note else ())


def write_text(path: Path, text: str) -> None:
    """Write a text to a file, or to stdout if the path is `-`."""
    if path == STANDARD:
        click.echo(text, nl=False)
        return
    from wildcal.io.atomic import atomic_write

    with atomic_write(path) as file:
        file.write(text)


def check_output(
    path: Path, *, name: str = "output", overwrite: bool = True, suffixes: Sequence[str] = ()
) -> None:
    """Raise, before the work, if a file cannot be written; `name` is that of its option."""
    problem = ""
    if path == STANDARD:
        return
    if suffixes and path.suffix not in suffixes:
        problem = f"end in {' or '.join(suffixes)}"
    elif path.is_dir():
        problem = "be a file and not a folder"
    elif not path.parent.is_dir():
        problem = "be in a folder that exists"
    if problem:
        raise InputError(f"{name} must {problem}, got {path}.", name)
    if path.exists() and not overwrite:
        raise InputError(f"{name} must not exist, got {path}. Try overwrite=True.", name)


def check_options(options: Mapping[str, Any]) -> None:
    """Raise if a command would replace a file that it reads, or cannot write its csv file."""
    others = [value for name, value in options.items() if "output" not in name]
    read = {path.resolve() for path in _paths(others) if path != STANDARD}
    for name in ("output", "csv_output"):
        path = options.get(name)
        if path is not None and path.resolve() in read:
            raise InputError(f"{name} must not be a file that is read, got {path}.", name)
    if options.get("csv_output") is not None:
        check_output(options["csv_output"], name="csv_output")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy
        return _plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _paths(value: Any) -> Iterator[Path]:
    if isinstance(value, Path):
        yield value
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _paths(item)
