"""Features of images: names of layers, and the axes over which their outputs are averaged."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

from wildcal.core.exceptions import InputError

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
