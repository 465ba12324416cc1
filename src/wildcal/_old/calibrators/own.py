"""Methods of the user: from installed packages by entry point, or as MODULE:CLASS.

A package offers a method with an entry point of the group ``wildcal.calibrators``. A class in a
file of one's own is named MODULE:CLASS. Either is a `Calibrator`, and is known by its short name
from then on, also to files that were saved with it; a file itself never says what to import.
"""

import importlib
import sys
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import is_dataclass
from typing import Any, Final

from wildcal._old.bridge import bridged_class
from wildcal.core import registry as core_registry
from wildcal.core.calibrator import Calibrator

GROUP: Final = "wildcal.calibrators"
Registry = MutableMapping[str, type[Any]]


def add_own(name: str, registry: Registry) -> str | None:
    """Add the method of a name to a registry and return its short name; None where there is none.

    Parameters
    ----------
    name
        MODULE:CLASS, or the name of an entry point.
    """
    if ":" in name:
        return register(_import(name), registry)
    for point in entry_points(group=GROUP, name=name):
        return register(_loaded(point.name, point.load), registry)
    return None


def add_installed(registry: Registry) -> None:
    """Add the methods of all installed packages to a registry."""
    for point in entry_points(group=GROUP):
        register(_loaded(point.name, point.load), registry)


def register(kind: object, registry: Registry) -> str:
    """Add a class to a registry under its short name, which is returned."""
    if not (isinstance(kind, type) and issubclass(kind, Calibrator)):
        raise ValueError(f"{kind!r:.80} must be a class that derives from wildcal.Calibrator.")
    name = getattr(kind, "name", "")
    if not is_dataclass(kind) or not name:
        raise ValueError(
            f"{kind.__name__} must be a dataclass with a short `name`; see docs/extending.md."
        )
    place = f"{kind.__module__}:{kind.__qualname__}"
    if core_registry.CALIBRATORS.get(name, (place,))[0] != place:
        raise ValueError(f"{kind.__name__} is called {name!r}, which is a method of wildcal's.")
    core_registry.register(name, place)
    registry[name] = bridged_class(name)
    return str(name)


def _import(name: str) -> object:
    module, _, attribute = name.partition(":")
    with _working_folder():
        found = _loaded(name, lambda: importlib.import_module(module))
    if not hasattr(found, attribute):
        raise ValueError(f"{module} has no {attribute!r}.")
    return getattr(found, attribute)


def _loaded(name: str, load: Callable[[], object]) -> object:
    try:
        return load()
    except Exception as error:  # whatever the code of a user does
        raise ValueError(
            f"cannot import the method {name}: {type(error).__name__}: {error}."
        ) from error


def entry_points(**wanted: str) -> Any:
    """Return the entry points of installed packages, as importlib.metadata does."""
    from importlib import metadata  # slow, and wanted for names that are not our own only

    return metadata.entry_points(**wanted)


@contextmanager
def _working_folder() -> Iterator[None]:
    """Let modules be found in the folder that the user stands in, as `python -m` does."""
    sys.path.insert(0, "")
    try:
        yield
    finally:
        if "" in sys.path:
            sys.path.remove("")
