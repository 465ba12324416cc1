"""Squared distances to the nearest training images, layer by layer, by faiss.

The search among all training images is exact. For large sets `ivf` looks only into the cells of a
coarse k-means that are nearest to the image. What it returns are true distances to training images,
but to the next ones where some of the k nearest lie in other cells.
"""

import math
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.checks import check_choice, check_count
from wildcal._old.core.errors import MissingExtraError
from wildcal._old.core.parallel import thread_count

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of the tool that wrapped faiss
        import faiss
except ImportError as error:
    raise MissingExtraError(
        'Neighbor distances need faiss. Install it with: pip install "wildcal[features]"'
    ) from error

SEARCHES: Final = ("exact", "ivf")
_USUAL_K: Final = {"cifar10": 50, "cifar100": 200}
# faiss asks for as many training rows per cell before it trusts its k-means.
_ROWS_PER_CELL = 39
_FEW_PAIRS = 1_000_000
# The share of the cells that is looked into, and how many rows they hold per neighbor wanted.
_PROBED = 1 / 16
_ROWS_PER_NEIGHBOR = 256
# Looking into more than this share of the cells takes as long as comparing every row.
_WORTH_IT = 1 / 2


def usual_k(dataset: str) -> int:
    """Return the neighbor whose distance is usually taken for a data set."""
    return _USUAL_K.get(dataset, 10)


def stored_ranks(k: int) -> list[int]:
    """Return the neighbors whose distances are kept: the nearest and the k-th."""
    return sorted({1, k})


@final
class NeighborSearch:
    """The training features of all layers, ready to be searched.

    Parameters
    ----------
    features
        For each layer, float32 of shape (training rows, width); taken one after the other, copied.
    k
        The furthest neighbor that is wanted.
    search
        "exact", or "ivf": 4 sqrt(n) cells, of which a sixteenth is looked into, at least so many
        that they hold 256 k rows. Where that is more than half of the cells, all are.
    seed
        Of the k-means behind "ivf".
    """

    def __init__(
        self,
        features: Iterable[NDArray[np.float32]],
        *,
        k: int,
        search: str = "exact",
        seed: int = 0,
    ) -> None:
        check_choice("search", search, SEARCHES)
        self.ranks = stored_ranks(check_count("k", k))
        faiss.omp_set_num_threads(thread_count())
        self._indexes = [_index(layer, search, k, seed) for layer in features]

    def __call__(self, features: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        """Return squared distances, shape (n, ranks * layers): all layers of one rank together."""
        found = [
            self._search(index, np.ascontiguousarray(part, np.float32))
            for index, part in zip(self._indexes, features, strict=True)
        ]
        # (layers, n, ranks) -> (n, ranks, layers)
        stacked = np.stack(found).transpose(1, 2, 0)
        return np.ascontiguousarray(stacked.reshape(len(stacked), -1), np.float32)

    def _search(self, index: Any, points: NDArray[np.float32]) -> NDArray[np.float64]:
        # Waking threads for a few images takes longer than the search.
        few_pairs = len(points) * index.ntotal < _FEW_PAIRS
        faiss.omp_set_num_threads(1 if few_pairs else thread_count())
        _, nearest = index.search(points, self.ranks[-1])
        few = (nearest < 0).any(axis=1)
        if few.any():  # the cells looked into held fewer than k images
            everywhere = faiss.SearchParametersIVF()
            everywhere.nprobe = index.nlist
            _, nearest[few] = index.search(points[few], self.ranks[-1], params=everywhere)
        distances = np.empty((len(points), len(self.ranks)))
        for column, rank in enumerate(self.ranks):
            # faiss takes |x|^2 + |y|^2 - 2xy in float32, which leaves few digits of a small
            # distance. It is only believed as to who the neighbors are.
            there = index.reconstruct_batch(np.ascontiguousarray(nearest[:, rank - 1]))
            apart = points.astype(np.float64) - there
            distances[:, column] = np.einsum("ij,ij->i", apart, apart)
        distances.sort(axis=1)  # ranks may have changed places in the last digit
        return distances


def check_k(k: int, train_rows: int) -> None:
    """Raise if there are fewer training images than neighbors wanted."""
    if k > train_rows:
        raise ValueError(
            f"k must be at most the number of training images, {train_rows:,}, got {k:,}."
            " Give a smaller k, or more training rows."
        )


def cells(train_rows: int, k: int) -> tuple[int, int]:
    """Return the number of cells of an "ivf" search, and how many of them are looked into."""
    count = max(1, min(round(4 * math.sqrt(train_rows)), train_rows // _ROWS_PER_CELL))
    enough = math.ceil(_ROWS_PER_NEIGHBOR * k * count / train_rows)
    probed = max(8, round(count * _PROBED), enough)
    return (count, probed) if probed <= _WORTH_IT * count else (1, 1)


def about_search(search: str, train_rows: int, k: int) -> dict[str, Any]:
    """Return what a suite's manifest says of the search."""
    check_choice("search", search, SEARCHES)
    about: dict[str, Any] = {"search": search, "faiss": faiss.__version__}
    if search == "ivf":
        about["cells"], about["cells_probed"] = cells(train_rows, k)
    return about


def _index(features: NDArray[np.float32], search: str, k: int, seed: int) -> Any:
    check_k(k, len(features))
    rows = np.ascontiguousarray(features, np.float32)
    count, probed = (1, 1) if search == "exact" else cells(len(rows), k)
    return _exact(rows) if count == 1 else _ivf(rows, count, probed, seed)


def _exact(features: NDArray[np.float32]) -> Any:
    index = faiss.IndexFlatL2(features.shape[1])
    index.add(features)
    return index


def _ivf(features: NDArray[np.float32], count: int, probed: int, seed: int) -> Any:
    width = features.shape[1]
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(width), width, count)
    index.cp.seed = seed
    index.train(features)
    index.add(features)
    index.nprobe = probed
    index.make_direct_map()
    return index
