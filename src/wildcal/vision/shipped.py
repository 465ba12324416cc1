"""Weights that come with wildcal: small networks, so that suites can be made without training.

They are checkpoints of `wildcal train` in float16, in the folder `weights` of the data package.
"""

from importlib.resources import files
from pathlib import Path
from typing import Final

PREFIX: Final = "wildcal:"
# The data package, or the suites of a package that has them inside.
_PACKAGES = ("wildcal_suites", "wildcal.suites")


def is_shipped(network: str) -> bool:
    """Return whether a word for a network means one of these."""
    return network.startswith(PREFIX)


def shipped_names() -> tuple[str, ...]:
    """Return the names of the networks whose weights are there, sorted."""
    return tuple(sorted({path.stem for folder in _folders() for path in _weights(folder)}))


def shipped_weights(network: str) -> Path:
    """Return the checkpoint that `wildcal:NAME` stands for."""
    name = network.removeprefix(PREFIX)
    for folder in _folders():
        for path in _weights(folder):
            if path.stem == name:
                return path
    known = shipped_names()
    if known:
        raise ValueError(f"no weights {name!r} come with wildcal; there are {', '.join(known)}.")
    raise FileNotFoundError(
        f'the weights {name!r} are not installed. Install them with: pip install "wildcal[suites]"'
    )


def _folders() -> list[Path]:
    found = []
    for package in _PACKAGES:
        try:
            # A path, because safetensors maps the file; a package inside a zip archive has none.
            found.append(Path(str(files(package).joinpath("weights"))))
        except ModuleNotFoundError:
            continue
    return found


def _weights(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.safetensors"))
