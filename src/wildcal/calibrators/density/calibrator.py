"""Density-aware calibration: logits of rows far from the training rows are flattened first."""

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, NoReturn, Self, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike

from wildcal.calibrators.context import Context, ContextScaling
from wildcal.calibrators.density.weights import (
    LARGEST_OFFSET,
    LARGEST_WEIGHT,
    fit_weights,
    scale_of,
)
from wildcal.calibrators.identity import Identity
from wildcal.core.arrays import BoolArray, FloatArray, Labels, Logits, Proba, working_dtype
from wildcal.core.calibrator import Calibrator, FitSummary, TemperatureMap
from wildcal.core.checks import (
    TEMPERATURES,
    check_choice,
    check_densities,
    check_environment,
    row_slices,
)
from wildcal.core.errors import CalibrationWarning
from wildcal.core.objective import LOSSES, Loss, mean_loss
from wildcal.core.softmax import by_row, softmax_at

Neighbour: TypeAlias = Literal["kth", "first"]
NEIGHBOURS: tuple[Neighbour, ...] = ("kth", "first")
# Rows scaled together when predicting: no second matrix of all logits is made.
_PIECE = 1 << 20


@final
@dataclass(kw_only=True, eq=False)
class DensityAware(Calibrator):
    """p = base(z / S(x)), S = w0 + Σ w_l s_l(x), at least `floor`.

    s_l is the squared distance between the row and a neighbour among the training rows, in the
    features of layer l: small where the network saw much of the kind, large where it did not.
    The weights w_l >= 0 and the offset w0 are fitted on the clean labelled rows; then the base is
    fitted from scratch on the scaled logits. With the base `Identity()` this is the method alone.

    `wildcal extract --features` measures the distances; `SuiteSplit.densities()` reads them.

    Parameters
    ----------
    base
        The calibrator of the scaled logits. It is copied, not changed; `base_` is the fitted copy.
    neighbour
        Which neighbour the distances are to: "kth", as published, or "first", as the published
        code computes it. It is kept with the calibrator for whoever supplies the distances.
    loss
        "mse" (squared error of the probabilities, as published) or "nll".
    floor
        The smallest S. The offset may be negative, so without it a row very near to the training
        rows could get a temperature of zero.

    Notes
    -----
    Tomani et al., Beyond in-domain scenarios: robust density-aware calibration, ICML 2023.
    Departures: exact derivatives; S is at least 0.05, not 1e-20; the search also starts from
    temperature scaling, so the loss is never above that of one temperature.

    Examples
    --------
    >>> from wildcal import EnergyScaling
    >>> from wildcal.testing import make_suite
    >>> import numpy as np
    >>> logits, y = make_suite(seed=0).tuning
    >>> distances = np.random.default_rng(0).gamma(2.0, 0.1, (len(y), 3))  # of three layers
    >>> calibrator = DensityAware(base=EnergyScaling()).fit(logits, y, densities=distances)
    >>> calibrator.predict_proba(logits, densities=distances).shape
    (5250, 10)
    """

    name = "dac"
    reference = "Tomani et al., ICML 2023"
    needs_densities = True

    base: Calibrator = field(default_factory=Identity)
    neighbour: Neighbour = "kth"
    loss: Loss = "mse"
    floor: float = 0.05
    weights_: FloatArray = field(init=False, repr=False)
    offset_: float = field(init=False, repr=False)
    base_: Calibrator = field(init=False, repr=False)

    @property
    def title(self) -> str:  # type: ignore[override]
        """What to call it in a sentence, with its base."""
        before = "" if self.base.name == Identity.name else f", then {self.base.title}"
        return f"density-aware calibration{before}"

    @property
    def cost(self) -> str:  # type: ignore[override]
        """What it stores, its base included."""
        before = "" if self.base.name == Identity.name else f"; {self.base.cost}"
        return f"1 number and 1 for each layer{before}"

    # What it promises is what its base promises: dividing a row by a number changes none of it.
    @property
    def preserves_accuracy(self) -> bool:  # type: ignore[override]
        """Whether its base does."""
        return self.base.preserves_accuracy

    @property
    def shift_invariant(self) -> bool:  # type: ignore[override]
        """Whether its base is."""
        return self.base.shift_invariant

    @property
    def accepts_ood(self) -> bool:  # type: ignore[override]
        """Whether its base uses them; the layer weights are fitted without."""
        return self.base.accepts_ood

    @property
    def accepts_environments(self) -> bool:  # type: ignore[override]
        """Whether its base reads them; the layer weights are fitted on the clean one."""
        return self.base.accepts_environments

    @property
    def n_layers(self) -> int:
        """The number of layers whose distances it was fitted with."""
        return len(self.weights_)

    def _check_options(self) -> None:
        if not isinstance(self.base, Calibrator) or self.base.needs_densities:
            raise ValueError(
                "base must be a calibrator that reads logits alone, such as EnergyScaling(), got"
                f" {type(self.base).__name__}."
            )
        self.base._check_options()
        check_choice("neighbour", self.neighbour, NEIGHBOURS)
        check_choice("loss", self.loss, LOSSES)
        if not TEMPERATURES[0] <= self.floor <= 1:
            raise ValueError(f"floor must lie in [{TEMPERATURES[0]:g}, 1], got {self.floor}.")

    def _check_fitted(self) -> None:
        if self.weights_.ndim != 1 or not len(self.weights_):
            raise ValueError(f"weights must be a row of numbers, got shape {self.weights_.shape}")
        if not ((self.weights_ >= 0) & (self.weights_ <= LARGEST_WEIGHT * (1 + 1e-9))).all():
            raise ValueError(f"weights must lie in [0, {LARGEST_WEIGHT:g}]")
        if abs(self.offset_) > LARGEST_OFFSET:
            raise ValueError(f"offset must lie within ±{LARGEST_OFFSET:g}, got {self.offset_}")
        if type(self.base_) is not type(self.base) or self.base_.n_classes_ != self.n_classes_:
            raise ValueError("the fitted base must be of the kind and classes of the base")

    def fit(
        self,
        logits: ArrayLike,
        y: ArrayLike,
        *,
        densities: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        environment: ArrayLike | None = None,
    ) -> Self:
        """Fit on held-out data and return self.

        Parameters
        ----------
        logits, y, sample_weight, environment
            As for every calibrator; what the base does not read is refused.
        densities
            Distances to training rows, shape (n_samples, n_layers), of all rows. The rows must not
            be training rows themselves: their distances would be zero.
        """
        z, labels, weight = self._check_rows(logits, y, sample_weight)
        if densities is None:
            _refuse_missing()
        s = check_densities(densities, len(z))
        clean = labels >= 0
        if environment is not None:
            clean &= check_environment(environment, labels, weight) == 0
        weights, offset, summary = self._fit_weights(z, labels, weight, s, clean)
        scaled = _divided(z, scale_of(s, weights, offset, self.floor))
        base = self._fitted_base(scaled, labels, weight, environment)
        # Together, and only now: a fit that fails leaves the one before it whole.
        self.weights_, self.offset_, self.base_ = weights, offset, base
        inner = base.fit_
        summary = replace(
            summary,
            iterations=summary.iterations + inner.iterations,
            converged=summary.converged and inner.converged,
            notes=(*summary.notes, *(f"{self.base.name}: {note}" for note in inner.notes)),
        )
        return self._finish(summary, z, labels)

    def _fit_weights(
        self, z: Logits, y: Labels, weight: FloatArray | None, s: FloatArray, clean: BoolArray
    ) -> tuple[FloatArray, float, FitSummary]:
        """Return layer weights and offset of the clean rows, which mostly stand together."""
        rows = np.flatnonzero(clean)
        span = slice(rows[0], rows[-1] + 1)
        w = (clean if weight is None else weight * clean)[span].astype(np.float64)
        z, y, s = z[span], y[span], s[span]
        found = fit_weights(z, y, w, s, loss=self.loss, floor=self.floor)
        sharp = int(((s @ found.weights + found.offset < self.floor) & (w > 0)).sum())
        note = f"{sharp} of {len(rows)} rows were clamped at the temperature {self.floor:g}."
        summary = FitSummary(
            loss=self.loss,
            loss_before=mean_loss(z, y, w, 1.0, self.loss),
            loss_after=found.solution.value,
            iterations=found.solution.iterations,
            converged=found.solution.converged,
            notes=(note,) if sharp else (),
        )
        return found.weights, found.offset, summary

    def _fitted_base(
        self, z: Logits, y: Labels, weight: FloatArray | None, environment: ArrayLike | None
    ) -> Calibrator:
        base = copy.deepcopy(self.base)
        with warnings.catch_warnings():  # they are repeated as ours
            warnings.simplefilter("ignore", CalibrationWarning)
            return base.fit(z, y, sample_weight=weight, environment=environment)

    def scale(self, densities: ArrayLike) -> FloatArray:
        """Return S of each row, what its logits are divided by before the base sees them."""
        self.check_is_fitted()
        n_rows = len(np.atleast_1d(np.asarray(densities)))
        return self._scale(check_densities(densities, n_rows, self.n_layers))

    def scaled(self, logits: ArrayLike, densities: ArrayLike | None) -> Logits:
        """Return z / S, the logits that the base sees."""
        return self._scaled(*self._both(logits, densities))

    def predict_proba(
        self,
        logits: ArrayLike,
        densities: ArrayLike | None = None,
        context: Context | None = None,
    ) -> Proba:
        """Return calibrated probabilities, shape (n_samples, n_classes), dtype as the logits.

        Parameters
        ----------
        densities
            Distances to training rows, shape (n_samples, n_layers), of the layers as in `fit`.
        context
            Of a window of rows, where the base reads one; what the method `context` returns.
        """
        z, s = self._both(logits, densities)
        base = self._in_context(context)

        def of_scaled(scaled: Logits) -> Proba:
            if base is None:
                return self.base_._predict_proba(scaled)
            return softmax_at(scaled, base._temperature_in(context))

        return self._in_pieces(z, s, z.shape, of_scaled)

    def confidence(
        self,
        logits: ArrayLike,
        densities: ArrayLike | None = None,
        context: Context | None = None,
    ) -> Proba:
        """Return the calibrated probability of the predicted class, shape (n_samples,)."""
        z, s = self._both(logits, densities)
        base = self._in_context(context)

        def of_scaled(scaled: Logits) -> Proba:
            if base is None:
                return by_row(scaled, self.base_._row_confidence(scaled))
            return by_row(scaled, base._confidence_in(context))

        return self._in_pieces(z, s, (len(z),), of_scaled)

    def temperature(
        self,
        logits: ArrayLike,
        densities: ArrayLike | None = None,
        context: Context | None = None,
    ) -> Proba:
        """Return what each row is divided by in all: S times the temperature of the base."""
        z, s = self._both(logits, densities)
        if not isinstance(self.base_, TemperatureMap):
            raise ValueError(f"{self.base.name} has no temperature; `scale` returns S alone.")
        base = self._in_context(context)
        inner = self.base_._temperature if base is None else base._temperature_in(context)
        of_base = self._in_pieces(z, s, (len(z),), lambda scaled: by_row(scaled, inner))
        return (of_base * self._scale(s)).astype(of_base.dtype)

    def _in_pieces(
        self,
        z: Logits,
        s: FloatArray,
        shape: tuple[int, ...],
        of_scaled: Callable[[Logits], Proba],
    ) -> Proba:
        """Return what a function gives for the scaled logits, which exist only in pieces."""
        out = np.empty(shape, working_dtype(z.dtype))
        for piece in row_slices(z, _PIECE):
            out[piece] = of_scaled(self._scaled(z[piece], s[piece]))
        return out

    def context(self, logits: ArrayLike, densities: ArrayLike | None = None) -> Context:
        """Return the context of a window of unlabelled rows, where the base reads one."""
        z, s = self._both(logits, densities)
        if not isinstance(self.base_, ContextScaling):
            raise ValueError(f"{self.base.name} reads no context.")
        return self.base_.context(self._scaled(z, s))

    def _both(self, logits: ArrayLike, densities: ArrayLike | None) -> tuple[Logits, FloatArray]:
        """Return logits and distances, checked."""
        z = self._door(logits)
        if densities is None:
            _refuse_missing()
        return z, check_densities(densities, len(z), self.n_layers)

    def _in_context(self, context: Context | None) -> ContextScaling | None:
        """Return the base if it is to read this context."""
        if context is None:
            return None
        if not isinstance(self.base_, ContextScaling):
            raise ValueError(f"{self.base.name} reads no context; leave it out.")
        return self.base_

    def _scale(self, s: FloatArray) -> FloatArray:
        return scale_of(s, self.weights_, self.offset_, self.floor)

    def _scaled(self, z: Logits, s: FloatArray) -> Logits:
        return _divided(z, self._scale(s))

    def _describe(self) -> list[str]:
        terms = " + ".join(f"{w:.4g} s{i + 1}" for i, w in enumerate(self.weights_) if w > 0)
        words = f"{self.offset_:.4g}" + (f" + {terms}" if terms else "")
        unused = [f"s{i + 1}" for i, w in enumerate(self.weights_) if w == 0]
        layers = f", s the squared distances of {self.n_layers} layers to the" + (
            " k-th" if self.neighbour == "kth" else " first"
        )
        lines = [f"Logits are divided by {words}{layers} training row, at least {self.floor:g}."]
        if unused:
            lines.append(f"Layers without a say: {', '.join(unused)}.")
        if self.base.name != Identity.name:
            lines.append(f"Then {self.base.title}:")
            lines += self.base_._describe()
        return lines

    def _fit(self, logits: Logits, y: Labels, weight: FloatArray | None) -> FitSummary:
        _refuse_missing()

    def _predict_proba(self, logits: Logits) -> Proba:
        _refuse_missing()


def _refuse_missing() -> NoReturn:
    raise ValueError(
        "DensityAware needs densities: the distances of each row to training rows, shape"
        " (n_samples, n_layers). `wildcal extract --features` measures them."
    )


def _divided(z: Logits, scale: FloatArray) -> Logits:
    """Return z / S in the precision of the work; a finite logit stays finite."""
    dtype = working_dtype(z.dtype)
    with np.errstate(over="ignore"):
        scaled = np.divide(z, scale[:, None].astype(dtype), dtype=dtype)
    if not np.isfinite(scaled).all():  # logits near the largest float, or a class ruled out
        largest = np.finfo(dtype).max
        np.clip(scaled, -largest, largest, out=scaled, where=np.isfinite(z))
    return np.asarray(scaled)
