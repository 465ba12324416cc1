"""The first form of context scaling: it reads mean energy, mean confidence and class collapse."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wildcal.calibrators.context.classes import ClassRows, pairs_of, rolling_pairs
from wildcal.calibrators.context.environments import (
    Environments,
    clean_same_class_rate,
    context_columns,
    group,
    light_note,
)
from wildcal.calibrators.context.features import (
    CONFIDENCE,
    ENERGY,
    MARGIN,
    Units,
    clean_units,
    raw_features,
)
from wildcal.calibrators.context.rolling import WindowMap, offset_in
from wildcal.calibrators.context.window import RowStatistics
from wildcal.calibrators.energy import EnergyScaling
from wildcal.calibrators.softplus import (
    bounded_softplus,
    minimize_softplus,
    softplus_temperature,
)
from wildcal.calibrators.temperature import (
    DEFAULT_BOUNDS,
    TemperatureFit,
    bound_notes,
    fit_temperature,
)
from wildcal.core.arrays import FloatArray, Labels, Logits, Source
from wildcal.core.block import Block
from wildcal.core.bound import Bound, bound_temperature
from wildcal.core.calibrator import FitSummary
from wildcal.core.checks import check_bounds, check_temperature, looks_like_log_proba
from wildcal.core.errors import CalibrationWarning
from wildcal.core.objective import Point, TemperatureObjective
from wildcal.core.rows import Rows
from wildcal.core.softmax import RowFunction
from wildcal.core.stored import ARRAY, INTEGER, REAL, Nested, Row, optional, stored

_UNSEEN: Final = 1.4


@final
@dataclass(kw_only=True, eq=False)
class FirstContextScaling(WindowMap):
    """p = softmax(z / T(x, c)), T = softplus(b + w · [m, g_e, g_c, -g_c r]).

    m is the margin of the row: its largest logit minus the second. The context c is a window of
    unlabeled rows that arrive together: g_e and g_c are its mean energy and mean confidence after
    temperature scaling, r how much more often two of its rows get the same class than on clean
    data. All are in units of the clean rows, so the clean context is zero; without a context, a
    row's result depends on the row alone.

    It learns from *environments*: labeled groups of rows, one clean (number 0) and others shifted,
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
    Our own method, in the form it had before `ContextScaling`, kept for files that were made with
    it and for comparisons. The clean environment has weight 1, all shifted ones together 5, other
    classes 0.1; their rows aim at the uniform distribution. Every labeled row is seen twice, in
    its environment and, with weight n / 6 in all for n shifted ones, in the mixture of
    environments, so that a stream in which conditions alternate is calibrated too. Without shifted
    environments there is nothing to learn a context from: the result is energy scaling, with a
    warning.

    Features are cut off at 6 standard deviations and r to [-0.5, 6]; a window of n rows is believed
    n / (n + 4), n the sum of weights in `fit`.

    Examples
    --------
    >>> import wildcal
    >>> suite = wildcal.suites.load("cifar10-resnet20")
    >>> logits, y, environment = wildcal.evaluation.environments(suite)
    >>> calibrator = FirstContextScaling().fit(logits, y, environment=environment)
    >>> foggy = suite.split("fog-5").logits
    >>> around = calibrator.context(foggy)
    >>> alone, together = calibrator.confidence(foggy), calibrator.confidence(foggy, context=around)
    >>> bool(together.mean() < alone.mean())
    True
    """

    name = "context-1"
    name_in_states = "context"  # as it was called when the first states were saved
    title = "context-aware energy scaling"
    reference = "wildcal, docs/theory/context.md"
    stores = "17 numbers"
    shift_invariant = False
    needs_raw_logits = True
    accepts_ood = True
    reads = frozenset({"logits", "environment", "window"})
    features = ("energy", "confidence")

    penalty: float = field(default=1e-3, metadata=stored(REAL))
    bounds: tuple[float, float] = field(default=DEFAULT_BOUNDS, metadata=stored(Row((REAL, REAL))))
    fallback_: EnergyScaling | None = field(
        init=False, repr=False, metadata=stored(optional(Nested("energy")))
    )
    """What the fit fell back to; None where it learned from environments."""
    coefficients_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))
    """b and w."""
    clean_mean_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))
    clean_std_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))
    clean_temperature_: float = field(init=False, repr=False, metadata=stored(REAL))
    clean_same_class_: float = field(init=False, repr=False, metadata=stored(REAL))
    clean_correlation_: float = field(init=False, repr=False, metadata=stored(REAL))
    """Of energy and confidence, on clean rows."""
    clean_rows_: int = field(init=False, repr=False, metadata=stored(INTEGER))
    accuracy_error_: float = field(init=False, repr=False, metadata=stored(REAL))
    """How far mean confidence was from accuracy, root mean square over shifted environments."""
    accuracy_error_slope_: float = field(init=False, repr=False, metadata=stored(REAL))
    """The same per unit of the offset that the context gave: stronger shifts are guessed worse."""

    def _check_options(self) -> None:
        check_bounds("bounds", self.bounds)
        if not (np.isfinite(self.penalty) and self.penalty >= 0):
            raise ValueError(f"penalty must be finite and not negative, got {self.penalty}.")

    def _check_fitted(self) -> None:
        shapes = self.coefficients_.shape, self.clean_mean_.shape, self.clean_std_.shape
        if shapes != ((5,), (3,), (3,)):
            raise ValueError(f"the fitted arrays must have shapes (5,), (3,), (3,), got {shapes}")
        check_temperature("clean_temperature_", self.clean_temperature_)
        if not (self.clean_std_ > 0).all():
            raise ValueError("clean_std must be positive")
        if not 0 < self.clean_same_class_ <= 1 or not -1 <= self.clean_correlation_ <= 1:
            raise ValueError("clean_same_class or clean_correlation is out of range")
        if self.clean_rows_ < 1 or min(self.accuracy_error_, self.accuracy_error_slope_) < 0:
            raise ValueError("clean_rows or accuracy_error is out of range")
        if not isinstance(self.fallback_, EnergyScaling | None):
            raise ValueError("the fallback must be energy scaling")

    def _reads_energy(self) -> bool:
        if self.fallback_ is not None:
            return self.fallback_.reads_energy
        return bool(self.coefficients_[2] != 0)

    def _fit(self, rows: Rows) -> FitSummary:
        logits, y, weight = rows.tuning()
        environment = np.where(y < 0, 1, 0) if rows.environment is None else rows.environment
        given, weight = weight, np.ones(len(y)) if weight is None else weight
        clean = (environment == 0) & (y >= 0)
        ts = self._clean_temperature(logits, y, weight * clean)
        raw, pred = raw_features(logits, ts.temperature)
        normalized = looks_like_log_proba(raw[ENERGY])
        if normalized:
            raw[ENERGY] = 0.0  # and not what rounding left of it
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
        self.accuracy_error_ = self.accuracy_error_slope_ = 0.0
        if not groups.shifted:
            return self._fall_back(Rows(logits, y, given))
        self.fallback_ = None
        objective = self._objective(logits, y, groups, features[MARGIN])
        fit = minimize_softplus(objective, 5, temperature=ts.temperature, bounds=self.bounds)
        self.coefficients_ = fit.phi
        notes = list(bound_notes(ts))
        if normalized:
            self.coefficients_[2] = 0.0
            notes.append(
                "the logits look normalized (every energy is zero), as log_softmax returns them;"
                " the context is read from confidences alone. Pass the scores before the"
                " log_softmax."
            )
        light = light_note(weight, {number: groups.rows[number] for number in groups.shifted})
        if light is not None:
            notes.append(light)
        self._keep_errors(logits, y, pred, weight, groups)
        return fit.summary("nll", ts, notes)

    def _clean_temperature(
        self, logits: Logits, y: Labels, clean_weight: FloatArray
    ) -> TemperatureFit:
        """Return the temperature of the clean rows, which mostly stand together."""
        rows = np.flatnonzero(clean_weight)
        span = slice(rows[0], rows[-1] + 1)
        return fit_temperature(logits[span], y[span], weight=clean_weight[span], bounds=self.bounds)

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
        centerd = both - np.average(both, axis=1, weights=weight)[:, None]
        (ee, ec), (_, cc) = (centerd * weight) @ centerd.T
        self.clean_correlation_ = float(np.clip(ec / np.sqrt(ee * cc), -1, 1)) if ee * cc else 0.0

    def _fall_back(self, rows: Rows) -> FitSummary:
        with warnings.catch_warnings():  # they are repeated as ours
            warnings.simplefilter("ignore", CalibrationWarning)
            energy = EnergyScaling(bounds=self.bounds).fit_rows(rows)
        summary = energy.fit_
        self.fallback_, self.coefficients_ = energy, np.zeros(5)
        note = (
            "there is no shifted environment to learn a context from; fell back to energy scaling,"
            " which reads each row alone. Give fit the environment of each row."
        )
        return replace(summary, notes=(note, *summary.notes))

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

    def _keep_errors(
        self,
        logits: Logits,
        y: Labels,
        pred: Labels,
        weight: FloatArray,
        groups: Environments,
    ) -> None:
        """Keep how far mean confidence and accuracy are apart in the shifted environments."""
        offset = groups.columns @ self.coefficients_[2:]
        confidence = self.bind_offset(Rows(logits), offset).confidences()
        correct = pred == y
        gaps, offsets = [], []
        for number in groups.shifted:
            rows = groups.rows[number]
            rows = rows[y[rows] >= 0]
            gaps.append(np.average(confidence[rows] - correct[rows], weights=weight[rows]))
            offsets.append(offset[rows[0]])
        error, size = (float(np.sqrt(np.mean(np.square(v)))) for v in (gaps, offsets))
        self.accuracy_error_ = error
        self.accuracy_error_slope_ = error / size if size > 0 else 0.0

    def accuracy_error(self, offset: ArrayLike) -> FloatArray:
        """Return how far mean confidence and accuracy may be apart where a context gave an offset.

        Taken as one standard deviation, and wide on purpose: shifts that were not tuned on are
        harder than those that were, so the part that grows is taken 1.4 times, and the whole error
        of the fit is added. The table in docs/stream.md shows how often intervals held. Infinite
        where the fit fell back: without shifted environments nothing is known.
        """
        offset = np.asarray(offset, np.float64)
        if self.fallback_ is not None:
            return np.full(offset.shape, np.inf)
        growing = _UNSEEN * self.accuracy_error_slope_ * offset
        return np.asarray(np.hypot(self.accuracy_error_, growing))

    @property
    def uses_window(self) -> bool:
        """Whether a context was learned."""
        return self.fallback_ is None

    def _sums_depend_on(self) -> list[float]:
        if self.fallback_ is not None:  # no context is read then
            return []
        return [self.clean_temperature_, *self.clean_mean_.tolist(), *self.clean_std_.tolist()]

    def _look(self) -> Callable[[Block], RowStatistics]:
        units, own = self._units(), self._own()

        def look(block: Block) -> RowStatistics:
            both = np.stack([units.energy(block), units.confidence(block)])
            return RowStatistics(both, block.pred(), own(block))

        return look

    def _own(self) -> RowFunction:
        """Return w m of a block; where the fit fell back, its temperature."""
        if self.fallback_ is not None:
            return self.fallback_._temperature
        units, w = self._units(), self.coefficients_[1]
        return lambda block: w * units.margin(block)

    def moved(self, own: FloatArray, offset: float | FloatArray) -> FloatArray:
        """Return the temperatures of rows from w m, each in its window."""
        if self.fallback_ is not None:
            return own
        return softplus_temperature((self.coefficients_[0] + offset) + own, self.bounds)

    def class_numbers(self, counts: Labels, inside: FloatArray) -> FloatArray:
        """Return how many ordered pairs of rows share a class."""
        return np.array([pairs_of(counts)])

    def rolling_class_numbers(
        self, counts: Labels, inside: NDArray[np.int64], entering: ClassRows, leaving: ClassRows
    ) -> FloatArray:
        """Return the same after each entering row."""
        return rolling_pairs(counts, entering.pred, leaving.pred)[None]

    def standardized(self, means: FloatArray) -> FloatArray:
        """Return mean energy and confidence, which are in units of clean rows already."""
        return means

    def _units(self) -> Units:
        return Units(self.clean_mean_, self.clean_std_, self.clean_temperature_)

    def window_offset(self, n: ArrayLike, means: FloatArray, classes: ArrayLike) -> FloatArray:
        """Return what each of several windows adds to b."""
        n = np.asarray(n, np.float64)
        if self.fallback_ is not None:
            return np.zeros(n.shape)
        same_class = np.asarray(classes, np.float64)[0] / np.maximum(n * (n - 1), 1)
        columns = context_columns(n, means, same_class, self.clean_same_class_)
        e, c, r = self.coefficients_[2:]
        # Not a matrix product, whose last bit may depend on how many windows there are.
        return np.asarray(e * columns[0] + c * columns[1] + r * columns[2])

    def bind_offset(self, rows: Rows, offset: float | FloatArray) -> Bound:
        """Return what is said of rows whose windows add an offset to b, or one for each row."""
        own = self._own()

        def temperature(block: Block) -> FloatArray:
            return self.moved(own(block), offset_in(offset, block.rows))

        return bound_temperature(rows.logits, temperature)

    def _describe(self) -> list[str]:
        if self.fallback_ is not None:
            return ["No context was learned; this is energy scaling.", *self.fallback_.describe()]
        b, m, e, c, r = self.coefficients_
        return [
            f"Logits are divided by softplus({b:.4g} {m:+.4g} margin + context), features in units"
            " of the clean rows.",
            f"The context is {e:.4g} mean energy {c:+.4g} mean confidence {-r:+.4g} mean"
            " confidence x surplus of rows that share a class.",
            f"Mean confidence was {100 * self.accuracy_error_:.1f} points from accuracy in the"
            " shifted environments.",
        ]


@dataclass(frozen=True, slots=True)
class _Objective:
    """A weighted mean of objectives, and a penalty on all but the first coefficient."""

    parts: list[tuple[TemperatureObjective, float]]
    penalty: float

    @property
    def logits(self) -> Source:
        """The rows, which all parts have in common."""
        return self.parts[0][0].logits

    def warm_up(self, n_rows: int) -> list["_Objective"]:
        """Return the objective on about n_rows rows, as its parts do."""
        parts = [(few, w) for part, w in self.parts for few in part.warm_up(n_rows)]
        return [_Objective(parts, self.penalty)] if len(parts) == len(self.parts) else []

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
