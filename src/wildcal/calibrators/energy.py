"""Energy-based instance-wise scaling: a temperature per input from its free energy.

Uncertainty Calibration with Energy Based Instance-wise Scaling in the Wild Dataset, ECCV 2024.
"""

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wildcal.calibrators.temperature import (
    BOUNDS,
    DEFAULT_BOUNDS,
    Bounds,
    as_bounds,
    bound_notes,
    fit_temperature,
)
from wildcal.core.arrays import Column, FloatArray, Labels, Proba, Source
from wildcal.core.block import Block
from wildcal.core.blocks import added, joined, map_blocks
from wildcal.core.bound import Bound, bound_constant, bound_temperature
from wildcal.core.calibrator import FitSummary, TemperatureMap
from wildcal.core.checks import (
    TEMPERATURES,
    check_bounds,
    check_choice,
    check_temperature,
    looks_like_log_proba,
)
from wildcal.core.columns import RowFunction, RowValues, derived, equal_weights, row_values
from wildcal.core.objective import TemperatureObjective, identity_link
from wildcal.core.one_row import RowMap, Tempered
from wildcal.core.ood_share import OodShare, check_ood_share, shared
from wildcal.core.optimize import (
    WARM_START_ROWS,
    minimize_in_box,
    minimize_temperature,
)
from wildcal.core.rows import Rows
from wildcal.core.softmax import by_row
from wildcal.core.stored import REAL, TEXT, Either, optional, stored

Box: TypeAlias = Literal["safe", "paper", "free"]
BOXES: tuple[Box, ...] = ("safe", "paper", "free")

MIN_TEMPERATURE = 0.05
# The published code searches theta in [0, 10], in units of a density.
_THETA_MAX = 10.0
# A density narrower than this, as a part of its mean, tells rounding errors apart.
_LEAST_STD = 1e-6
# As many rows say what a typical energy is.
_TYPICAL_ROWS = 256
_SQRT_2PI = float(np.sqrt(2 * np.pi))


@dataclass(frozen=True, slots=True)
class Gaussian:
    """A normal density of energies, fitted by maximum likelihood."""

    mean: float
    std: float

    def bump(self, energy: FloatArray) -> FloatArray:
        """Return exp(-(F - mean)² / (2 std²)): the density scaled to a height of 1.

        The square of an energy of 1e200 overflows: it is simply far away. Nobody is warned of it
        where blocks are walked.
        """
        return np.asarray(_bump(energy, self.mean, self.std))

    @property
    def area(self) -> float:
        """The factor between a density and its bump."""
        return self.std * _SQRT_2PI


def fit_gaussians(
    logits: Source, energy: RowValues, weights: RowFunction, *beside: Column
) -> list[Gaussian | None]:
    """Return weighted mean and population standard deviation of energies, None where they say none.

    `weights` gives a column of them for each density, shape (n, densities), from a block and pieces
    of the columns beside it.
    """
    # Moments about a typical energy keep their digits, and take one pass.
    few = logits[:: max(1, len(logits) // _TYPICAL_ROWS)]
    pivot = float(np.mean(map_blocks(few, Block.energy, joined)))

    def sums(block: Block) -> tuple[FloatArray, FloatArray, FloatArray, NDArray[Any]]:
        far = energy(block) - pivot
        w = weights(block, *(column[block.rows] for column in beside))
        return far @ w, (far * far) @ w, w.sum(axis=0), np.count_nonzero(w, axis=0)

    found: list[Gaussian | None] = []
    for first, second, weight, n in zip(*map_blocks(logits, sums, added), strict=True):
        if n < 2:
            found.append(None)
            continue
        off = float(first / weight)
        mean, std = pivot + off, float(np.sqrt(max(second / weight - off * off, 0.0)))
        found.append(Gaussian(mean, std) if std >= _LEAST_STD * max(1.0, abs(mean)) else None)
    return found


@final
@dataclass(kw_only=True, eq=False)
class EnergyScaling(TemperatureMap):
    """p = softmax(z / h(x)), h = T - theta1 N(F; correct) + theta2 N(F; incorrect).

    F = -logsumexp(z) is the free energy of the row, T the temperature of plain temperature
    scaling, and the two normal densities describe the energies of correctly classified held-out
    rows, and of misclassified and out-of-distribution ones. theta minimizes the squared error of
    the probabilities; rows with y == -1 are pulled towards the uniform distribution.

    Parameters
    ----------
    box
        Where theta may lie. "safe" (default): the published range [0, 10]², cut so that
        h >= min(T, 0.05) for every possible input. "paper": [0, 10]² with h clamped there, which
        is the published method made safe. "free": theta bounded by h >= 0.05 alone, so that the
        result does not depend on the unit of the logits.
    bounds
        Range of the temperature T.
    ood_share
        Weight of all out-of-distribution rows together, as a part of the labeled ones: "paper"
        (default) is that of the paper, 0.02 for up to 10 classes, 0.08 for up to 100, 0.28 beyond.
        "rows" counts every row as one, so that many such rows pull hard.

    Notes
    -----
    The energy moves when a constant is added to a row, so `shift_invariant` is False: pass raw
    logits, never log_softmax. A row whose energy lies far from both densities gets plain
    temperature scaling; that is a limit of the method, not of this implementation. If a density
    cannot be fitted (no incorrect row, a single one, or constant energies) its term is dropped,
    with a warning.

    Departures from the published code: exact derivatives instead of finite differences; the
    unused third parameter and the ignored sum constraint are gone; h stays positive.

    Examples
    --------
    >>> from wildcal.testing import make_suite
    >>> suite = make_suite(seed=0)
    >>> calibrator = EnergyScaling().fit(*suite.tuning)
    >>> bool((calibrator.temperature(suite.shifted.logits) > 0.05).all())
    True
    """

    name = "energy"
    title = "energy-based instance-wise scaling"
    reference = "Energy Based Instance-wise Scaling, ECCV 2024"
    stores = "7 numbers"
    shift_invariant = False
    state = "flat"
    needs_raw_logits = True
    accepts_ood = True

    box: Box = field(default="safe", metadata=stored(TEXT))
    bounds: Bounds = field(default=DEFAULT_BOUNDS, metadata=stored(BOUNDS))
    ood_share: OodShare = field(default="paper", metadata=stored(Either((REAL, TEXT))))
    temperature_: float = field(init=False, repr=False, metadata=stored(REAL))
    theta_correct_: float = field(init=False, repr=False, metadata=stored(REAL))
    theta_incorrect_: float = field(init=False, repr=False, metadata=stored(REAL))
    correct_mean_: float | None = field(init=False, repr=False, metadata=stored(optional(REAL)))
    correct_std_: float | None = field(init=False, repr=False, metadata=stored(optional(REAL)))
    incorrect_mean_: float | None = field(init=False, repr=False, metadata=stored(optional(REAL)))
    incorrect_std_: float | None = field(init=False, repr=False, metadata=stored(optional(REAL)))

    def energy(self, logits: ArrayLike) -> Proba:
        """Return the free energy F = -logsumexp(z) of each row; lower means more familiar."""
        return by_row(self._checked(logits, None).logits, Block.energy)

    def _check_options(self) -> None:
        check_choice("box", self.box, BOXES)
        check_bounds("bounds", as_bounds(self.bounds))
        check_ood_share(self.ood_share)

    def _check_fitted(self) -> None:
        check_temperature("temperature_", self.temperature_)
        for name in ("correct_std_", "incorrect_std_"):
            value = getattr(self, name)
            if value is not None and value < _LEAST_STD:
                raise ValueError(f"{name} must be positive, at least {_LEAST_STD:g}, got {value}.")
        thetas = (self.theta_correct_, self.theta_incorrect_)
        if min(thetas) < 0:
            raise ValueError("theta_correct_ and theta_incorrect_ must not be negative.")
        heights, _ = self.terms()
        check_temperature("temperature_ and its largest rise", self.temperature_ + heights[1])
        lowest = self.temperature_ - heights[0]
        if self.box != "paper" and heights[0] > 0 and lowest < MIN_TEMPERATURE * (1 - 1e-6):
            raise ValueError(f"theta_correct_ lets the temperature fall to {lowest:g}.")
        if self.box != "free" and max(thetas) > _THETA_MAX * (1 + 1e-9):
            raise ValueError(f"theta must be at most {_THETA_MAX:g}, got {max(thetas):g}.")

    def _reads_energy(self) -> bool:
        return self.theta_correct_ > 0 or self.theta_incorrect_ > 0

    def _fit(self, rows: Rows) -> FitSummary:
        logits, y, weight = shared(rows, self.ood_share).tuning()
        weight = equal_weights(y, weight)
        # Temperature scaling sees in-distribution rows only.
        known = derived(lambda w, labels: w * (labels >= 0), weight, y)
        ts = fit_temperature(logits, y, weight=known, bounds=self.bounds)
        notes = list(bound_notes(ts))
        energy = row_values(logits, Block.energy)
        seen = _look(logits, y, weight, energy, ts.temperature)
        before = seen.loss
        correct, incorrect = self._fit_densities(seen, notes)

        def bumps(block: Block) -> FloatArray:
            design, of_rows = np.zeros((block.n, 2)), energy(block)
            if correct is not None:
                design[:, 0] = -correct.bump(of_rows)
            if incorrect is not None:
                design[:, 1] = incorrect.bump(of_rows)
            return design

        floor = min(MIN_TEMPERATURE, ts.temperature)
        link = identity_link(floor)
        design = row_values(logits, bumps)
        objective = TemperatureObjective(logits, y, weight, design, link, offset=ts.temperature)
        upper = np.zeros(2)
        if correct is not None:
            upper[0] = self._height_limit(correct, most=ts.temperature - MIN_TEMPERATURE)
        if incorrect is not None:
            # A file with a greater rise would be refused; rounding may add a last bit.
            most = (1 - 1e-9) * TEMPERATURES[1] - ts.temperature
            upper[1] = max(0.0, min(self._height_limit(incorrect), most))
        lower = np.zeros(2)
        start = self._start(objective, upper) if ts.at_bound else lower
        solution = minimize_temperature(objective, start, lower, upper)
        if solution.value > before:  # never end above temperature scaling
            solution = minimize_in_box(objective, lower, lower, upper)

        self.temperature_ = ts.temperature
        heights = solution.x
        self.theta_correct_ = float(heights[0] * correct.area) if correct else 0.0
        self.theta_incorrect_ = float(heights[1] * incorrect.area) if incorrect else 0.0
        self.correct_mean_, self.correct_std_ = _numbers(correct)
        self.incorrect_mean_, self.incorrect_std_ = _numbers(incorrect)
        if self.box != "free" and 0 < upper[1] <= heights[1] * (1 + 1e-9):
            notes.append(
                f"theta2 is at its published bound of {_THETA_MAX:g}; box='free' has none."
            )
        lowest, least = ts.temperature - heights[0], floor * (1 - 1e-9)
        clamped = 0
        if lowest < least:  # the first term takes off no more than its height
            clamped = map_blocks(
                logits,
                lambda b: int((ts.temperature + design(b) @ heights < least).sum()),
                added,
            )
        if clamped:
            notes.append(f"{clamped} rows were clamped at the temperature {floor:g}.")
        return FitSummary(
            loss="mse",
            loss_before=before,
            loss_after=solution.value,
            iterations=ts.solution.iterations + solution.iterations,
            converged=ts.solution.converged and solution.converged,
            notes=tuple(notes),
        )

    def _start(self, objective: TemperatureObjective, upper: FloatArray) -> FloatArray:
        """Return the best of a few theta2 to start from.

        At a temperature near zero every probability is 0 or 1, and the gradient vanishes there
        although a larger temperature would be better for the out-of-distribution rows.
        """
        rows = [*objective.warm_up(WARM_START_ROWS), objective][0]
        heights = [np.array([0.0, min(h, upper[1])]) for h in (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)]
        return min(heights, key=lambda at: rows(at).value)

    def _fit_densities(
        self, seen: "_Seen", notes: list[str]
    ) -> tuple[Gaussian | None, Gaussian | None]:
        if seen.normalized:
            notes.append(
                "the logits look normalized (every energy is zero), as log_softmax returns them;"
                " fell back to temperature scaling. Pass the scores before the log_softmax."
            )
            return None, None
        correct, incorrect = seen.correct, seen.incorrect
        for density, what in ((correct, "correct"), (incorrect, "incorrect or OOD")):
            if density is None:
                notes.append(
                    f"too few {what} rows with distinct energies to fit a density; left that"
                    " term out."
                )
        if correct and incorrect and correct.mean >= incorrect.mean:
            notes.append(
                f"correct rows have higher energy ({correct.mean:.4g}) than incorrect ones"
                f" ({incorrect.mean:.4g}); the energy does not tell them apart here."
            )
        return correct, incorrect

    def _describe(self) -> list[str]:
        (down, up), (correct, incorrect) = self.terms()
        words = [f"Rows unlike both groups below are divided by {self.temperature_:.4g}."]
        if correct is not None:
            words.append(
                f"Rows with the energy of correct predictions ({correct.mean:.4g}"
                f" ± {correct.std:.3g}) are divided by up to {down:.4g} less"
                f" (theta1 = {self.theta_correct_:.4g})."
            )
        if incorrect is not None:
            words.append(
                f"Rows with the energy of mistakes and OOD rows ({incorrect.mean:.4g}"
                f" ± {incorrect.std:.3g}) are divided by up to {up:.4g} more"
                f" (theta2 = {self.theta_incorrect_:.4g})."
            )
        return words

    def _height_limit(self, density: Gaussian, most: float = np.inf) -> float:
        """Return the largest allowed theta / area, the height of the term at its mode."""
        published = _THETA_MAX / density.area
        limit = {"paper": published, "free": most, "safe": min(published, most)}[self.box]
        return max(0.0, limit)

    def terms(self) -> tuple[tuple[float, float], tuple[Gaussian | None, Gaussian | None]]:
        """Return how much each density takes off and adds at its mode, and the densities."""
        correct = _density(self.correct_mean_, self.correct_std_)
        incorrect = _density(self.incorrect_mean_, self.incorrect_std_)
        return (
            self.theta_correct_ / correct.area if correct else 0.0,
            self.theta_incorrect_ / incorrect.area if incorrect else 0.0,
        ), (correct, incorrect)

    def _temperature(self, block: Block) -> FloatArray:
        if not self._reads_energy():
            return np.full(block.n, self.temperature_)
        return np.asarray(self._at(block.energy()))

    def _bind(self, rows: Rows) -> Bound:
        if not self._reads_energy():
            return bound_constant(rows.logits, self.temperature_)
        return bound_temperature(rows.logits, self._temperature)

    def row_map(self) -> RowMap:
        """Return what says the same of one row in fewer calls."""
        if not self._reads_energy():
            return Tempered(1.0 / self.temperature_)
        return Tempered(lambda energy: 1.0 / self._at(energy))

    def _at(self, energy: Any) -> Any:
        """Return the temperature at an energy, or at each of many."""
        h: Any = self.temperature_
        for theta, mean, std in (
            (-self.theta_correct_, self.correct_mean_, self.correct_std_),
            (self.theta_incorrect_, self.incorrect_mean_, self.incorrect_std_),
        ):
            if mean is not None and std is not None:
                h = h + theta / (std * _SQRT_2PI) * _bump(energy, mean, std)
        # Only "paper" can go below; elsewhere this mends the last bit of rounding.
        least = min(MIN_TEMPERATURE, self.temperature_)
        return np.maximum(h, least) if isinstance(energy, np.ndarray) else max(float(h), least)


@dataclass(frozen=True, slots=True)
class _Seen:
    """The energies of right and of other rows, and the loss of plain temperature scaling."""

    correct: Gaussian | None
    incorrect: Gaussian | None
    normalized: bool
    loss: float


def _look(
    logits: Source, y: Labels, weight: FloatArray, energy: RowValues, temperature: float
) -> _Seen:
    def look(block: Block) -> tuple[int, float, float]:
        labels, w = y[block.rows], weight[block.rows]
        far = int(not looks_like_log_proba(energy(block)))
        loss = block.squared_loss(np.full(block.n, 1.0 / temperature), labels)
        return far, float(w @ loss), float(w.sum())

    def by_kind(block: Block, labels: Labels, w: FloatArray) -> FloatArray:
        right = block.pred() == labels
        return np.column_stack([w * right, w * ~right])

    far, loss, total = map_blocks(logits, look, added)
    correct, incorrect = fit_gaussians(logits, energy, by_kind, y, weight)
    return _Seen(correct, incorrect, far == 0, float(loss / total))


def _bump(energy: Any, mean: float, std: float) -> Any:
    far = (energy - mean) / std
    return np.exp(-0.5 * (far * far))


def _numbers(density: Gaussian | None) -> tuple[float | None, float | None]:
    return (density.mean, density.std) if density else (None, None)


def _density(mean: float | None, std: float | None) -> Gaussian | None:
    return None if mean is None or std is None else Gaussian(mean, std)
