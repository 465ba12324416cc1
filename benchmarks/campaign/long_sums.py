"""Ten million rows through every accumulator: what a short file says, a thousand times over."""

import functools

import numpy as np
from benchmarks.campaign.attack import Attack, FindingError

from wildcal.metrics import (
    ClasswiseAccumulator,
    KdeAccumulator,
    ProperAccumulator,
    TopLabelAccumulator,
)

Rng = np.random.Generator
_CLASSES = 3
VALUES = {
    "ece": (TopLabelAccumulator, lambda a: a.ece()),
    "mce": (TopLabelAccumulator, lambda a: a.mce()),
    "accuracy": (TopLabelAccumulator, lambda a: a.accuracy()),
    "sce": (lambda: ClasswiseAccumulator(_CLASSES, 15), lambda a: a.sce()),
    "kde": (KdeAccumulator, lambda a: a.kde_ece()),
    "nll": (ProperAccumulator, lambda a: a.nll()),
    "brier": (ProperAccumulator, lambda a: a.brier()),
}


def _repeated(times: int, rng: Rng) -> None:
    """Compare the metrics of rows that stand there many times over with those of the rows once."""
    n = 20_000
    proba = rng.dirichlet(np.full(_CLASSES, 10.0 ** rng.uniform(-1, 1)), size=n)
    proba = np.maximum(proba, 1e-12).astype(np.float32)
    y = rng.integers(0, _CLASSES, n)
    once = {name: make().update(y, proba) for name, (make, _) in VALUES.items()}
    many = {name: make() for name, (make, _) in VALUES.items()}
    for _ in range(times):
        cut = int(rng.integers(n))
        order = np.roll(np.arange(n), cut)
        for total in many.values():
            total.update(y[order[:cut]], proba[order[:cut]])
            total.update(y[order[cut:]], proba[order[cut:]])
    for name, (_, value) in VALUES.items():
        got, wanted = value(many[name]), value(once[name])
        # The bandwidth of a kernel follows the number of rows, and with it what it says.
        if name != "kde" and not np.isclose(got, wanted, rtol=1e-10, atol=1e-13):
            raise FindingError(f"{name} of {times * n:,} rows is {got!r}, of one round {wanted!r}")
        if not np.isfinite(got):
            raise FindingError(f"{name} of {times * n:,} rows is {got!r}")


ATTACKS = [
    Attack("numbers/sums", functools.partial(_repeated, 5), batch=1),
    Attack(
        "numbers/sums-10m-rows", functools.partial(_repeated, 500), batch=1, seconds=3600, long=True
    ),
]
