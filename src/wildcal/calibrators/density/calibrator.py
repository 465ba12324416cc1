"""Density-aware calibration: logits of rows far from the training rows are flattened first."""

import copy
import warnings
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike

from wildcal.calibrators.density.weights import (
    LARGEST_OFFSET,
    LARGEST_WEIGHT,
    fit_weights,
    scale_of,
)
from wildcal.calibrators.identity import Identity
from wildcal.core.arrays import BoolArray, FloatArray, Logits, Source
from wildcal.core.block import Block
from wildcal.core.bound import Bound, Scaled
from wildcal.core.calibrator import Calibrator, FitSummary
from wildcal.core.checks import TEMPERATURES, check_choice, check_distances
from wildcal.core.errors import CalibrationWarning
from wildcal.core.objective import LOSSES, Loss, mean_loss
from wildcal.core.rows import Rows
from wildcal.core.stored import ARRAY, REAL, TEXT, Nested, stored

Neighbor: TypeAlias = Literal["kth", "first"]
NEIGHBORS: tuple[Neighbor, ...] = ("kth", "first")


@final
@dataclass(kw_only=True, eq=False)
class DensityAware(Calibrator):
    """p = base(z / S(x)), S = w0 + Σ w_l s_l(x), at least `floor`.

    s_l is the squared distance between the row and a neighbor among the training rows, in the
    features of layer l: small where the network saw much of the kind, large where it did not.
    The weights w_l >= 0 and the offset w0 are fitted on the clean labeled rows; then the base is
    fitted from scratch on the scaled logits. With the base `Identity()` this is the method alone.

    `wildcal extract --features` measures the distances; `SuiteSplit.distances()` reads them.

    Parameters
    ----------
    base
        The calibrator of the scaled logits. It is copied, not changed; `base_` is the fitted copy.
    neighbor
        Which neighbor the distances are to: "kth", as published, or "first", as the published
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
    >>> calibrator = DensityAware(base=EnergyScaling()).fit(logits, y, distances=distances)
    >>> calibrator.predict_proba(logits, distances=distances).shape
    (5250, 10)
    """

    name = "dac"
    reference = "Tomani et al., ICML 2023"

    base: Calibrator = field(default_factory=Identity, metadata=stored(Nested()))
    neighbor: Neighbor = field(default="kth", metadata=stored(TEXT))
    loss: Loss = field(default="mse", metadata=stored(TEXT))
    floor: float = field(default=0.05, metadata=stored(REAL))
    weights_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))
    offset_: float = field(init=False, repr=False, metadata=stored(REAL))
    base_: Calibrator = field(init=False, repr=False, metadata=stored(Nested()))

    @property
    def title(self) -> str:  # type: ignore[override]
        """What to call it in a sentence, with its base."""
        before = "" if self.base.name == Identity.name else f", then {self.base.title}"
        return f"density-aware calibration{before}"

    @property
    def stores(self) -> str:  # type: ignore[override]
        """What it stores, its base included."""
        before = "" if self.base.name == Identity.name else f"; {self.base.stores}"
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
    def takes_log_proba(self) -> bool:
        """Whether its base does."""
        return (self.base_ if self.is_fitted else self.base).takes_log_proba

    @property
    def accepts_ood(self) -> bool:  # type: ignore[override]
        """Whether its base uses them; the layer weights are fitted without."""
        return self.base.accepts_ood

    @property
    def reads(self) -> frozenset[str]:  # type: ignore[override]
        """The distances, and what its base reads; the layer weights are fitted on clean rows."""
        return self.base.reads | {"distances"}

    @property
    def n_layers(self) -> int:
        """The number of layers whose distances it was fitted with."""
        return len(self.weights_)

    def _check_options(self) -> None:
        if not isinstance(self.base, Calibrator) or "distances" in self.base.reads:
            raise ValueError(
                "base must be a calibrator that reads logits alone, such as EnergyScaling(), got"
                f" {type(self.base).__name__}."
            )
        self.base.check_options()
        check_choice("neighbor", self.neighbor, NEIGHBORS)
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

    def _fit(self, rows: Rows) -> FitSummary:
        clean = rows.labels >= 0
        if rows.environment is not None:
            clean &= rows.environment == 0
        weights, offset, summary = self._fit_weights(rows, clean)
        assert rows.distances is not None  # the door looked
        scale = scale_of(rows.distances, weights, offset, self.floor)
        base = copy.deepcopy(self.base)
        with warnings.catch_warnings():  # they are repeated as ours
            warnings.simplefilter("ignore", CalibrationWarning)
            base.fit_rows(_without_distances(rows, Scaled(rows.logits, scale)[:]))
        # Together, and only now: a fit that fails leaves the one before it whole.
        self.weights_, self.offset_, self.base_ = weights, offset, base
        inner = base.fit_
        return replace(
            summary,
            iterations=summary.iterations + inner.iterations,
            converged=summary.converged and inner.converged,
            notes=(*summary.notes, *(f"{self.base.name}: {note}" for note in inner.notes)),
        )

    def _fit_weights(self, rows: Rows, clean: BoolArray) -> tuple[FloatArray, float, FitSummary]:
        """Return layer weights and offset of the clean rows, which mostly stand together."""
        numbers = np.flatnonzero(clean)
        span = slice(numbers[0], numbers[-1] + 1)
        z, y, weight = rows[span].tuning()
        w = (clean[span] if weight is None else weight * clean[span]).astype(np.float64)
        assert rows.distances is not None  # the door looked
        s = rows.distances[span]
        found = fit_weights(z, y, w, s, loss=self.loss, floor=self.floor)
        sharp = int(((s @ found.weights + found.offset < self.floor) & (w > 0)).sum())
        note = f"{sharp} of {len(numbers)} rows were clamped at the temperature {self.floor:g}."
        summary = FitSummary(
            loss=self.loss,
            loss_before=mean_loss(z, y, w, 1.0, self.loss),
            loss_after=found.solution.value,
            iterations=found.solution.iterations,
            converged=found.solution.converged,
            notes=(note,) if sharp else (),
        )
        return found.weights, found.offset, summary

    def scale(self, distances: ArrayLike) -> FloatArray:
        """Return S of each row, what its logits are divided by before the base sees them."""
        self.check_is_fitted()
        n_rows = len(np.atleast_1d(np.asarray(distances)))
        return self._scale(check_distances(distances, n_rows))

    def scaled(self, logits: ArrayLike, distances: ArrayLike) -> Logits:
        """Return z / S, the logits that the base sees."""
        return self._seen(self._checked(logits, distances))[0].logits[:]

    def _scale(self, distances: FloatArray | None) -> FloatArray:
        assert distances is not None  # the door looked
        if distances.shape[1] != self.n_layers:
            raise ValueError(
                f"distances must have {self.n_layers} columns, one for each layer as in fit, got"
                f" {distances.shape[1]}."
            )
        return scale_of(distances, self.weights_, self.offset_, self.floor)

    def _seen(self, rows: Rows) -> tuple[Rows, FloatArray]:
        """Return the rows as the base sees them, and what their logits are divided by."""
        scale = self._scale(rows.distances)
        return _without_distances(rows, Scaled(rows.logits, scale)), scale

    def _context(self, rows: Rows) -> Any:
        seen, _ = self._seen(rows)
        return self.base_._context(seen)

    def _bind(self, rows: Rows) -> Bound:
        seen, scale = self._seen(rows)
        bound = self.base_.bind(seen)
        of_base = bound.temperature
        if of_base is None:
            return bound

        def in_all(block: Block) -> FloatArray:
            return scale[block.rows] * of_base(block)

        return replace(bound, temperature=in_all)

    def _describe(self) -> list[str]:
        terms = " + ".join(f"{w:.4g} s{i + 1}" for i, w in enumerate(self.weights_) if w > 0)
        words = f"{self.offset_:.4g}" + (f" + {terms}" if terms else "")
        unused = [f"s{i + 1}" for i, w in enumerate(self.weights_) if w == 0]
        layers = f", s the squared distances of {self.n_layers} layers to the" + (
            " k-th" if self.neighbor == "kth" else " first"
        )
        lines = [f"Logits are divided by {words}{layers} training row, at least {self.floor:g}."]
        if unused:
            lines.append(f"Layers without a say: {', '.join(unused)}.")
        if self.base.name != Identity.name:
            lines.append(f"Then {self.base.title}:")
            lines += self.base_.describe()
        return lines


def _without_distances(rows: Rows, logits: Source) -> Rows:
    """Return the rows that the base reads."""
    return replace(rows, logits=logits, distances=None)
