"""What a suite says of its neighbor distances: which layers, which neighbors, of what images.

The description is free JSON apart from what gives the columns of the arrays their meaning:
`layers`, a list of `{"name": ..., "width": ...}`, and `ranks`, which neighbors are stored (1 is
the nearest). Columns hold all layers of the first rank, then all layers of the next.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.errors import FileFormatError

# More than any network has layers worth storing; a manifest that claims more is none of ours.
_MOST_LAYERS = 10_000
_MOST_RANKS = 1_000
SIGNIFICANT_BITS = 7
"""What float16 distances are rounded to, so that they compress: an error below 0.8 %."""


def check_neighbors(neighbors: object) -> None:
    """Raise a ValueError unless a description gives the columns of the distances a meaning."""
    if neighbors is None:
        return
    if not isinstance(neighbors, Mapping):
        raise ValueError(f"neighbors must be an object or null, got {neighbors!r:.60}.")
    layers = neighbors.get("layers")
    if not isinstance(layers, list) or not 1 <= len(layers) <= _MOST_LAYERS:
        raise ValueError(f"neighbors must have a list of layers, got {layers!r:.60}.")
    for layer in layers:
        if (
            not isinstance(layer, Mapping)
            or not isinstance(layer.get("name"), str)
            or type(layer.get("width")) is not int
            or layer["width"] < 1
        ):
            raise ValueError(
                f"a layer of neighbors must have a name and a width, got {layer!r:.60}."
            )
    names = [layer["name"] for layer in layers]
    if len(set(names)) < len(names):
        raise ValueError("the layers of neighbors must have different names.")
    ranks = neighbors.get("ranks")
    if (
        not isinstance(ranks, list)
        or not 1 <= len(ranks) <= _MOST_RANKS
        or not all(type(rank) is int and rank >= 1 for rank in ranks)
        or sorted(set(ranks)) != ranks
    ):
        raise ValueError(
            f"the ranks of neighbors must be rising whole numbers from 1, got {ranks!r:.60}."
        )
    k = neighbors.get("k", 1)
    if type(k) is not int or k < 1:
        raise ValueError(f"k of neighbors must be a whole number from 1, got {k!r:.60}.")


def layer_names(neighbors: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the names of the layers, in the order of the columns."""
    return () if neighbors is None else tuple(layer["name"] for layer in neighbors["layers"])


def columns(neighbors: Mapping[str, Any]) -> int:
    """Return how many distances there are for each row: one per layer and rank."""
    return len(neighbors["layers"]) * len(neighbors["ranks"])


def rank_columns(neighbors: Mapping[str, Any], rank: int | None) -> slice:
    """Return the columns of one rank, by default of the k-th; raise if it is not stored."""
    ranks = neighbors["ranks"]
    if rank is None:
        rank = neighbors.get("k", ranks[-1])
    if rank not in ranks:
        there = ", ".join(map(str, ranks))
        raise ValueError(
            f"the suite keeps distances to the neighbors {there}, not to {rank!r};"
            " an extraction with features measures the first and the k-th."
        )
    n, at = len(neighbors["layers"]), ranks.index(rank)
    return slice(at * n, (at + 1) * n)


def keep_ranks(neighbors: Mapping[str, Any], ranks: Sequence[int]) -> NDArray[np.int64]:
    """Return the columns of some ranks, in the order in which they are stored."""
    parts = [rank_columns(neighbors, rank) for rank in sorted(set(ranks))]
    return np.concatenate([np.arange(p.start, p.stop, dtype=np.int64) for p in parts])


def rounded(distances: NDArray[Any]) -> NDArray[np.float64]:
    """Return distances with `SIGNIFICANT_BITS` bits, which float16 holds without a second rounding.

    Distances below 2^-16 lose more, as float16 has no smaller step than 2^-24.
    """
    mantissa, exponent = np.frexp(np.asarray(distances, np.float64))
    steps = float(1 << SIGNIFICANT_BITS)
    return np.ldexp(np.rint(mantissa * steps) / steps, exponent)


def described_ranks(neighbors: Mapping[str, Any], ranks: Sequence[int]) -> dict[str, Any]:
    """Return what a description says once only some ranks are kept: which is the k-th stays known.

    >>> described_ranks({"ranks": [1, 50]}, [1])
    {'ranks': [1], 'k': 50}
    """
    k = neighbors.get("k", neighbors["ranks"][-1])
    return {"ranks": list(ranks)} | ({} if k == ranks[-1] else {"k": k})


def no_distances(what: str) -> FileFormatError:
    """Return the error for a suite or a split without distances."""
    return FileFormatError(
        f"{what} has no neighbor distances. Add them with an extraction with features, which"
        " computes only what is missing."
    )
