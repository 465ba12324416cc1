"""How far the distances of an `ivf` search are from the true ones, and what it saves.

On random vectors of length one, which have no clumps that cells could follow, on one core.

Example
-------
    python benchmarks/neighbors.py
"""

import time

import numpy as np

from wildcal.core.parallel import use_threads
from wildcal.vision.neighbors import NeighborSearch, cells

CASES = ((12_000, 50), (12_811, 10), (45_000, 50), (200_000, 50))
WIDTH = 64
QUERIES = 500


def unit_rows(rng: np.random.Generator, n: int) -> np.ndarray:
    rows = rng.standard_normal((n, WIDTH)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def main() -> None:
    print("| training images | k | cells looked into | nearest | k-th | time, of exact |")
    print("|--:|--:|--:|--:|--:|--:|")
    for rows, k in CASES:
        rng = np.random.default_rng(0)
        training, asked = unit_rows(rng, rows), unit_rows(rng, QUERIES)
        found, seconds = {}, {}
        with use_threads(1):
            for search in ("exact", "ivf"):
                finder = NeighborSearch([training], k=k, search=search)
                start = time.perf_counter()
                found[search] = finder([asked])
                seconds[search] = time.perf_counter() - start
        nearest, kth = (found["ivf"] / found["exact"] - 1).mean(axis=0)
        count, probed = cells(rows, k)
        looked = "all" if count == 1 else f"{probed:,} of {count:,}"
        saved = seconds["ivf"] / seconds["exact"]
        print(
            f"| {rows:,} | {k} | {looked} | {nearest:.1%} | {kth:.1%} | {saved:.0%} |", flush=True
        )


if __name__ == "__main__":
    main()
