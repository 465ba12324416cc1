"""Energy-based instance-wise scaling: a temperature per input from its free energy.

Kim and Kwon, "Uncertainty Calibration with Energy Based Instance-wise Scaling in the Wild Dataset",
ECCV 2024. Equation numbers are those of the paper.

Algorithm 1, fit:

    1. T <- temperature scaling of the in-distribution samples              fit_temperature
    2. F(z) <- -log sum_k exp(z_k) of each sample (eq. 6)                   free_energy
    3. P_correct, P_incorrect <- Gaussian densities of F (eq. 10), of       fit_densities
       correctly classified samples, and of misclassified and OOD samples
    4. theta1, theta2 <- argmin of the squared error of p (eq. 12)          fit_theta

Algorithm 2, predict:

    1. h(z) <- T - theta1 lambda1 + theta2 lambda2 (eq. 9), where           _temperatures
       lambda1 = P_correct(F(z)), lambda2 = P_incorrect(F(z)) (eq. 10)
    2. p <- softmax(z / h(z)) (eq. 11), confidence <- max p (eq. 13)        EnergyScaling.formula
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from wildcal.calibrators.temperature import DEFAULT_BOUNDS, Bounds, fit_temperature
from wildcal.core.arrays import Array, FloatArray, clip, in_blocks, logsumexp
from wildcal.core.calibrator import FitInfo, TemperatureCalibrator
from wildcal.core.optimize import Solution, TemperatureObjective, linear_link
from wildcal.core.validation import Samples, check_choice, check_number

ThetaBounds: TypeAlias = Literal["safe", "paper", "none"]
OodWeight: TypeAlias = float | Literal["paper", "count"]
MIN_TEMPERATURE: Final = 0.05
# The published code searches theta in [0, 10].
_MAX_THETA: Final = 10.0
_MAX_TEMPERATURE: Final = 1e6
# Energies with a smaller standard deviation, relative to their mean, differ by rounding alone.
_MIN_STD: Final = 1e-6
# The paper fits with 100 OOD for 5,000 samples (10 classes), 400 : 5,000 (100), 3,500 : 12,500.
_PAPER_OOD: Final = ((10, 100 / 5000), (100, 400 / 5000), (math.inf, 3500 / 12500))


class Gaussian(NamedTuple):
    """Density of the free energy: weighted mean and population standard deviation."""

    mean: float
    std: float

    def pdf(self, xp: Any, energy: Array) -> Array:
        """Return the density at each energy (eq. 10)."""
        distance = clip(xp, (energy - self.mean) / self.std, -40.0, 40.0)  # exp(-800) is 0
        return xp.exp(-0.5 * distance * distance) / (self.std * math.sqrt(2 * math.pi))

    @property
    def peak(self) -> float:
        """The largest value of the density."""
        return 1 / (self.std * math.sqrt(2 * math.pi))


def free_energy(xp: Any, z: Array) -> Array:
    """Return F(z) = -log sum_k exp(z_k), shape (n_samples, 1) (eq. 6)."""
    return -logsumexp(xp, z)


def fit_densities(
    energy: FloatArray, correct: Any, weight: FloatArray
) -> tuple[Gaussian | None, Gaussian | None]:
    """Return P_correct and P_incorrect; None where samples are too few or too much alike."""
    first, second = (fit_gaussian(energy[kind], weight[kind]) for kind in (correct, ~correct))
    return first, second


def fit_gaussian(energy: FloatArray, weight: FloatArray) -> Gaussian | None:
    """Return the density of the energies, None where they are too few or too much alike."""
    if len(energy) < 2:
        return None
    mean = float(np.average(energy, weights=weight))
    std = math.sqrt(float(np.average((energy - mean) ** 2, weights=weight)))
    return Gaussian(mean, std) if std >= _MIN_STD * max(1.0, abs(mean)) else None


def fit_theta(
    data: Samples,
    energy: FloatArray,
    temperature: float,
    densities: tuple[Gaussian | None, Gaussian | None],
    theta_bounds: ThetaBounds,
    *,
    search_start: bool = False,
) -> tuple[tuple[float, float], float, Solution]:
    """Return theta, the loss at theta = 0, and the solution.

    The unknowns of the solver are theta times the peak of the density, in the unit of a
    temperature, which is well conditioned. Starting at 0 is temperature scaling.
    """
    peaks = np.array([0.0 if d is None else d.peak for d in densities])
    design = np.zeros((len(data), 2))
    for column, (sign, density) in enumerate(zip((-1, 1), densities, strict=True)):
        if density is not None:
            design[:, column] = sign * density.pdf(np, energy) / density.peak
    most = np.array([temperature - MIN_TEMPERATURE, _MAX_TEMPERATURE - temperature])
    limits = {
        "none": most,
        "paper": _MAX_THETA * peaks,
        "safe": np.minimum(_MAX_THETA * peaks, most),
    }
    upper = np.where(peaks > 0, np.clip(limits[theta_bounds], 0, most[1]), 0.0)
    link = linear_link(min(MIN_TEMPERATURE, temperature))
    objective = TemperatureObjective(
        data.logits, data.y, data.weight, design, link, offset=temperature, loss="mse"
    )
    start, before = np.zeros(2), objective(np.zeros(2))[0]
    if search_start:  # at a temperature near 0 all gradients vanish
        tried = [np.array([0.0, min(t, upper[1])]) for t in (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)]
        start = min(tried, key=lambda phi: objective(phi)[0])
    solution = objective.minimize(start, np.zeros(2), upper)
    theta = np.where(peaks > 0, solution.x / np.maximum(peaks, 1e-300), 0.0)
    return (float(theta[0]), float(theta[1])), before, solution


def with_ood_weight(data: Samples, ood_weight: OodWeight) -> Samples:
    """Return the samples with OOD ones weighing a given part of the in-distribution ones."""
    ood = data.is_ood
    if ood_weight == "count" or not ood.any():
        return data
    part = ood_weight
    if ood_weight == "paper":
        part = next(share for most, share in _PAPER_OOD if data.n_classes <= most)
    factor = float(part) * data.weight[~ood].sum() / data.weight[ood].sum()
    return replace(data, weight=np.where(ood, factor, 1.0) * data.weight)


def check_ood_weight(ood_weight: Any) -> None:
    """Raise unless the option is a number or one of the two words."""
    if isinstance(ood_weight, str):
        check_choice("ood_weight", ood_weight, ("paper", "count"))
    else:
        check_number("ood_weight", ood_weight, 1e-9, 10)


@dataclass(kw_only=True, eq=False, repr=False)
class EnergyScaling(TemperatureCalibrator):
    """p = softmax(z / h(z)), h = T - theta1 P_correct(F) + theta2 P_incorrect(F).

    F = -logsumexp(z) is the free energy of a sample. Samples with the energy of correct predictions
    are divided by less than T, those with the energy of mistakes and OOD samples by more. OOD
    samples (y == -1) have the uniform distribution as target; the method is meant to be fitted with
    some.

    Parameters
    ----------
    theta_bounds
        Range of theta. "safe" (default): [0, 10] as published, cut so that h >= min(T, 0.05) for
        every input. "paper": [0, 10] with h clipped there. "none": only h >= 0.05.
    bounds
        Range of the temperature T.
    ood_weight
        Weight of all OOD samples together, relative to the others. "paper" (default): 0.02 for up
        to 10 classes, 0.08 for up to 100, 0.28 beyond. "count": each sample counts as one.

    Attributes
    ----------
    temperature_, theta1_, theta2_
        T, theta1 and theta2.
    correct_mean_, correct_std_, incorrect_mean_, incorrect_std_
        P_correct and P_incorrect; None if a density cannot be fitted, then its term is 0.

    Notes
    -----
    X must be raw logits: log-softmax, which removes the free energy, is refused. A sample whose
    energy lies far from both densities gets plain temperature scaling. The published code has a
    third, unused parameter and no guard against h <= 0; both are gone, and derivatives are exact.

    Examples
    --------
    >>> from wildcal.testing import make_suite
    >>> suite = make_suite(seed=0)
    >>> calibrator = EnergyScaling().fit(*suite.calibration)
    >>> bool((calibrator.temperatures(suite.shifted[0]) > 0.05).all())
    True
    """

    name = "energy"
    title = "energy-based instance-wise scaling"
    reference = "Kim and Kwon, ECCV 2024"
    uses_ood = True
    requires_raw_logits = True

    theta_bounds: ThetaBounds = "safe"
    bounds: Bounds = DEFAULT_BOUNDS
    ood_weight: OodWeight = "paper"
    temperature_: float = field(init=False)
    theta1_: float = field(init=False)
    theta2_: float = field(init=False)
    correct_mean_: float | None = field(init=False)
    correct_std_: float | None = field(init=False)
    incorrect_mean_: float | None = field(init=False)
    incorrect_std_: float | None = field(init=False)

    def _check_options(self) -> None:
        check_choice("theta_bounds", self.theta_bounds, ("safe", "paper", "none"))
        check_ood_weight(self.ood_weight)

    def _fit(self, data: Samples) -> FitInfo:
        data = with_ood_weight(data, self.ood_weight)
        correct = data.logits.argmax(axis=1) == data.y
        ts = fit_temperature(data.subset(~data.is_ood), bounds=self.bounds)
        energy = in_blocks(lambda z: free_energy(np, z), data.logits)[:, 0]
        densities = fit_densities(energy, correct, data.weight)
        theta, before, solution = fit_theta(
            data, energy, ts.temperature, densities, self.theta_bounds, search_start=ts.at_bound
        )
        self.temperature_, (self.theta1_, self.theta2_) = ts.temperature, theta
        self.correct_mean_, self.correct_std_ = densities[0] or (None, None)
        self.incorrect_mean_, self.incorrect_std_ = densities[1] or (None, None)
        return ts.next_info("mse", before, solution, *self._warnings(*densities))

    def _warnings(self, correct: Gaussian | None, incorrect: Gaussian | None) -> list[str]:
        notes = [
            f"too few {kind} samples with different energies to fit a density; its term is 0."
            for kind, density in (("correct", correct), ("misclassified or OOD", incorrect))
            if density is None
        ]
        if correct and incorrect and correct.mean >= incorrect.mean:
            notes.append(
                f"correct samples have a higher mean energy ({correct.mean:.4g}) than incorrect"
                f" ones ({incorrect.mean:.4g}), so the energy does not separate them."
            )
        if self.theta_bounds != "none" and self.theta2_ > _MAX_THETA * (1 - 1e-9):
            notes.append("theta2 is at its published bound of 10. Try theta_bounds='none'.")
        return notes

    def energy(self, logits: Any) -> FloatArray:
        """Return the free energy of each sample of raw logits, shape (n_samples,)."""
        z = np.asarray(logits)
        return in_blocks(lambda block: free_energy(np, block), z)[:, 0]

    def _temperatures(self, xp: Any, z: Array, *inputs: Array) -> Any:
        """Return h(z) = T - theta1 lambda1 + theta2 lambda2 (eq. 9), at least min(T, 0.05)."""
        energy, h = free_energy(xp, z), self.temperature_
        correct = (-self.theta1_, self.correct_mean_, self.correct_std_)
        incorrect = (self.theta2_, self.incorrect_mean_, self.incorrect_std_)
        for theta, mean, std in (correct, incorrect):
            if mean is not None and std is not None:
                h = h + theta * Gaussian(mean, std).pdf(xp, energy)
        if isinstance(h, float):
            return h
        # Only theta_bounds="paper" lets h fall below; otherwise this corrects rounding.
        low = clip(xp, h, MIN_TEMPERATURE, None)
        return xp.minimum(low, clip(xp, h, self.temperature_, None))
