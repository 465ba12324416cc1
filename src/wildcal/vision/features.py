"""Features of images: unit vectors of the outputs of layers, and those of the training images."""

import hashlib
import json
import shutil
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import numpy as np

from wildcal.core.exceptions import InputError
from wildcal.io.atomic import atomic_write
from wildcal.vision.neighbors import Features

LOGITS: Final = "logits"
"""The logits themselves as a layer."""


def pooled_axes(shape: Sequence[int], layer: str) -> tuple[int, ...]:
    """Return the axes over which the output of a layer is averaged.

    (n, channels, height, width) is averaged over the picture, (n, tokens, channels) over the
    tokens. The channels are the last of four axes if the second and third are equal and the fourth
    is not.
    """
    if len(shape) == 4:
        return (1, 2) if shape[1] == shape[2] != shape[3] else (2, 3)
    if len(shape) in (2, 3):
        return (1,) if len(shape) == 3 else ()
    raise InputError(
        f"layers must give 2 to 4 axes, got shape {tuple(shape)} of {layer}.", "layers"
    )


def check_layer(name: str, known: Sequence[str]) -> None:
    """Raise unless a network has a layer of this name."""
    if name not in known:
        similar = get_close_matches(name, known, n=5, cutoff=0.4) or list(known)[:5]
        raise InputError(
            f"layers must be in the network, got {name!r}. Similar names: {', '.join(similar)},"
            " logits.",
            "layers",
        )


class FeatureCache:
    """Features of the training images in a hidden folder of a suite, until it is complete.

    Parameters
    ----------
    suite
        The folder of the suite.
    about
        What the features depend on; features of something else are removed.
    """

    def __init__(self, suite: Path, about: dict[str, Any]) -> None:
        self.folder = suite / ".training-features"
        digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
        key = self.folder / "key"
        if not key.is_file() or key.read_text() != digest:
            self.remove()
            self.folder.mkdir(parents=True)
            key.write_text(digest)

    def has(self, part: int) -> bool:
        """Return whether a part is there."""
        return self._path(part).is_file()

    def get(self, part: int) -> list[Features]:
        """Return the features of a part of the images, one array per layer."""
        with np.load(self._path(part)) as arrays:
            return [arrays[name] for name in arrays.files]

    def put(self, part: int, features: Sequence[Features]) -> None:
        """Write the features of a part."""
        with atomic_write(self._path(part), "wb") as file:
            np.savez(file, *features)

    def remove(self) -> None:
        """Remove the folder."""
        if self.folder.is_dir():
            shutil.rmtree(self.folder)

    def _path(self, part: int) -> Path:
        return self.folder / f"{part:06d}.npz"
