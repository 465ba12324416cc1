"""The contract that every calibrator keeps, and the promises it declares as data."""

import warnings
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import ArrayLike

from wildcal.core.arrays import OOD_LABEL, FloatArray, Labels, Logits, Proba
from wildcal.core.blocks import Block
from wildcal.core.checks import (
    check_environment,
    check_labels,
    check_logits,
    check_some_known,
    check_weight,
    refuse_log_probabilities,
)
from wildcal.core.errors import CalibrationWarning, ConvergenceWarning, NotFittedError
from wildcal.core.softmax import RowFunction, by_row, predicted_class, softmax_at


@dataclass(frozen=True, slots=True)
class FitSummary:
    """What a fit did: how much data, what it minimised, whether it got there."""

    loss: str = "none"
    loss_before: float | None = None
    loss_after: float | None = None
    iterations: int = 0
    converged: bool = True
    notes: tuple[str, ...] = ()
    n_rows: int = 0
    n_ood: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON values."""
        return {**asdict(self), "notes": list(self.notes)}


class Calibrator(ABC):
    """Map logits to calibrated class probabilities.

    `fit` and the prediction methods are written once, here, with their checks; a method supplies
    `_fit` and `_predict_proba`, whose input is already checked. (A method that reads more than the
    row, such as a context or distances to training rows, adds an argument.) Options are dataclass
    fields; fitted values are dataclass fields with ``init=False`` whose names end in an underscore.
    """

    name: ClassVar[str]
    """Short name in `wildcal.CALIBRATORS` and on the command line."""
    title: ClassVar[str]
    """What to call the method in a sentence."""
    reference: ClassVar[str]
    """Where it was published."""
    cost: ClassVar[str]
    """What it stores, which is also what it has to learn from the data."""
    preserves_accuracy: ClassVar[bool]
    """No class is ever more probable than that of the largest logit (it may tie by rounding)."""
    shift_invariant: ClassVar[bool]
    """Adding a constant to a row of logits changes nothing."""
    accepts_ood: ClassVar[bool] = False
    """Rows with y == -1 (semantic out-of-distribution) are used in `fit`."""
    accepts_environments: ClassVar[bool] = False
    """`fit` learns from which rows belong together (a camera, a hospital, a corruption)."""
    needs_densities: ClassVar[bool] = False
    """It reads, besides the logits, how far each row is from the training rows, layer by layer."""

    n_classes_: int
    fit_: FitSummary

    def fit(
        self,
        logits: ArrayLike,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        environment: ArrayLike | None = None,
    ) -> Self:
        """Fit on held-out data and return self.

        Parameters
        ----------
        logits
            Raw scores of shape (n_samples, n_classes), never probabilities or log_softmax.
        y
            Integer labels 0..K-1; -1 marks out-of-distribution rows where `accepts_ood`.
        sample_weight
            Weight of each row; weight 2 is the same as the row standing there twice.
        environment
            Which rows belong together, where `accepts_environments`: an integer for each row, 0
            for the clean ones.
        """
        z, labels, weight = self._check_rows(logits, y, sample_weight)
        if environment is None:
            summary = self._fit(z, labels, weight)
        else:
            groups = check_environment(environment, labels, weight)
            summary = self._fit_environments(z, labels, weight, groups)
        return self._finish(summary, z, labels)

    @final
    def _check_rows(
        self, logits: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None
    ) -> tuple[Logits, Labels, FloatArray | None]:
        """Return what `fit` was given, checked."""
        self._check_options()
        z = check_logits(logits, fitting=True)
        labels = check_labels(
            y, len(z), z.shape[1], accepts_ood=self.accepts_ood, who=type(self).__name__
        )
        weight = check_weight(sample_weight, len(z))
        check_some_known(labels, weight)
        return z, labels, weight

    @final
    def _finish(self, summary: FitSummary, logits: Logits, y: Labels) -> Self:
        """Keep the summary of a fit, and warn of what it noted."""
        self.n_classes_ = logits.shape[1]
        self.fit_ = replace(summary, n_rows=len(y), n_ood=int((y == OOD_LABEL).sum()))
        for note in summary.notes:
            warnings.warn(f"{type(self).__name__}: {note}", CalibrationWarning, stacklevel=3)
        if not summary.converged:
            warnings.warn(
                f"{type(self).__name__} did not converge after {summary.iterations} iterations"
                f" (loss {summary.loss_after:.6g}). Use its result with care.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self

    def predict_proba(self, logits: ArrayLike) -> Proba:
        """Return calibrated probabilities, shape (n_samples, n_classes), dtype as the logits."""
        return self._predict_proba(self._door(logits))

    def confidence(self, logits: ArrayLike) -> Proba:
        """Return the calibrated probability of the predicted class, shape (n_samples,).

        The predicted class is that of the raw logits. The probability matrix is not built.
        """
        z = self._door(logits)
        return by_row(z, self._row_confidence(z))

    @final
    def predict(self, logits: ArrayLike) -> Labels:
        """Return the predicted class of the raw logits, the first one on ties."""
        return predicted_class(self._door(logits))

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` has been called, or the calibrator was loaded from a file."""
        return hasattr(self, "n_classes_")

    @final
    def check_is_fitted(self) -> None:
        """Raise a NotFittedError if there is nothing to predict with yet."""
        if not self.is_fitted:
            raise NotFittedError(f"{type(self).__name__} is not fitted; call fit(logits, y) first.")

    @final
    def _door(self, logits: ArrayLike) -> Logits:
        self.check_is_fitted()
        z = check_logits(logits, n_classes=self.n_classes_)
        if self._reads_energy():
            refuse_log_probabilities(z, type(self).__name__)
        return z

    def describe(self) -> list[str]:
        """Return what was fitted, in words, a sentence per item."""
        if not self.is_fitted:
            return [f"{self.title.capitalize()}, not fitted."]
        return self._describe()

    def _describe(self) -> list[str]:
        learned = [f.name for f in fields(self) if not f.init]  # type: ignore[arg-type]
        return [f"{name.rstrip('_')}: {_brief(getattr(self, name))}" for name in learned]

    def _check_options(self) -> None:
        """Raise a ValueError if an option has a value it may not have."""

    def _check_fitted(self) -> None:
        """Raise a ValueError if fitted values, as read from a file, break a promise."""

    def _reads_energy(self) -> bool:
        """Whether this fitted calibrator would be misled by normalised logits."""
        return False

    @abstractmethod
    def _fit(self, logits: Logits, y: Labels, weight: FloatArray | None) -> FitSummary: ...

    def _fit_environments(
        self, logits: Logits, y: Labels, weight: FloatArray | None, environment: Labels
    ) -> FitSummary:
        raise ValueError(
            f"{type(self).__name__} does not read environments; leave them out to pool all rows, or"
            " use ContextScaling."
        )

    @abstractmethod
    def _predict_proba(self, logits: Logits) -> Proba: ...

    def _row_confidence(self, logits: Logits) -> RowFunction:
        """Return the function from a block of these rows to their confidence.

        Several methods can so be asked about a block while it is in the cache.
        """

        def of_block(block: Block) -> FloatArray:
            proba = self._predict_proba(block.original)
            top = np.take_along_axis(proba, block.pred()[:, None], axis=1)[:, 0]
            return np.asarray(top, np.float64)

        return of_block


def _brief(value: object) -> str:
    """Return a fitted value as a few words."""
    if isinstance(value, np.ndarray) and value.size > 8:
        shape = " x ".join(map(str, value.shape))
        return f"{shape} numbers from {value.min():.4g} to {value.max():.4g}"
    if isinstance(value, list) and len(value) > 8:
        return f"{len(value)} arrays"
    if isinstance(value, np.ndarray | list):
        return "[" + ", ".join(_brief(item) for item in value) + "]"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


class TemperatureMap(Calibrator):
    """A calibrator that divides each row of logits by a positive temperature of its own.

    A method supplies `_temperature` of a block of rows. It must depend on each row alone.
    """

    preserves_accuracy = True

    def temperature(self, logits: ArrayLike) -> Proba:
        """Return the temperature each row is divided by, shape (n_samples,)."""
        return by_row(self._door(logits), self._temperature)

    @abstractmethod
    def _temperature(self, block: Block) -> FloatArray: ...

    @final
    def _predict_proba(self, logits: Logits) -> Proba:
        return softmax_at(logits, self._temperature)

    @final
    def _row_confidence(self, logits: Logits) -> RowFunction:
        return lambda block: block.confidence(1.0 / self._temperature(block))
