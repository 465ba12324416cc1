"""A suite as every command takes it: a folder, a .npz, or the name of one that is shipped."""

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

import click

from wildcal._old.cli.output import warn
from wildcal._old.core.errors import FileFormatError
from wildcal._old.io.suite import Suite
from wildcal._old.suites import HOW_TO_INSTALL, load, names


def open_suite(path: Path, *, partial: bool = False) -> Suite:
    """Return the suite at a path or, where there is nothing, the shipped one of that name.

    With `partial`, a suite with damaged splits is opened without them.
    """
    if path.exists():
        return Suite.open(path, partial=partial)
    shipped = names()
    if str(path) in shipped:
        return load(str(path))
    if not shipped:
        raise FileFormatError(
            f"{path} does not exist; the suites that come with wildcal are not installed:"
            f" {HOW_TO_INSTALL}"
        )
    near = get_close_matches(str(path), shipped, 1)
    guess = f" Did you mean {near[0]}?" if near else ""
    raise FileFormatError(
        f"{path} does not exist, and no suite of that name comes with wildcal"
        f" ({', '.join(shipped)}).{guess}"
    )


def open_suites(paths: Sequence[Path]) -> dict[str, Suite]:
    """Return suites by name; of several, those that cannot be opened are named and left out."""
    called = {suite_name(path): path for path in paths}
    if len(called) < len(paths):
        raise click.UsageError("two suites have the same name.")
    opened = {}
    for name, path in called.items():
        try:
            opened[name] = open_suite(path, partial=True)
        except FileFormatError as error:
            if len(paths) == 1:
                raise
            warn(f"warning: {name} was left out: {error}")
    return opened


def suite_name(path: Path) -> str:
    """Return what tables call a suite."""
    return path.stem if path.exists() else str(path)


def refuse_suites(*paths: Path) -> None:
    """Raise where a file of rows is wanted and a suite was given."""
    for path in paths:
        if path.is_dir() or (not path.exists() and str(path) in names()):
            raise FileFormatError(
                f"{path} is no file of rows; `wildcal suite compare` takes suites."
            )
