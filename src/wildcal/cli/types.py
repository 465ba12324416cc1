"""Types of options."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

PATH = click.Path(path_type=Path)
COUNT = click.IntRange(min=1)


def _names(text: str) -> tuple[str, ...]:
    names = tuple(word.strip() for word in text.split(","))
    if not all(names):
        raise click.BadParameter(f"must be names separated by commas, got {text!r}.")
    return names


def _colors(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(word) for word in text.split(","))
    except ValueError:
        message = f"must be three numbers such as 0.485,0.456,0.406, got {text!r}."
        raise click.BadParameter(message) from None


def _type(name: str, convert: Callable[[str], Any]) -> Any:
    """Return a type by a function, with a name for the help."""
    found = click.types.FuncParamType(convert)
    found.name = name
    return found


NAME, LABEL = _type("NAME", str), _type("LABEL", str)
NAMES = _type("NAME,...", _names)
COLORS = _type("R,G,B", _colors)


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
