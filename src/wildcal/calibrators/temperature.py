"""Temperature scaling: divide the logits by one positive number (Guo et al., 2017)."""

from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from wildcal.core.arrays import Array
from wildcal.core.calibrator import FitInfo, TemperatureCalibrator
from wildcal.core.optimize import (
    Loss,
    Solution,
    TemperatureObjective,
    exp_link,
    temperature_losses,
)
from wildcal.core.validation import Samples, check_bounds, check_choice

Bounds: TypeAlias = tuple[float, float] | Literal["paper"]
"""Range of a temperature; "paper" is that of the energy paper's code."""
DEFAULT_BOUNDS: Final = (1e-2, 1e2)
_PAPER_BOUNDS: Final = (0.05, 5.0)
# Largest Newton step of log T.
_MAX_STEP: Final = 1.5
# The squared error is not convex in T; the best of this many temperatures is the start.
_N_GRID: Final = 16
# If all samples are right, the loss falls until T reaches its lower bound.
_NO_LOSS: Final = 1e-4


def bounds_of(bounds: Bounds) -> tuple[float, float]:
    """Return the range of an option `bounds`."""
    return _PAPER_BOUNDS if bounds == "paper" else check_bounds("bounds", bounds)


@dataclass(frozen=True)
class TemperatureFit:
    """A fitted temperature."""

    temperature: float
    info: FitInfo
    at_bound: bool
    bounds: tuple[float, float]

    def next_info(self, loss: str, before: float, found: Solution, *warnings: str) -> FitInfo:
        """Return the record of a fit that started from this temperature."""
        return FitInfo(
            loss,
            before,
            found.value,
            self.info.n_iter + found.n_iter,
            self.info.converged and found.converged,
            warnings=(*self.info.warnings, *warnings),
        )


def fit_temperature(
    data: Samples, *, loss: Loss = "nll", bounds: Bounds = DEFAULT_BOUNDS
) -> TemperatureFit:
    """Return the T within bounds that minimizes the mean loss of softmax(z / T).

    The cross-entropy is convex in 1 / T; Newton's method runs on log T. The squared error starts
    from the best point of a grid. Where the loss does not depend on T, T = 1.
    """
    low, high = bounds_of(bounds)
    lower, upper = np.log([low]), np.log([high])
    ones = np.ones((len(data), 1))
    objective = TemperatureObjective(data.logits, data.y, data.weight, ones, exp_link, loss=loss)
    start = _grid_start(data, low, high) if loss == "mse" else np.zeros(1)
    solution = objective.minimize(start, lower, upper, max_step=_MAX_STEP)
    if solution.value < _NO_LOSS and (at_lower := objective(lower)[0]) <= solution.value:
        solution = replace(solution, x=lower, value=at_lower)
    log_t = float(solution.x[0])
    temperature = float(np.clip(np.exp(log_t), low, high))
    at_bound = bool(log_t <= lower[0] or log_t >= upper[0])
    note = (
        f"the temperature {temperature:g} is at its bound. Are the samples all correct, all wrong,"
        " or part of the training set? Try wider bounds if the logits have another unit."
    )
    before, warnings = objective(np.zeros(1))[0], (note,) if at_bound else ()
    info = FitInfo(
        loss, before, solution.value, solution.n_iter, solution.converged, warnings=warnings
    )
    return TemperatureFit(temperature, info, at_bound, (low, high))


def _grid_start(data: Samples, low: float, high: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the best log T for the squared error on a grid, the NLL solution included."""
    step = max(1, len(data) // 4096)
    few = data.subset(np.arange(len(data)) % step == 0)
    nll = np.log(fit_temperature(data, bounds=(low, high)).temperature)
    grid = np.append(nll, np.linspace(np.log(low), np.log(high), _N_GRID))  # nll if all are equal
    losses = [few.weight @ temperature_losses(few.logits, few.y, np.exp(t), "mse") for t in grid]
    return grid[[int(np.argmin(losses))]]


@dataclass(kw_only=True, eq=False, repr=False)
class TemperatureScaling(TemperatureCalibrator):
    """p = softmax(z / T) with the T that minimizes the loss of held-out samples.

    Parameters
    ----------
    loss
        "nll" (cross-entropy, as published) or "mse" (squared error of the probabilities).
    bounds
        Range of T, or "paper" for that of the energy paper's code, (0.05, 5).
    ood
        Let `fit` use OOD samples (y == -1), whose target is the uniform distribution. Not part of
        the published method.

    Attributes
    ----------
    temperature_
        The fitted T.

    References
    ----------
    Guo et al., On calibration of modern neural networks, ICML 2017.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.array([[3.0, 0.0]] * 80)
    >>> y = np.repeat([0, 0, 0, 1], 20)  # 75 % are classified correctly
    >>> TemperatureScaling().fit(logits, y).predict_proba(logits[:1])
    array([[0.75, 0.25]])
    """

    name = "ts"
    title = "temperature scaling"
    reference = "Guo et al., ICML 2017"

    loss: Loss = "nll"
    bounds: Bounds = DEFAULT_BOUNDS
    ood: bool = False
    temperature_: float = field(init=False)

    @property
    def uses_ood(self) -> bool:  # type: ignore[override]
        """Whether `fit` uses samples with y == -1."""
        return self.ood

    def _check_options(self) -> None:
        check_choice("loss", self.loss, ("nll", "mse"))

    def _fit(self, data: Samples) -> FitInfo:
        fit = fit_temperature(data, loss=self.loss, bounds=self.bounds)
        self.temperature_ = fit.temperature
        return fit.info

    def _temperatures(self, xp: Any, z: Array, *inputs: Array) -> float:
        return self.temperature_
