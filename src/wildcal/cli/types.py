"""Types of options."""

from pathlib import Path
from typing import Any

import click

PATH = click.Path(path_type=Path)
COUNT = click.IntRange(min=1)


class Names(click.ParamType):  # type: ignore[type-arg]
    """Names separated by commas, given to the command as a tuple."""

    name = "NAME,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Return the names."""
        names = tuple(word.strip() for word in value.split(","))
        if not all(names):
            self.fail(f"must be names separated by commas, got {value!r}.", param, ctx)
        return names


NAMES = Names()


def pairs(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> Any:
    """Return NAME=VALUE words as a dict."""
    found: dict[str, str] = {}
    for value in values:
        name, equals, text = value.partition("=")
        name = name.strip()
        if not (name and equals):
            raise click.BadParameter(f"must be NAME=VALUE, got {value!r}.")
        if name in found:
            raise click.BadParameter(f"must be different names, got {name!r} twice.")
        found[name] = text
    return found


def named_files(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> Any:
    """Return NAME=FILE words as a dict of paths."""
    return {name: Path(path) for name, path in pairs(context, option, values).items()}
