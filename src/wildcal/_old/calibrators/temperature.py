"""Temperature scaling: divide all logits by one positive number (Guo et al., 2017)."""

from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, final

import numpy as np

from wildcal._old.calibrators.soft_rows import check_prior, soft_weight_of, with_soft_rows
from wildcal._old.core.arrays import FloatArray, Labels, Source
from wildcal._old.core.block import Block
from wildcal._old.core.bound import Bound, bound_constant
from wildcal._old.core.calibrator import FitSummary, TemperatureMap
from wildcal._old.core.checks import check_bounds, check_choice, check_temperature
from wildcal._old.core.columns import RowValues
from wildcal._old.core.objective import LOSSES, Loss, TemperatureObjective, exp_link, mean_loss
from wildcal._old.core.one_row import RowMap, Tempered
from wildcal._old.core.optimize import WARM_START_ROWS, Solution, TuningLoss, minimize_temperature
from wildcal._old.core.rows import Rows
from wildcal._old.core.stored import FLAG, REAL, TEXT, Either, Row, stored

Bounds: TypeAlias = tuple[float, float] | Literal["paper"]
"""The range of a temperature; "paper" is that of the energy paper's code."""
BOUNDS = Either((Row((REAL, REAL)), TEXT))
DEFAULT_BOUNDS = (1e-2, 1e2)
PAPER_BOUNDS = (0.05, 5.0)
# A Newton step in log T far from the minimum may be wild; no step leaves this factor of e.
_LONGEST_STEP = 1.5
# The squared error is not convex in T, so it is first looked at on this many temperatures.
_GRID_POINTS = 16
_NEARLY_ZERO = 1e-4


def as_bounds(bounds: Bounds) -> tuple[float, float]:
    """Return the range that a `bounds` option stands for."""
    return PAPER_BOUNDS if bounds == "paper" else bounds


@dataclass(frozen=True, slots=True)
class TemperatureFit:
    """A fitted temperature with the company it was found in."""

    temperature: float
    solution: Solution
    at_bound: bool


def fit_temperature(
    logits: Source,
    y: Labels,
    *,
    weight: FloatArray | None = None,
    loss: Loss = "nll",
    bounds: Bounds = DEFAULT_BOUNDS,
    soft: float = 0.0,
) -> TemperatureFit:
    """Return the T within bounds that minimizes the mean loss of softmax(logits / T).

    The cross-entropy is convex in 1/T; Newton runs on log T, which keeps T positive and the
    steps scale-free. The squared error starts from the cross-entropy solution or from the best
    point of a coarse grid, whichever is lower. Where the loss does not depend on T (all logits of
    a row equal) the answer is T = 1. `soft` is the weight of soft rows, for the cross-entropy.
    """
    low, high = as_bounds(bounds)
    lower, upper = np.log([low]), np.log([high])
    one = RowValues(_one)
    plain = TemperatureObjective(logits, y, weight, one, exp_link, loss=loss)
    objective: TuningLoss = with_soft_rows(plain, soft) if soft else plain
    start = np.clip(np.zeros(1), lower, upper)
    if loss == "mse":
        nll = fit_temperature(logits, y, weight=weight, loss="nll", bounds=bounds)
        subset = [*plain.warm_up(WARM_START_ROWS), plain][0]
        grid = np.append(np.linspace(lower[0], upper[0], _GRID_POINTS), np.log(nll.temperature))
        losses = [
            mean_loss(subset.logits, subset.y, subset.weight, float(np.exp(point)), loss)
            for point in grid
        ]
        best = int(np.argmin(losses))
        start = grid[[best]] if losses[best] < losses[-1] * (1 - 1e-9) else grid[[-1]]
    solution = minimize_temperature(objective, start, lower, upper, longest_step=_LONGEST_STEP)
    if solution.value < _NEARLY_ZERO and not soft:
        # All rows are right: the loss falls all the way to T = 0, ever more slowly.
        at_lower = objective(lower)
        if at_lower.value <= solution.value:
            solution = replace(solution, x=lower, value=at_lower.value)
    log_t = float(solution.x[0])
    at_bound = bool(log_t <= lower[0] or log_t >= upper[0])
    return TemperatureFit(float(np.clip(np.exp(log_t), low, high)), solution, at_bound)


def _one(block: Block) -> FloatArray:
    return np.ones((block.n, 1))


@final
@dataclass(kw_only=True, eq=False)
class TemperatureScaling(TemperatureMap):
    """p = softmax(z / T) with the one T that fits held-out data best.

    Parameters
    ----------
    loss
        "nll" (cross-entropy, the published method) or "mse" (squared error of the probabilities).
    bounds
        Range of T, or "paper" for that of the energy paper's code, (0.05, 5).
    prior
        Strength of soft rows, which pull T towards 1 while there are few mistakes to learn from: 0
        (default, as published) for none; 2 is good with fewer than some hundred labels. For "nll".
    ood
        Let `fit` take rows of other classes (y == -1), which aim at the uniform distribution. Not
        part of the published method: what `energy` is compared with where it has such rows
        (``ts@clean,ood`` on suites).

    Notes
    -----
    When every held-out row is classified correctly the best T is 0, and T ends at its lower
    bound, with a warning. Guo et al., On calibration of modern neural networks, ICML 2017.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.array([[3.0, 0.0], [3.0, 0.0], [3.0, 0.0], [3.0, 0.0]])
    >>> y = np.array([0, 0, 0, 1])  # 75 % right
    >>> TemperatureScaling().fit(logits, y).predict_proba(logits)[0]
    array([0.75, 0.25])
    """

    name = "ts"
    title = "temperature scaling"
    reference = "Guo et al., ICML 2017"
    stores = "1 number"
    shift_invariant = True
    state = "flat"

    loss: Loss = field(default="nll", metadata=stored(TEXT))
    bounds: Bounds = field(default=DEFAULT_BOUNDS, metadata=stored(BOUNDS))
    prior: float = field(default=0.0, metadata=stored(REAL))
    ood: bool = field(default=False, metadata=stored(FLAG))
    temperature_: float = field(init=False, repr=False, metadata=stored(REAL))

    @property
    def takes_ood(self) -> bool:
        """Whether the option `ood` asks for it."""
        return self.ood

    def _check_options(self) -> None:
        check_choice("loss", self.loss, LOSSES)
        check_bounds("bounds", as_bounds(self.bounds))
        check_prior(self.prior)
        if self.prior and self.loss != "nll":
            raise ValueError("prior is for loss='nll'; leave it at 0 with another loss.")

    def _check_fitted(self) -> None:
        check_temperature("temperature_", self.temperature_)

    def _fit(self, rows: Rows) -> FitSummary:
        logits, y, weight = rows.tuning()
        soft = soft_weight_of(logits, y, weight, self.prior)
        fit = fit_temperature(
            logits, y, weight=weight, loss=self.loss, bounds=self.bounds, soft=soft
        )
        self.temperature_ = fit.temperature
        after = fit.solution.value
        if soft:  # the loss of the rows, without their soft companions
            after = mean_loss(logits, y, weight, fit.temperature, self.loss)
        return FitSummary(
            loss=self.loss,
            loss_before=mean_loss(logits, y, weight, 1.0, self.loss),
            loss_after=after,
            iterations=fit.solution.iterations,
            converged=fit.solution.converged,
            notes=bound_notes(fit),
        )

    def _describe(self) -> list[str]:
        effect = "less" if self.temperature_ > 1 else "more"
        return [
            f"All logits are divided by {self.temperature_:.4g}, which makes every prediction"
            f" {effect} confident."
        ]

    def _temperature(self, block: Block) -> FloatArray:
        return np.full(block.n, self.temperature_)

    def _bind(self, rows: Rows) -> Bound:
        return bound_constant(rows.logits, self.temperature_)

    def row_map(self) -> RowMap:
        """Return what says the same of one row in fewer calls."""
        return Tempered(1.0 / self.temperature_)


def bound_notes(fit: TemperatureFit) -> tuple[str, ...]:
    """Return a warning text if the temperature ended at the edge of its range."""
    if not fit.at_bound:
        return ()
    return (
        f"the temperature {fit.temperature:g} is at its bound; are the held-out rows all correct,"
        " all wrong, or part of the training set? If the logits are in other units, divide them all"
        " by one number, or widen `bounds`.",
    )
