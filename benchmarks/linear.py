"""Whether the work of a fit grows like its rows: nanoseconds an entry at a few sizes.

    python benchmarks/linear.py --output benchmarks/linear.csv

Processor time on one thread, the least of a few turns in which all sizes take part, and what of it
the system took, which hands out memory. The passes over the rows are counted too, because a fit
that needs one more of them takes longer an entry.
"""

import math
import resource
from collections.abc import Callable

from turns import keep, options_of  # first of ours: it sets the threads of NumPy

# ruff: isort: split
import numpy as np
from peers import make_rows

from wildcal import CALIBRATORS
from wildcal.core import blocks
from wildcal.core.block import Block

CLASSES = 10


def passes_of(method: str, z: np.ndarray, y: np.ndarray) -> float:
    """Return how often a fit reads all rows."""
    rows = [0]

    class Counting(Block):
        def __init__(self, source, start, stop, scratch):
            rows[0] += stop - start
            super().__init__(source, start, stop, scratch)

    blocks.Block = Counting
    try:
        CALIBRATORS[method]().fit(z, y)
    finally:
        blocks.Block = Block
    return rows[0] / len(y)


def used(call: Callable[[], object]) -> tuple[float, float]:
    """Return the processor time of a call in seconds, and what of it the system took."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    call()
    after = resource.getrusage(resource.RUSAGE_SELF)
    system = after.ru_stime - before.ru_stime
    return after.ru_utime - before.ru_utime + system, system


def main() -> None:
    """Measure, print, and write a csv."""
    parser = options_of(__doc__, turns=3)
    parser.add_argument("--method", nargs="+", default=["ts", "energy"])
    parser.add_argument("--rows", nargs="+", type=int, default=[200_000, 1_000_000, 5_000_000])
    options = parser.parse_args()
    z, y = make_rows(max(options.rows), CLASSES)
    table = [("method", "rows", "ns", "system", "passes", "ns a pass")]
    for method in options.method:
        least = dict.fromkeys(options.rows, (math.inf, 0.0))
        for _ in range(options.turns):
            for n in options.rows:
                fit = used(lambda n=n, method=method: CALIBRATORS[method]().fit(z[:n], y[:n]))
                least[n] = min(least[n], fit)
        for n, seconds in least.items():
            passes = passes_of(method, z[:n], y[:n])
            ns, system = (1e9 * part / n / CLASSES for part in seconds)
            numbers = (f"{number:.3g}" for number in (ns, system, passes, ns / passes))
            table.append((method, n, *numbers))
            print(*table[-1], flush=True)
    keep(table, options.output)


if __name__ == "__main__":
    main()
