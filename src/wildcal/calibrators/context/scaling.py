"""Context-aware energy scaling: a temperature from the row and from the rows around it."""

from dataclasses import dataclass, field
from typing import Final, final

import numpy as np
from numpy.typing import ArrayLike

from wildcal.calibrators.context.environments import (
    Environments,
    clean_same_class_rate,
    context_columns,
    group,
    same_class_rate,
)
from wildcal.calibrators.context.features import (
    CONFIDENCE,
    ENERGY,
    MARGIN,
    Units,
    clean_units,
    raw_features,
)
from wildcal.calibrators.context.window import Context, RowStatistics
from wildcal.calibrators.energy import EnergyScaling
from wildcal.calibrators.softplus import bounded_softplus, inverse_softplus, softplus_temperature
from wildcal.calibrators.temperature import DEFAULT_BOUNDS, bound_notes, fit_temperature
from wildcal.core.arrays import FloatArray, Labels, Logits, Proba
from wildcal.core.blocks import Block, for_each_block
from wildcal.core.calibrator import FitSummary, TemperatureMap
from wildcal.core.checks import check_bounds
from wildcal.core.objective import Point, TemperatureObjective
from wildcal.core.optimize import minimize_in_box
from wildcal.core.softmax import RowFunction, by_row, softmax_at

_LARGEST: Final = 100.0
_LONGEST_STEP: Final = 1.5


@final
@dataclass(kw_only=True, eq=False)
class ContextScaling(TemperatureMap):
    """p = softmax(z / T(x, c)), T = softplus(b + w · [m, g_e, g_c, -g_c r]).

    m is the margin of the row: its largest logit minus the second. The context c is a window of
    unlabelled rows that arrive together: g_e and g_c are its mean energy and mean confidence after
    temperature scaling, r how much more often two of its rows get the same class than on clean
    data. All are in units of the clean rows, so the clean context is zero; without a context, a
    row's result depends on the row alone.

    It learns from *environments*: labelled groups of rows, one clean (number 0) and others shifted,
    such as hospitals, cameras, months, or validation images under corruptions that will not be met
    in use. Environments whose labels are all -1 are other classes.

    Parameters
    ----------
    penalty
        Weight of |w|² / 2 in the loss, which is the mean negative log-likelihood.
    bounds
        Range of T, kept for every input.

    Notes
    -----
    Our own method. The clean environment has weight 1, all shifted ones together 5, other classes
    0.1; every labelled row is seen twice, in its environment and in the mixture of all, so that a
    stream in which conditions alternate is calibrated too. Without shifted environments there is
    nothing to learn a context from: the result is energy scaling, with a warning.

    Examples
    --------
    >>> import wildcal
    >>> suite = wildcal.suites.load("cifar10-resnet20")
    >>> logits, y, environment = wildcal.evaluation.environments(suite)
    >>> calibrator = ContextScaling().fit(logits, y, environment=environment)
    >>> foggy = suite.split("fog-5").logits
    >>> around = calibrator.context(foggy)
    >>> bool(calibrator.confidence(foggy, around).mean() < calibrator.confidence(foggy).mean())
    True
    """

    name = "context"
    title = "context-aware energy scaling"
    reference = "wildcal, docs/theory/context.md"
    cost = "17 numbers"
    shift_invariant = False
    accepts_ood = True
    accepts_environments = True

    penalty: float = 1e-3
    bounds: tuple[float, float] = DEFAULT_BOUNDS
    fallback_: EnergyScaling | None = field(init=False, repr=False)
    """What the fit fell back to; None where it learnt from environments."""
    coefficients_: FloatArray = field(init=False, repr=False)
    """b and w."""
    clean_mean_: FloatArray = field(init=False, repr=False)
    clean_std_: FloatArray = field(init=False, repr=False)
    clean_temperature_: float = field(init=False, repr=False)
    clean_same_class_: float = field(init=False, repr=False)
    clean_correlation_: float = field(init=False, repr=False)
    """Of energy and confidence, on clean rows."""
    clean_rows_: int = field(init=False, repr=False)
    accuracy_error_: float = field(init=False, repr=False)
    """How far mean confidence was from accuracy, root mean square over the environments."""

    def _check_options(self) -> None:
        check_bounds("bounds", self.bounds)
        if not (np.isfinite(self.penalty) and self.penalty >= 0):
            raise ValueError(f"penalty must be finite and not negative, got {self.penalty}.")

    def _check_fitted(self) -> None:
        shapes = self.coefficients_.shape, self.clean_mean_.shape, self.clean_std_.shape
        if shapes != ((5,), (3,), (3,)):
            raise ValueError(f"the fitted arrays must have shapes (5,), (3,), (3,), got {shapes}")
        if not ((self.clean_std_ > 0).all() and self.clean_temperature_ > 0):
            raise ValueError("clean_std and clean_temperature must be positive")
        if not 0 < self.clean_same_class_ <= 1 or not -1 <= self.clean_correlation_ <= 1:
            raise ValueError("clean_same_class or clean_correlation is out of range")
        if self.clean_rows_ < 1 or self.accuracy_error_ < 0:
            raise ValueError("clean_rows or accuracy_error is out of range")

    def _reads_energy(self) -> bool:
        return True

    def context(self, logits: ArrayLike) -> Context:
        """Return the context of a window of unlabelled rows."""
        z = self._door(logits)
        return Context.of_rows(self._row_statistics(z), self.n_classes_)

    def row_statistics(self, logits: ArrayLike) -> RowStatistics:
        """Return what a context keeps of each row, for a window that rolls."""
        return self._row_statistics(self._door(logits))

    def temperature(self, logits: ArrayLike, context: Context | None = None) -> Proba:
        """Return the temperature each row is divided by, shape (n_samples,)."""
        return by_row(self._door(logits), self._temperature_in(context))

    def predict_proba(self, logits: ArrayLike, context: Context | None = None) -> Proba:
        """Return calibrated probabilities, shape (n_samples, n_classes), dtype as the logits.

        Without a context it is that of clean data: a row's result depends on the row alone.
        """
        return softmax_at(self._door(logits), self._temperature_in(context))

    def confidence(self, logits: ArrayLike, context: Context | None = None) -> Proba:
        """Return the calibrated probability of the predicted class, shape (n_samples,)."""
        return by_row(self._door(logits), self._confidence_in(context))

    def _fit(self, logits: Logits, y: Labels, weight: FloatArray | None) -> FitSummary:
        return self._fit_environments(logits, y, weight, np.where(y < 0, 1, 0))

    def _fit_environments(
        self, logits: Logits, y: Labels, weight: FloatArray | None, environment: Labels
    ) -> FitSummary:
        weight = np.ones(len(y)) if weight is None else weight
        clean = (environment == 0) & (y >= 0)
        ts = fit_temperature(logits, y, weight=weight * clean, bounds=self.bounds)
        notes = list(bound_notes(ts))
        raw, pred = raw_features(logits, ts.temperature)
        units = clean_units(raw[:, clean], weight[clean], ts.temperature)
        features = np.stack([units.of(row, i) for i, row in enumerate(raw)])
        self._keep_clean(units, features[:, clean], pred[clean], weight[clean], logits.shape[1])
        groups = group(
            features,
            pred,
            y,
            weight,
            environment,
            logits.shape[1],
            self.clean_same_class_,
        )
        self.accuracy_error_ = 0.0
        if not groups.shifted:
            notes.append(
                "there is no shifted environment to learn a context from; fell back to energy"
                " scaling, which reads each row alone. Give fit the environment of each row."
            )
            return self._fall_back(logits, y, weight, notes)
        self.fallback_ = None
        start = np.zeros(5)
        start[0] = inverse_softplus(ts.temperature)
        objective = self._objective(logits, y, groups, features[MARGIN])
        limit = np.full(5, _LARGEST)
        solution = minimize_in_box(objective, start, -limit, limit, longest_step=_LONGEST_STEP)
        self.coefficients_ = solution.x
        self.accuracy_error_ = self._error(logits, y, pred, weight, environment, groups, features)
        return FitSummary(
            loss="nll",
            loss_before=objective(start).value,
            loss_after=solution.value,
            iterations=ts.solution.iterations + solution.iterations,
            converged=ts.solution.converged and solution.converged,
            notes=tuple(notes),
        )

    def _keep_clean(
        self,
        units: Units,
        features: FloatArray,
        pred: Labels,
        weight: FloatArray,
        n_classes: int,
    ) -> None:
        """Keep what the clean rows are like."""
        self.clean_mean_, self.clean_std_ = units.mean, units.std
        self.clean_temperature_ = units.temperature
        self.clean_same_class_ = clean_same_class_rate(pred, weight, n_classes)
        self.clean_rows_ = int((weight > 0).sum())
        both = features[[ENERGY, CONFIDENCE]]
        centred = both - np.average(both, axis=1, weights=weight)[:, None]
        (ee, ec), (_, cc) = (centred * weight) @ centred.T
        self.clean_correlation_ = float(np.clip(ec / np.sqrt(ee * cc), -1, 1)) if ee * cc else 0.0

    def _fall_back(
        self, logits: Logits, y: Labels, weight: FloatArray, notes: list[str]
    ) -> FitSummary:
        energy = EnergyScaling(bounds=self.bounds)
        summary = energy._fit(logits, y, weight)
        energy.n_classes_ = logits.shape[1]
        energy.fit_ = summary
        self.fallback_, self.coefficients_ = energy, np.zeros(5)
        return FitSummary(
            loss=summary.loss,
            loss_before=summary.loss_before,
            loss_after=summary.loss_after,
            iterations=summary.iterations,
            converged=summary.converged,
            notes=(*notes, *summary.notes),
        )

    def _objective(
        self, logits: Logits, y: Labels, groups: Environments, margin: FloatArray
    ) -> "_Objective":
        ones = np.ones((len(y), 1))
        own = np.column_stack([ones, margin, groups.columns])
        mixed = np.column_stack([ones, margin, np.tile(groups.mixture_columns, (len(y), 1))])
        link = bounded_softplus(self.bounds)
        parts = [
            (TemperatureObjective(logits, y, w, design, link, loss="nll"), float(w.sum()))
            for w, design in ((groups.weight, own), (groups.mixture_weight, mixed))
        ]
        return _Objective(parts, self.penalty)

    def _error(
        self,
        logits: Logits,
        y: Labels,
        pred: Labels,
        weight: FloatArray,
        environment: Labels,
        groups: Environments,
        features: FloatArray,
    ) -> float:
        """Return how far mean confidence and accuracy are apart in the shifted environments."""
        eta = self.coefficients_[0] + self.coefficients_[1] * features[MARGIN]
        temperature = softplus_temperature(
            eta + groups.columns @ self.coefficients_[2:], self.bounds
        )
        confidence = np.empty(len(y))

        def work(block: Block) -> None:
            confidence[block.rows] = block.confidence(1.0 / temperature[block.rows])

        for_each_block(logits, work)
        gaps = []
        for number in groups.shifted:
            rows = (environment == number) & (y >= 0)
            gaps.append(np.average(confidence[rows] - (pred == y)[rows], weights=weight[rows]))
        return float(np.sqrt(np.mean(np.square(gaps))))

    def _row_statistics(self, logits: Logits) -> RowStatistics:
        units = self._units()
        energy, confidence = np.empty(len(logits)), np.empty(len(logits))
        pred = np.empty(len(logits), np.int64)

        def work(block: Block) -> None:
            energy[block.rows] = units.energy(block)
            confidence[block.rows] = units.confidence(block)
            pred[block.rows] = block.pred()

        for_each_block(logits, work)
        return RowStatistics(energy, confidence, pred)

    def _units(self) -> Units:
        return Units(self.clean_mean_, self.clean_std_, self.clean_temperature_)

    def offset(self, context: Context | None) -> float:
        """Return what a context adds to b: 0 for the clean one, more where it looks shifted."""
        if context is None or context.n == 0 or self.fallback_ is not None:
            return 0.0
        if len(context.counts) != self.n_classes_:
            raise ValueError(
                f"context must be of {self.n_classes_} classes, got {len(context.counts)}."
            )
        columns = context_columns(
            context.n,
            np.array([context.energy, context.confidence]) / context.n,
            same_class_rate(np.array(context.counts, np.float64)),
            self.clean_same_class_,
        )
        return float(columns @ self.coefficients_[2:])

    def _temperature(self, block: Block) -> FloatArray:
        return self._temperature_in(None)(block)

    def _temperature_in(self, context: Context | None) -> RowFunction:
        if self.fallback_ is not None:
            return self.fallback_._temperature
        units, (b, w) = self._units(), self.coefficients_[:2]
        b = b + self.offset(context)
        return lambda block: softplus_temperature(b + w * units.margin(block), self.bounds)

    def _confidence_in(self, context: Context | None) -> RowFunction:
        temperature = self._temperature_in(context)
        return lambda block: block.confidence(1.0 / temperature(block))

    def _describe(self) -> list[str]:
        if self.fallback_ is not None:
            return ["No context was learnt; this is energy scaling.", *self.fallback_._describe()]
        b, m, e, c, r = self.coefficients_
        return [
            f"Logits are divided by softplus({b:.4g} + {m:.4g} margin + context), features in units"
            " of the clean rows.",
            f"The context is {e:.4g} mean energy + {c:.4g} mean confidence - {r:.4g} mean"
            " confidence x surplus of rows that share a class.",
            f"Mean confidence was {100 * self.accuracy_error_:.1f} points from accuracy in the"
            " shifted environments.",
        ]


@dataclass(frozen=True, slots=True)
class _Objective:
    """A weighted mean of objectives, and a penalty on all but the first coefficient."""

    parts: list[tuple[TemperatureObjective, float]]
    penalty: float

    def __call__(self, phi: FloatArray) -> Point:
        total = sum(weight for _, weight in self.parts)
        ridge = np.full(len(phi), self.penalty)
        ridge[0] = 0.0
        value = float(ridge @ (phi * phi)) / 2
        gradient, hessian = ridge * phi, np.diag(ridge)
        for objective, weight in self.parts:
            point = objective(phi)
            value += weight / total * point.value
            gradient = gradient + weight / total * point.gradient
            hessian = hessian + weight / total * point.hessian
        return Point(value, gradient, hessian)
