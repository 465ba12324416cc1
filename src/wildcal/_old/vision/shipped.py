"""Weights that come with wildcal: small networks, so that suites can be made without training.

They are checkpoints of `wildcal train` in float16, in the folder `weights` of the data package.
"""

from importlib.resources import files
from pathlib import Path
from typing import Final

PREFIX: Final = "wildcal:"
_PACKAGE = "wildcal_suites"


def is_shipped(network: str) -> bool:
    """Return whether a word for a network means one of these."""
    return network.startswith(PREFIX)


def shipped_names() -> tuple[str, ...]:
    """Return the names of the networks whose weights are there, sorted."""
    return tuple(path.stem for path in _weights())


def shipped_weights(network: str) -> Path:
    """Return the checkpoint that `wildcal:NAME` stands for."""
    name = network.removeprefix(PREFIX)
    for path in _weights():
        if path.stem == name:
            return path
    known = shipped_names()
    if known:
        raise ValueError(f"no weights {name!r} come with wildcal; there are {', '.join(known)}.")
    raise FileNotFoundError(
        f'the weights {name!r} are not installed. Install them with: pip install "wildcal[suites]"'
    )


def _weights() -> list[Path]:
    try:
        # A path, because safetensors maps the file; a package inside a zip archive has none.
        folder = Path(str(files(_PACKAGE).joinpath("weights")))
    except ModuleNotFoundError:
        return []
    return sorted(folder.glob("*.safetensors"))
