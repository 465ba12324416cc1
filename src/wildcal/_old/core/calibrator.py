"""The contract that every calibrator keeps, and the promises it declares as data."""

import math
import warnings
from abc import ABC, abstractmethod
from dataclasses import Field, asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any, ClassVar, Literal, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wildcal._old.core.arrays import Column, FloatArray, Labels, Logits, Proba, Source
from wildcal._old.core.block import Block
from wildcal._old.core.blocks import map_blocks
from wildcal._old.core.bound import Bound, bound_temperature
from wildcal._old.core.checks import check_logits, refuse_log_probabilities
from wildcal._old.core.columns import equal_weights, total
from wildcal._old.core.errors import CalibrationWarning, ConvergenceWarning, NotFittedError
from wildcal._old.core.impossible import tamed
from wildcal._old.core.odd_environments import environment_notes
from wildcal._old.core.one_row import RowMap
from wildcal._old.core.one_thread import one_thread
from wildcal._old.core.room import check_thin, loaded_for
from wildcal._old.core.rows import Rows, check_rows, is_source, own_column
from wildcal._old.core.softmax import by_row, predicted_class
from wildcal._old.core.stored import (
    FLAG,
    INTEGER,
    REAL,
    TEXT,
    Many,
    can_be,
    declared_kind,
    in_words,
    is_simple,
    optional,
    stored,
)

_NO_MISTAKE = (
    "no held-out row is classified wrongly, so there is hardly anything to learn from; are they"
    " part of the training set?"
)
_LARGE = 1e6
"""Logits beyond this are taken for the cause where a fit ends with what no file may hold."""
_READERS = {"environment": "ContextScaling", "distances": "DensityAware"}
"""Who reads a column that most methods do not."""
_NEEDED = {
    "environment": "an integer for each row, 0 for the clean ones; give fit environment=...",
    "distances": "those of each row to training rows, shape (n_samples, n_layers); an extraction"
    " with features measures them",
}
"""What a column is, for those who left it out."""


@dataclass(frozen=True, slots=True)
class FitSummary:
    """What a fit did: how much data, what it minimized, whether it got there."""

    loss: str = field(default="none", metadata=stored(TEXT))
    loss_before: float | None = field(default=None, metadata=stored(optional(REAL)))
    loss_after: float | None = field(default=None, metadata=stored(optional(REAL)))
    iterations: int = field(default=0, metadata=stored(INTEGER))
    converged: bool = field(default=True, metadata=stored(FLAG))
    notes: tuple[str, ...] = field(default=(), metadata=stored(Many(TEXT, tuple)))
    n_rows: int = field(default=0, metadata=stored(INTEGER))
    n_ood: int = field(default=0, metadata=stored(INTEGER))
    n_shifted: int = field(default=0, metadata=stored(INTEGER))
    """Shifted environments among the rows."""
    reason: str = field(default="", metadata=stored(TEXT))
    """Why it came out as it did, in a sentence, where a method says so."""
    method: str = field(default="", metadata=stored(TEXT))
    """The short form of the method and of the rows it saw, such as ``ts@clean,shifted``."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON values."""
        return {**asdict(self), "notes": list(self.notes)}


class Calibrator(ABC):
    """Map logits to calibrated class probabilities.

    `fit` and the prediction methods are written once, here, with their checks; a method supplies
    `_fit` and `_bind`, whose rows are already checked. Options are dataclass fields; fitted values
    are dataclass fields with ``init=False`` whose names end in an underscore.
    """

    name: ClassVar[str]
    """Short name in `wildcal.CALIBRATORS` and on the command line."""
    title: ClassVar[str]
    """What to call the method in a sentence."""
    reference: ClassVar[str]
    """Where it was published."""
    stores: ClassVar[str] = "its fitted values"
    """What it stores, which is also what it has to learn from the data."""
    preserves_accuracy: ClassVar[bool]
    """No class is ever more probable than that of the largest logit (it may tie by rounding)."""
    shift_invariant: ClassVar[bool]
    """Adding a constant to a row of logits changes nothing."""
    accepts_ood: ClassVar[bool] = False
    """Rows with y == -1 (semantic out-of-distribution) are used in `fit`."""
    needs_raw_logits: ClassVar[bool] = False
    """It reads the energy of a row, which normalizing the logits removes."""
    state: ClassVar[Literal["flat", "scores", "thin", "rows"]] = "rows"
    """What a fit holds of rows that are read from a source: sums, whatever their number; a few
    numbers for each distinct confidence; a few numbers for each row, of as many rows at a time as
    there is room for; or all of the rows, if there is room for them. Every one of them is exact;
    the last two are not done on a cluster."""
    reads: ClassVar[frozenset[str]] = frozenset({"logits"})
    """The columns of `Rows` that it reads besides labels and weights: `environment` in `fit`,
    `window` when predicting, `distances` in both."""

    can_do_without: ClassVar[frozenset[str]] = frozenset()
    """Those of them that it reads where they are given, and does not miss where they are not."""

    n_classes_: int
    fit_: FitSummary

    @final
    def fit(
        self,
        logits: ArrayLike | Source,
        y: ArrayLike | Column | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        environment: ArrayLike | None = None,
        distances: ArrayLike | None = None,
    ) -> Self:
        """Fit on held-out data and return self.

        Parameters
        ----------
        logits
            Raw scores of shape (n_samples, n_classes), never probabilities or log_softmax; or a
            source, such as `wildcal.io.open_shards` returns, which is read piece by piece.
        y
            Integer labels 0..K-1; -1 marks out-of-distribution rows where `accepts_ood`. A source
            may bring them, and the columns below.
        sample_weight
            Weight of each row; weight 2 is the same as the row standing there twice.
        environment
            Which rows belong together, where the method reads it: an integer for each row, 0 for
            the clean ones.
        distances
            Squared distances to training rows, where the method reads them: shape (n_samples,
            n_layers). The rows must not be training rows themselves: their distances would be 0.
        """
        self.check_options()
        y = own_column(logits, "y") if y is None else y
        if y is None:
            raise ValueError("y must be given: fit(logits, y), or a source that has labels.")
        rows = check_rows(
            logits,
            y=y,
            weight=own_column(logits, "weight") if sample_weight is None else sample_weight,
            environment=self._column(logits, "environment", environment),
            distances=self._column(logits, "distances", distances),
            accepts_ood=self.takes_ood,
            who=self.who,
        )
        return self.fit_rows(rows)

    @final
    def fit_rows(self, rows: Rows) -> Self:
        """Fit on rows that were checked before, as `fit` does, and return self."""
        self._check_columns(rows)
        if self.state == "thin":
            check_thin(rows, self.who)
        rows = rows if self.state != "rows" else loaded_for(rows, self.who)
        possible, note, all_right = tamed(rows)
        # What comes of overflows is looked at below.
        with np.errstate(over="ignore", invalid="ignore"), one_thread():
            summary = self._fit_or_explain(possible)
        if note is not None:
            summary = replace(summary, notes=(note, *summary.notes))
        if not summary.notes and self.stores != "nothing" and all_right:
            summary = replace(summary, notes=(_NO_MISTAKE,))
        summary = replace(summary, notes=(*summary.notes, *environment_notes(possible)))
        self.n_classes_ = rows.n_classes
        self._refuse_broken_fit(rows, summary)
        self.fit_ = replace(summary, n_rows=len(rows), n_ood=rows.n_ood, n_shifted=rows.n_shifted)
        for note in summary.notes:
            warnings.warn(f"{self.who}: {note}", CalibrationWarning, stacklevel=3)
        if not summary.converged:
            warnings.warn(
                f"{self.who} did not converge after {summary.iterations} iterations"
                f" (loss {summary.loss_after:.6g}). Use its result with care.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self

    @final
    def predict_proba(
        self, logits: ArrayLike, *, context: Any = None, distances: ArrayLike | None = None
    ) -> Proba:
        """Return calibrated probabilities, shape (n_samples, n_classes), dtype as the logits.

        Parameters
        ----------
        logits
            Raw scores of shape (n_samples, n_classes).
        context
            What the method `context` returned for the window that the rows are part of, where the
            method reads one. Without it, a row's result depends on the row alone.
        distances
            Squared distances to training rows, shape (n_samples, n_layers), where the method reads
            them.
        """
        single = self._single(logits, context, distances)
        if single is not None:
            return single[0].proba(single[1])
        return self._door(logits, context, distances).proba()

    @final
    def confidence(
        self, logits: ArrayLike, *, context: Any = None, distances: ArrayLike | None = None
    ) -> Proba:
        """Return the calibrated probability of the predicted class, shape (n_samples,).

        The predicted class is that of the raw logits. The probability matrix is not built. Other
        parameters as in `predict_proba`.
        """
        single = self._single(logits, context, distances)
        if single is not None:
            return single[0].top(single[1])[0]
        return self._door(logits, context, distances).confidences()

    @final
    def temperature(
        self, logits: ArrayLike, *, context: Any = None, distances: ArrayLike | None = None
    ) -> Proba:
        """Return what each row is divided by in all, shape (n_samples,), where there is such a T.

        Parameters as in `predict_proba`.
        """
        bound = self._door(logits, context, distances)
        if bound.temperature is None:
            raise ValueError(f"{self.name} divides no row by one temperature.")
        return by_row(bound.logits, bound.temperature)

    @final
    def apply(
        self,
        logits: ArrayLike,
        *,
        context: Any = None,
        distances: ArrayLike | None = None,
        proba: bool = True,
    ) -> dict[str, NDArray[Any]]:
        """Return all there is to say of rows, in one pass over them.

        The arrays are `proba` (n_samples, n_classes), unless it is left out, `confidence`, where
        there is one the `temperature`, and `pred`, the class of the raw logits. Other parameters as
        in `predict_proba`.
        """
        rows = self._checked(logits, distances)
        return self._bound(rows, context).columns(rows.logits, proba=proba)

    @final
    def predict(self, logits: ArrayLike) -> Labels:
        """Return the predicted class of the raw logits, the first one on ties."""
        self.check_is_fitted()
        return predicted_class(check_logits(logits, n_classes=self.n_classes_))

    @final
    def context(self, logits: ArrayLike | Source, *, distances: ArrayLike | None = None) -> Any:
        """Return what a window of unlabeled rows says, where the method reads one."""
        with one_thread():
            return self._context(self._checked(logits, distances))

    @final
    def bind(self, rows: Rows) -> Bound:
        """Return what the fitted method says of rows that were checked before."""
        self.check_is_fitted()
        self._check_columns(rows)
        return self._bind(rows)

    def row_map(self) -> RowMap | None:
        """Return what says the same of one row in fewer calls; None where a block has to do."""
        return None

    @property
    def who(self) -> str:
        """The name of the class, for messages."""
        return type(self).__name__

    @property
    def reads_energy(self) -> bool:
        """Whether the fitted method would be misled by normalized logits, as log_softmax gives."""
        return self.is_fitted and self._reads_energy()

    @property
    def takes_log_proba(self) -> bool:
        """Whether normalized scores, such as log probabilities, serve it as well as raw ones."""
        return self.shift_invariant

    @property
    def takes_ood(self) -> bool:
        """Whether `fit` takes rows with y == -1: always, or because an option asks for it."""
        return self.accepts_ood

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` has been called, or the calibrator was loaded from a file."""
        return hasattr(self, "n_classes_")

    @final
    def check_is_fitted(self) -> None:
        """Raise a NotFittedError if there is nothing to predict with yet."""
        if not self.is_fitted:
            raise NotFittedError(f"{self.who} is not fitted; call fit(logits, y) first.")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the options by name, as scikit-learn's `clone` and searches ask for them."""
        params: dict[str, Any] = {}
        for option in (f for f in fields(self) if f.init):  # type: ignore[arg-type]
            value = getattr(self, option.name)
            params[option.name] = value
            if deep and isinstance(value, Calibrator):
                inner = value.get_params()
                params |= {f"{option.name}__{name}": item for name, item in inner.items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set options by name, those of a base as ``base__name``, and return self."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                own = ", ".join(self.get_params(deep=False)) or "none"
                raise ValueError(f"{self.who} has no option {name!r}; it has {own}.")
            first, _, rest = name.partition("__")
            if rest:
                getattr(self, first).set_params(**{rest: value})
            else:
                setattr(self, name, value)
        return self

    def describe(self) -> list[str]:
        """Return what was fitted, in words, a sentence per item."""
        if not self.is_fitted:
            return [f"{self.title.capitalize()}, not fitted."]
        return self._describe()

    def caution(self) -> str:
        """Return what to know before this fitted calibrator is trusted, if anything."""
        return ""

    def check_options(self) -> None:
        """Raise a ValueError if an option has a value it may not have."""
        for option in (f for f in _declared(self) if f.init):
            kind, value = declared_kind(option), getattr(self, option.name)
            # Pairs and lists have checks of their own, which say more.
            if kind is not None and is_simple(kind) and not can_be(kind, value):
                raise ValueError(f"{option.name} must be {in_words(kind)}, got {value!r:.80}.")
        self._check_options()

    def check_fitted_values(self) -> None:
        """Raise a ValueError if fitted values, as read from a file, break a promise."""
        self._check_fitted()

    def _fit_or_explain(self, rows: Rows) -> FitSummary:
        """Fit; where that fails for want of a column that could have been given, say so.

        Ours do without environments, and warn. A method that cannot stumbles over None.
        """
        try:
            return self._fit(rows)
        except (TypeError, AttributeError) as error:
            missing = self.reads - self.can_do_without - set(rows.columns())
            for column in sorted(missing & set(_NEEDED)):
                raise ValueError(self._lack(column)) from error
            raise

    def _refuse_broken_fit(self, rows: Rows, summary: FitSummary) -> None:
        """Raise, and be unfitted again, where the fit ended with values that no file may hold."""
        try:
            if not (_is_finite(summary.loss_before) and _is_finite(summary.loss_after)):
                raise ValueError("the loss is not finite.")
            for learned in (f.name for f in _declared(self) if not f.init):
                if not _is_finite(getattr(self, learned, None)):
                    raise ValueError(f"{learned} is not finite.")
            self._check_fitted()
        except ValueError as error:
            del self.n_classes_
            largest = max(map_blocks(rows.logits, _largest))
            text = f"{self.who} cannot be fitted to these rows: {error} The largest logit"
            text += f" is {largest:.3g}"
            if largest > _LARGE:
                text += "; divide logits this large by a constant first."
            else:
                weighed = total(equal_weights(rows.labels, rows.weight))
                text += f", and their weights add up to {weighed:.3g}."
            raise ValueError(text) from error

    def _single(
        self, logits: ArrayLike, context: Any, distances: ArrayLike | None
    ) -> tuple[RowMap, Logits] | None:
        """Return a single row, checked, with what answers it; None for all that is more than that.

        One row costs hardly more than its checks, so it goes no way that many rows have to go.
        """
        if context is not None or distances is not None:
            return None
        if type(logits) is not np.ndarray or logits.shape[:1] != (1,):
            return None
        self.check_is_fitted()
        row = self.row_map()
        return None if row is None else (row, check_logits(logits, n_classes=self.n_classes_))

    def _door(self, logits: ArrayLike, context: Any, distances: ArrayLike | None) -> Bound:
        return self._bound(self._checked(logits, distances), context)

    def _bound(self, rows: Rows, context: Any) -> Bound:
        if context is None:
            return self._bind(rows)
        if "window" not in self.reads:
            raise ValueError(f"{self.name} reads no context; leave it out.")
        return self._bind(replace(rows, context=context))

    def _checked(self, logits: Any, distances: ArrayLike | None) -> Rows:
        self.check_is_fitted()
        if is_source(logits) or distances is not None:
            distances = self._column(logits, "distances", distances)
            rows = check_rows(logits, n_classes=self.n_classes_, distances=distances)
        else:
            rows = Rows(check_logits(logits, n_classes=self.n_classes_))
        self._check_columns(rows)
        if self._reads_energy():
            refuse_log_probabilities(rows.logits, self.who)
        return rows

    def _column(self, logits: Any, name: str, given: Any) -> Any:
        """Return a column that was given or, where it is read, that of a source."""
        return own_column(logits, name) if given is None and name in self.reads else given

    def _check_columns(self, rows: Rows) -> None:
        """Raise if rows have a column that would be left unread, or lack one that is needed."""
        who = self.who
        for column, reader in _READERS.items():
            if getattr(rows, column) is not None and column not in self.reads:
                pooled = " to pool all rows" if column == "environment" else ""
                raise ValueError(
                    f"{who} does not read {column}{'s' * (column == 'environment')}; leave them"
                    f" out{pooled}, or use {reader}."
                )
        if "distances" in self.reads and rows.distances is None:
            raise ValueError(self._lack("distances"))

    def _lack(self, column: str) -> str:
        return f"{self.who} needs {column}: {_NEEDED[column]}."

    def _describe(self) -> list[str]:
        learned = [f.name for f in fields(self) if not f.init]  # type: ignore[arg-type]
        return [f"{name.rstrip('_')}: {_brief(getattr(self, name))}" for name in learned]

    def _check_options(self) -> None:
        """Raise a ValueError if an option has a value it may not have."""

    def _check_fitted(self) -> None:
        """Raise a ValueError if fitted values, as read from a file, break a promise."""

    def _reads_energy(self) -> bool:
        """Whether this fitted calibrator would be misled by normalized logits."""
        return False

    def _context(self, rows: Rows) -> Any:
        raise ValueError(f"{self.name} reads no context.")

    @abstractmethod
    def _fit(self, rows: Rows) -> FitSummary:
        """Learn from checked rows; set the fitted values and return what was done."""

    @abstractmethod
    def _bind(self, rows: Rows) -> Bound:
        """Return what the fitted method says of checked rows."""


def _declared(calibrator: Calibrator) -> tuple[Field[Any], ...]:
    """Return the fields of a calibrator; one of somebody's own may be no dataclass."""
    return fields(calibrator) if is_dataclass(calibrator) else ()


def _is_finite(value: object) -> bool:
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return bool(np.isfinite(value).all())
    return not isinstance(value, float) or math.isfinite(value)


def _largest(block: Block) -> float:
    return float(np.abs(block.original[np.isfinite(block.original)]).max(initial=0.0))


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

    @abstractmethod
    def _temperature(self, block: Block) -> FloatArray: ...

    def _bind(self, rows: Rows) -> Bound:
        return bound_temperature(rows.logits, self._temperature)
