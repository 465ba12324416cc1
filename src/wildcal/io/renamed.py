"""What files of earlier versions call by another name."""

from collections.abc import Mapping
from typing import Any

FIELDS = {
    "densities": "distances",
    "densities_dtype": "distances_dtype",
    "densities_sha256": "distances_sha256",
    "neighbour": "neighbor",
    "neighbours": "neighbors",
    "normalise": "normalize",
    "semantic": "ood",
}
"""Fields of calibrators and suites."""

TRANSFORMS = {"grey": "gray", "posterise": "posterize", "solarise": "solarize"}
"""Changes of images that name a split."""


def renamed(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a document by the names they have today."""
    return {FIELDS.get(name, name): value for name, value in document.items()}
