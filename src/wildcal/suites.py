"""The suites of the data package `wildcal-suites`: logits of real networks."""

from importlib.resources import files
from pathlib import Path
from typing import Final

from wildcal.core.exceptions import InputError, MissingExtraError
from wildcal.io.suite import Suite

__all__ = ["list", "load"]

_INSTALL: Final = 'Install the suites with: pip install "wildcal[suites]"'


def list(data: str | None = None) -> tuple[str, ...]:
    """Return the names of the installed suites, sorted; of one data set, if given.

    >>> from wildcal import suites
    >>> "cifar10-resnet20" in suites.list("cifar10")
    True
    """
    folder = _folder()
    found = () if folder is None else [path.stem for path in folder.glob("*.npz")]
    return tuple(sorted(n for n in found if data is None or n.partition("-")[0] == data))


def load(name: str) -> Suite:
    """Return an installed suite by its name."""
    folder = _folder()
    if folder is None:
        raise MissingExtraError(f"the suite {name!r} is not installed. {_INSTALL}")
    if name not in list():
        raise InputError(f"name must be one of {', '.join(list())}, got {name!r}.", "name")
    return Suite.open(folder / f"{name}.npz")


def _folder() -> Path | None:
    try:
        return Path(str(files("wildcal_suites")))
    except ModuleNotFoundError:
        return None
