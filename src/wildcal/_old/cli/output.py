"""How the commands speak: data to stdout, talk to stderr, progress only for a person watching."""

import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

import click

from wildcal._old.tables.terminal import printable, show_markup

if TYPE_CHECKING:
    from rich.progress import Progress


QUIET = "wildcal.quiet"
"""Where a command's context keeps whether --quiet was given."""


def is_quiet() -> bool:
    """Whether the command that runs was told to be quiet."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(QUIET))


def print_line(text: str) -> None:
    """Write a line to stdout, and nothing that would look like another line."""
    click.echo(printable(text).replace("\n", "?"))


def say(text: str) -> None:
    """Write a line of talk to stderr; --quiet leaves it out."""
    if not is_quiet():
        click.echo(printable(text), err=True)


def warn(text: str) -> None:
    """Write a warning or an error to stderr, whatever was asked."""
    click.echo(printable(text), err=True)


def warn_of_few_rows(name: str, least: int, fewest: int) -> None:
    """Say that a window has fewer rows than an estimate of its accuracy needs to be of use."""
    if fewest < least:
        warn(
            f"warning: {name}: with fewer than {least:,} rows others do better, such as window;"
            f" there is a window of {number_of_rows(fewest)}."
        )


def number_of_rows(n: int) -> str:
    """Return a number of rows in words."""
    return f"{n:,} row" if n == 1 else f"{n:,} rows"


def print_json(document: Any) -> None:
    """Write a document to stdout; NaN, which JSON does not know, becomes null."""
    click.echo(json.dumps(_without_nan(document), indent=2, allow_nan=False))


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    title: str | None = None,
    caption: str | None = None,
    words: int = 1,
    spare: Sequence[str] = (),
) -> None:
    """Write a table to stdout; cells may use rich markup, the first `words` columns are text.

    On a terminal that is too narrow, columns named in `spare` are left out, in that order.
    """
    left = [i < words for i in range(len(header))]
    show_markup(header, rows, title=title, caption=caption, left=left, spare=spare)


class _NoBar:
    """What nobody watches: a bar without rich, which is slow to import."""

    disable: Final = True
    task_ids: Final = (0,)

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


@contextmanager
def progress_bar(description: str, total: float | None = None) -> Iterator["Progress"]:
    """Show a bar (or, without a total, a pulse) on stderr while a person is watching."""
    if is_quiet() or not sys.stderr.isatty():
        yield cast("Progress", _NoBar())
        return
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_interactive:  # a dumb terminal, say: there a bar is a blank line
        yield cast("Progress", _NoBar())
        return
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    ) as progress:
        progress.add_task(description, total=total)
        yield progress
