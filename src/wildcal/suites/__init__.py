"""The suites that come with the package: real networks' logits, ready to tune and test on."""

from importlib.resources import files
from pathlib import Path

from wildcal.io.suite import Suite

__all__ = ["load", "names"]


def _folder() -> Path:
    # A path, because a suite is read piece by piece; a package inside a zip archive has none.
    return Path(str(files(__name__)))


def names() -> tuple[str, ...]:
    """Return the names of the suites that come with the package, sorted."""
    return tuple(sorted(path.stem for path in _folder().glob("*.npz")))


def load(name: str) -> Suite:
    """Return one of the suites that come with the package."""
    known = names()
    if name not in known:
        listed = f"there are {', '.join(known)}" if known else "there are none"
        raise ValueError(f"no suite named {name!r} comes with wildcal; {listed}.")
    return Suite.open(_folder() / f"{name}.npz")
