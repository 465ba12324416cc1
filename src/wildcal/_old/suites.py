"""The suites of the data package `wildcal-suites`: logits of real networks, to tune and test on."""

from importlib.resources import files
from pathlib import Path

from wildcal._old.core.errors import MissingExtraError
from wildcal._old.io.suite import Suite

__all__ = ["load", "names"]

HOW_TO_INSTALL = 'pip install "wildcal[suites]"'


def _folder() -> Path | None:
    # A path, because a suite is read piece by piece; a package inside a zip archive has none.
    try:
        return Path(str(files("wildcal_suites")))
    except ModuleNotFoundError:
        return None


def names(data: str | None = None) -> tuple[str, ...]:
    """Return the names of the suites that are installed, sorted; those of one data set, if given.

    >>> "cifar10-resnet20" in names("cifar10")
    True
    """
    folder = _folder()
    found = [] if folder is None else [path.stem for path in folder.glob("*.npz")]
    return tuple(sorted(n for n in found if data is None or n.partition("-")[0] == data))


def load(name: str) -> Suite:
    """Return one of the suites that come with wildcal, in its data package."""
    folder = _folder()
    if folder is None:
        raise MissingExtraError(
            f"the suite {name!r} is not installed. Install the suites with: {HOW_TO_INSTALL}"
        )
    known = names()
    if name not in known:
        listed = f"there are {', '.join(known)}" if known else "there are none"
        raise ValueError(f"no suite named {name!r} comes with wildcal; {listed}.")
    return Suite.open(folder / f"{name}.npz")
