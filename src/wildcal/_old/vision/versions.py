"""Which versions of which packages have a say in the bits of logits."""

from importlib.metadata import PackageNotFoundError, version
from typing import Final

_PACKAGES: Final = (
    "wildcal",
    "numpy",
    "scipy",
    "pillow",
    "opencv-python-headless",
    "torch",
    "onnxruntime",
)


def versions() -> dict[str, str]:
    """Return those that are installed here."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
