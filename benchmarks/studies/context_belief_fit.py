"""The fit of how far `ContextScaling` believes class counts, and of its slopes."""

from dataclasses import dataclass, replace

import numpy as np
from context_windows import WEIGHTS, Seen
from scipy.optimize import minimize

from wildcal.calibrators.context import constants
from wildcal.calibrators.context.belief import BELIEFS, Belief
from wildcal.calibrators.context.gap import GapModel

FORMER = {
    10: GapModel(0.46, 2.73, 0.56, 1.46, belief=BELIEFS[1]),
    100: GapModel(1.17, 1.68, 0.66, 2.06, belief=BELIEFS[1]),
}
"""What was shipped before: chosen on four validation corruptions and 24 transforms."""
SIGNS = BELIEFS[2]
"""What is shipped for few classes, without the count of unsure rows."""
SHIPPED = {
    10: replace(constants.SHIPPED[10], belief=SIGNS),
    100: GapModel(1.31, 1.05, 0.76, 2.06, belief=SIGNS),
}
"""What is shipped, and what was for a hundred classes while they were read as ten are."""
OF_BELIEF = ("explained", "usual", "by_chance", "alike_moved", "mixed")
SLOPES = ("beta_p", "beta_2", "beta_g")
SMOOTH = 0.01
"""An error of the accuracy below this counts by its square, so that the loss has a gradient."""
WIDEST = (0.0, 4.0)
"""Each number stays within these multiples of the shipped one."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """What windows teach, by the number of classes."""

    models: dict[int, GapModel]

    def estimate(self, seen: Seen, n_classes: int) -> np.ndarray:
        """Return the estimated accuracy of windows."""
        return seen.confidence - self.models[n_classes].gap(seen.statistics)


def fit(ten: Seen, hundred: Seen | None) -> Fitted:
    """Return belief and slopes that ten classes teach, and with that belief those of a hundred."""
    start = SHIPPED[10]
    belief, slopes = [getattr(start.belief, name) for name in OF_BELIEF], start.numbers()[:3]

    def with_all(values: np.ndarray) -> GapModel:
        numbers = dict(zip(OF_BELIEF, values.tolist(), strict=False))
        return GapModel(*values[-3:].tolist(), start.lam, belief=replace(start.belief, **numbers))

    models = {10: with_all(solve(ten, with_all, np.array([*belief, *slopes])))}
    if hundred is not None:
        found = models[10].belief
        models[100] = fit_slopes(hundred, SHIPPED[100], found)
    return Fitted(models)


def fit_slopes(seen: Seen, start: GapModel, belief: Belief) -> GapModel:
    """Return the model with the best slopes where the belief is known."""

    def with_slopes(values: np.ndarray) -> GapModel:
        return GapModel(*values.tolist(), start.lam, belief=belief)

    return with_slopes(solve(seen, with_slopes, np.array(start.numbers()[:3])))


def solve(seen: Seen, model, start: np.ndarray) -> np.ndarray:
    """Return the numbers with the least mean absolute error of the accuracy, from `start` on."""
    weight = weights(seen)
    truth = seen.confidence - seen.accuracy

    def loss(parts: np.ndarray) -> float:
        error = model(parts * start).gap(seen.statistics) - truth
        return float(weight @ (np.sqrt(error * error + SMOOTH * SMOOTH) - SMOOTH))

    ends = [WIDEST] * len(start)
    # The gradient is numeric, with steps far above the rounding of a sum over thousands.
    found = minimize(
        loss, np.ones(len(start)), method="L-BFGS-B", bounds=ends, options={"eps": 1e-5}
    )
    return found.x * start


def weights(seen: Seen) -> np.ndarray:
    """Return what each window weighs: regimes as `WEIGHTS`, each source alike; they sum to one."""
    weight = np.zeros(len(seen.regime))
    for source in np.unique(seen.source):
        for regime, part in WEIGHTS.items():
            mine = (seen.source == source) & (seen.regime == regime)
            weight[mine] = part / max(mine.sum(), 1)
    return weight / weight.sum()


def numbers(model: GapModel, names: tuple[str, ...]) -> dict[str, float]:
    """Return some numbers of a model or its belief, by name."""
    return {
        name: float(getattr(model.belief if name in OF_BELIEF else model, name)) for name in names
    }
