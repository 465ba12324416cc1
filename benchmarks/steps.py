"""What NumPy takes for each step of a softmax, in nanoseconds an entry: the floor under ours.

    python benchmarks/steps.py --output benchmarks/steps.csv

On a block as `map_blocks` cuts them, the least processor time of many turns. Below 64 classes a
block lies classes first, so it is turned before and after.
"""

from collections.abc import Callable

from turns import keep, least, options_of  # before NumPy: it sets its threads

# ruff: isort: split
import numpy as np

from wildcal.core.block import CLASSES_FIRST_BELOW
from wildcal.core.blocks import block_rows

CLASSES = (10, 100, 1_000)


def steps(k: int) -> dict[str, Callable[[], object]]:
    """Return the steps of a block of k classes."""
    rng = np.random.default_rng(0)
    rows = block_rows(k)
    z = rng.standard_normal((rows, k), dtype=np.float32)
    wide, out = z.astype(np.float64), z.copy()
    if k < CLASSES_FIRST_BELOW:
        e, each = np.ascontiguousarray(z.T), z.max(axis=1)
        found: dict[str, Callable[[], object]] = {
            "turn": lambda: np.copyto(e, z.T),
            "largest": lambda: e.max(axis=0),
            "sum": lambda: np.add.reduce(e, 0),
            "turn back": lambda: np.copyto(out, e.T),
        }
    else:
        e, each, ones = z.copy(), z.max(axis=1)[:, None], np.ones(k, np.float32)
        found = {"largest": lambda: z.argmax(axis=1), "sum": lambda: np.vecdot(e, ones)}
    spare, small = e.copy(), -np.abs(e)
    return found | {
        "shift": lambda: np.subtract(e, each, out=spare),
        "scale": lambda: np.multiply(e, np.float32(0.5), out=spare),
        "exp": lambda: np.exp(small, out=spare),
        "divide": lambda: np.multiply(e, each, out=spare),
        "exp in float64": lambda: np.exp(wide, out=None),
    }


def main() -> None:
    """Measure, print, and write a csv."""
    options = options_of(__doc__, turns=150).parse_args()
    table = [("step", "classes", "ns")]
    for k in CLASSES:
        for step, seconds in least(steps(k), options.turns).items():
            table.append((step, k, f"{1e9 * seconds / k / block_rows(k):.2f}"))
            print(*table[-1], flush=True)
    keep(table, options.output)


if __name__ == "__main__":
    main()
