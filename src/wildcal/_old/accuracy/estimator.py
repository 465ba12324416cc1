"""The contract that every accuracy estimator keeps, and the promises it declares as data."""

import copy
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wildcal._old.accuracy.errors import Errors, Reader, measure
from wildcal._old.accuracy.estimate import AccuracyEstimate, interval
from wildcal._old.accuracy.rows import Rows, check_window, confidence
from wildcal._old.accuracy.sources import column, held, in_pieces
from wildcal._old.accuracy.state import WindowState
from wildcal._old.calibrators.temperature import TemperatureScaling
from wildcal._old.core.arrays import FloatArray, Labels, Logits, Source
from wildcal._old.core.checks import (
    check_environment,
    check_labels,
    check_logits,
    check_some_known,
    check_temperature,
)
from wildcal._old.core.class_mix import slope_of, unexplained
from wildcal._old.core.errors import CalibrationWarning, NotFittedError
from wildcal._old.core.rows import check_rows, is_source
from wildcal._old.core.stored import ARRAY, INTEGER, REAL, stored

# Of shares: what a file may say without the squares of an interval leaving float64.
_LARGEST_ERROR = 1e6


def check_arrays(*arrays: tuple[NDArray[Any], type, int]) -> None:
    """Raise a ValueError unless each array, as read from a file, has a type and a length."""
    for array, dtype, length in arrays:
        if array.dtype != dtype or array.shape != (length,):
            raise ValueError(
                f"an array of {length} {dtype.__name__} is {array.dtype} of shape {array.shape}"
            )


class Reading(NamedTuple):
    """What a method says of a window, before a line turns it into an accuracy."""

    score: float
    variance: float
    """What drawing the rows anew does to the score: the variance of its bootstrap."""


@dataclass(kw_only=True, eq=False)
class AccuracyEstimator(ABC):
    """Estimate the accuracy of a network on a window of rows without labels.

    `fit` and `estimate` are written once, here, with their checks. A method supplies what it learns
    from the labeled rows (`_learn`) and what it says of a window: `_own_sums` and `_read_state`
    where sums are enough, else `_read`. Its score is turned into an accuracy by a straight line.
    """

    name: ClassVar[str]
    """Short name in `wildcal._old.accuracy.ESTIMATORS`."""
    title: ClassVar[str]
    """What to call the method in a sentence."""
    reference: ClassVar[str]
    """Where it was published."""
    assumes_clean_class_mix: ClassVar[bool]
    """Wrong where classes are rarer or more frequent than on the clean rows; then it warns."""
    smallest_window: ClassVar[int]
    """Rows below which other methods do better (docs/accuracy.md has the table)."""
    mergeable: ClassVar[bool]
    """A window can be read in parts: `state` of each, their sum, `estimate_state`."""
    usual_error: ClassVar[float] = 1.0
    """Error per unit of an estimated fall, where no environment tells: what the shipped networks
    show on their tuning splits, rounded up (docs/accuracy.md)."""
    learns_from_environments: ClassVar[bool] = False
    """Labeled shifted rows make its estimates better, and not only its interval."""
    needs_second: ClassVar[bool] = False
    """It compares the logits of two networks on the same rows."""
    shift_invariant: ClassVar[bool] = True
    """Adding a constant to a row of logits changes nothing."""

    n_classes_: int = field(init=False, repr=False, metadata=stored(INTEGER))
    temperature_: float = field(init=False, repr=False, metadata=stored(REAL))
    """That of the clean rows."""
    clean_accuracy_: float = field(init=False, repr=False, metadata=stored(REAL))
    clean_confidence_: float = field(init=False, repr=False, metadata=stored(REAL))
    """Mean confidence of the clean rows, at that temperature."""
    clean_spread_: float = field(init=False, repr=False, metadata=stored(REAL))
    """Its standard deviation over rows."""
    clean_counts_: Labels = field(init=False, repr=False, metadata=stored(ARRAY))
    """How often each class was predicted on the clean rows."""
    mix_slope_: float = field(init=False, repr=False, metadata=stored(REAL))
    """How much of the class mix a fall of confidence explains."""
    line_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))
    """Accuracy = line[0] + line[1] x score."""
    n_environments_: int = field(init=False, repr=False, metadata=stored(INTEGER))
    error_sizes_: Labels = field(init=False, repr=False, metadata=stored(ARRAY))
    error_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))
    error_slope_: float = field(init=False, repr=False, metadata=stored(REAL))

    @final
    def fit(
        self,
        logits: ArrayLike | Source,
        y: ArrayLike | None = None,
        environment: ArrayLike | None = None,
        *,
        second: ArrayLike | None = None,
        errors: bool = True,
    ) -> Self:
        """Fit on labeled rows and return self.

        Parameters
        ----------
        logits
            Raw scores of shape (n_samples, n_classes), never probabilities or log_softmax; or a
            source, whose rows are held if there is room for them, with its columns.
        y
            Integer labels 0..K-1; rows with -1, of other classes, have no accuracy and are left
            out.
        environment
            Which rows belong together: an integer for each row, 0 for the clean ones. Without it
            all rows are clean.
        second
            The logits of another network on the same rows, where `needs_second`.
        errors
            Measure how far it is off on environments that are left out. Without, `fit` is quicker,
            and intervals are those of an estimator that was fitted on clean rows alone.
        """
        rows = self._check_rows(logits, y, environment, second)
        clean = rows.of(0)
        self.n_classes_ = rows.logits.shape[1]
        self.temperature_ = float(TemperatureScaling().fit(clean.logits, clean.y).temperature_)
        top = confidence(clean.logits, self.temperature_)
        self.clean_accuracy_ = clean.accuracy()
        self.clean_confidence_, self.clean_spread_ = float(top.mean()), float(top.std())
        self.clean_counts_ = self._counts(clean.logits)
        self.line_ = np.array([0.0, 1.0])
        self.n_environments_ = len(rows.shifted)
        self._learn(rows)
        self.mix_slope_ = slope_of(
            [self._mix(rows.of(e)) for e in rows.shifted], self.clean_counts_
        )
        found = measure(
            rows if errors else rows.of(0),
            lambda left_out: self._reader(rows, left_out),
            self.usual_error,
        )
        self.error_sizes_, self.error_, self.error_slope_ = found.sizes, found.error, found.slope
        return self

    @final
    def estimate(
        self, window: ArrayLike | Source, second: ArrayLike | None = None
    ) -> AccuracyEstimate:
        """Return the accuracy on a window of rows without labels, shape (n_samples, n_classes).

        A source is read piece by piece where the method is `mergeable`, else held.
        """
        if self.mergeable:
            return self.estimate_state(self.state(window, second))
        z, other = self._door(window, second)
        return self._answer(self._read(z, other), self._base_state(z))

    @final
    def value(self, window: ArrayLike, second: ArrayLike | None = None) -> float:
        """Return the estimate alone: no interval is made, and no class mix is doubted."""
        return self._value(self._read_quickly(*self._door(window, second)))[0]

    @final
    def refutes_class_mix(self, window: ArrayLike) -> bool:
        """Return whether the predicted classes of a window contradict what the method assumes.

        False for methods that assume nothing of the class mix.
        """
        if not self.assumes_clean_class_mix:
            return False
        self.check_is_fitted()
        return self._beyond(self._base_state(check_window(window, self.n_classes_))) > 0

    @final
    def state(self, window: ArrayLike | Source, second: ArrayLike | None = None) -> WindowState:
        """Return what the estimator keeps of a window; states of disjoint windows add."""
        self._check_mergeable()
        return self._state(*self._door(window, second, whole=False))

    @final
    def estimate_state(self, state: WindowState) -> AccuracyEstimate:
        """Return the accuracy on the rows of a state; the same as `estimate` of all these rows."""
        self.check_is_fitted()
        self._check_mergeable()
        if not isinstance(state, WindowState):
            raise ValueError(f"state must be what `state` returns, got {type(state).__name__}.")
        if state.method != self.name or len(state.counts) != self.n_classes_:
            raise ValueError(
                f"state must be one of {self.name} with {self.n_classes_} classes, got one of"
                f" {state.method} with {len(state.counts)}."
            )
        zero = self._state(np.zeros((1, self.n_classes_)), np.zeros((1, self.n_classes_)))
        if len(state.sums) != len(zero.sums):
            raise ValueError(f"the state has {len(state.sums)} sums, not {len(zero.sums)}.")
        return self._answer(self._read_state(state), state)

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` has been called, or the estimator was loaded from a file."""
        return hasattr(self, "n_classes_")

    @final
    def check_is_fitted(self) -> None:
        """Raise a NotFittedError if there is nothing to estimate with yet."""
        if not self.is_fitted:
            raise NotFittedError(f"{type(self).__name__} is not fitted; call fit(logits, y) first.")

    @final
    def describe(self) -> list[str]:
        """Return what was fitted, in words, a sentence per item."""
        if not self.is_fitted:
            return [f"{self.title.capitalize()}, not fitted."]
        clean = (
            f"On clean rows the accuracy is {100 * self.clean_accuracy_:.1f} % and the mean"
            f" confidence {100 * self.clean_confidence_:.1f} % at temperature"
            f" {self.temperature_:.4g}."
        )
        sentences = [clean, *self._describe()]
        if len(self.error_):
            whole = 100 * self.error_[-1]
            sentences.append(
                f"On left-out environments of about {self.error_sizes_[-1]} rows it was off by"
                f" {whole:.1f} points beyond sampling."
            )
        else:
            sentences.append(
                "Its error on environments was not measured, so intervals take that of an"
                f" estimated fall to be {self.usual_error:g} of it, as on other networks."
            )
        return sentences

    def _describe(self) -> list[str]:
        return []

    def _check_fitted(self) -> None:
        """Raise a ValueError if fitted values, as read from a file, cannot be."""
        check_temperature("temperature_", self.temperature_)
        shares = self.clean_accuracy_, self.clean_confidence_, self.clean_spread_
        if not all(0 <= share <= 1 for share in shares):
            raise ValueError("the accuracy, confidence and spread of clean rows must be in [0, 1]")
        check_arrays(
            (self.clean_counts_, np.int64, self.n_classes_),
            (self.line_, np.float64, 2),
            (self.error_sizes_, np.int64, len(self.error_)),
            (self.error_, np.float64, len(self.error_)),
        )
        counts, sizes = self.clean_counts_, self.error_sizes_
        if (counts < 0).any() or not counts.sum() > 0:
            raise ValueError("clean_counts must be counts, not all of them zero")
        if (sizes < 1).any() or (np.diff(sizes) <= 0).any():
            raise ValueError("error_sizes must be rising counts")
        if (self.error_ < 0).any() or min(self.error_slope_, self.mix_slope_) < 0:
            raise ValueError("errors and slopes must not be negative")
        if max(self.error_.max(initial=0), self.error_slope_, self.mix_slope_) > _LARGEST_ERROR:
            raise ValueError(f"errors and slopes must be at most {_LARGEST_ERROR:g}")
        if self.n_environments_ < 0 or (len(sizes) > 0 and not self.n_environments_):
            raise ValueError("n_environments and error_sizes do not agree")

    def _learn(self, rows: Rows) -> None:
        """Learn what the method needs from the rows; those with y == -1 are among them."""

    def _own_sums(self, logits: FloatArray, second: FloatArray | None) -> FloatArray:
        """Return sums over rows, where `mergeable`."""
        raise NotImplementedError

    def _read_state(self, state: WindowState) -> Reading:
        """Return the score of a window from its sums, where `mergeable`."""
        raise NotImplementedError

    @abstractmethod
    def _read(self, logits: Logits, second: Logits | None) -> Reading:
        """Return the score of a window."""

    def _read_quickly(self, logits: Logits, second: Logits | None) -> Reading:
        """Return the score with a variance that may be too small, for many windows of a fit."""
        return self._read(logits, second)

    def _relearn(self, rows: Rows) -> None:
        """Learn again without some environments; what only reads clean rows stays as it is."""

    @final
    def _reader(self, rows: Rows, left_out: list[int]) -> Reader:
        """Return how this method, fitted without some environments, reads a window."""
        other = copy.copy(self)
        other._relearn(rows.without(left_out))

        def read(window: Rows) -> tuple[float, float]:
            value, variance = other._value(other._read_quickly(window.logits, window.second))
            return value, variance + other._label_variance(other._base_state(window.logits))

        return read

    @final
    def _value(self, reading: Reading) -> tuple[float, float]:
        """Return the accuracy and the variance that a score stands for."""
        value = float(self.line_[0] + self.line_[1] * reading.score)
        return min(1.0, max(0.0, value)), float(self.line_[1] ** 2 * reading.variance)

    @final
    def _answer(self, reading: Reading, state: WindowState) -> AccuracyEstimate:
        if self.assumes_clean_class_mix:
            self._warn_of_class_mix(state)
        value, variance = self._value(reading)
        errors = Errors(self.error_sizes_, self.error_, self.error_slope_)
        error = errors.at(state.n, self.clean_accuracy_ - value)
        variance += self._label_variance(state) + self._clean_variance()
        low, high = interval(value, variance, error, self._chance_cost(state))
        return AccuracyEstimate(value, low, high, state.n, self.clean_accuracy_, self.name)

    def _label_variance(self, state: WindowState) -> float:
        """Return Σ c (1 - c) / n²: that of the accuracy of rows whose labels are coins."""
        return float(state.sums[1]) / state.n**2

    def _clean_variance(self) -> float:
        """Return a (1 - a) / n: that of the accuracy of the clean rows, which estimates start from.

        Two more are counted as right and two as wrong (Agresti and Coull, 1998): of few labels
        hardly any is wrong, and a (1 - a) alone would take the accuracy for certain.
        """
        n = float(self.clean_counts_.sum())
        a = (self.clean_accuracy_ * n + 2) / (n + 4)
        return a * (1 - a) / n

    def _chance_cost(self, state: WindowState) -> float:
        """Return what chance alone takes off the value, where only one side of it does."""
        return 0.0

    def _beyond(self, state: WindowState) -> float:
        """Return how far the class mix is from the clean one, beyond what has another cause."""
        fall = self.clean_confidence_ - float(state.sums[0]) / state.n
        error = self.clean_spread_ / float(np.sqrt(state.n))
        return unexplained(state.counts, self.clean_counts_, fall, error, self.mix_slope_)

    def _warn_of_class_mix(self, state: WindowState) -> None:
        if self._beyond(state) > 0:
            warnings.warn(
                f"{self.name}: the predicted classes of the window differ from the clean"
                " ones more than chance and lost confidence explain, but this method assumes the"
                " clean class mix. Use atc-ne or context.",
                CalibrationWarning,
                stacklevel=4 if self.mergeable else 3,
            )

    def _mix(self, group: Rows) -> tuple[Labels, float, float]:
        """Return the class counts, the fall of confidence and its standard error of some rows."""
        fall = self.clean_confidence_ - float(confidence(group.logits, self.temperature_).mean())
        return self._counts(group.logits), fall, self.clean_spread_ / float(np.sqrt(len(group.y)))

    def _counts(self, logits: Logits) -> Labels:
        return np.bincount(logits.argmax(axis=1), minlength=self.n_classes_).astype(np.int64)

    def _base_state(self, logits: Logits) -> WindowState:
        """Return the sums that every method keeps."""

        def state(rows: slice) -> WindowState:
            top = confidence(logits[rows], self.temperature_)
            sums = np.array([top.sum(), (top * (1 - top)).sum()])
            counts = self._counts(logits[rows])
            return WindowState(self.name, len(top), counts, sums)

        return in_pieces(logits, state)

    def _state(self, logits: Source, second: Source | None) -> WindowState:
        """Return the sums of a window, added piece by piece wherever its rows are."""

        def state(rows: slice) -> WindowState:
            z, other = logits[rows], None
            if is_source(logits):
                z = check_window(z, self.n_classes_)
            base = self._base_state(z)
            if self.needs_second and second is not None:
                other = check_window(second[rows], self.n_classes_, "second").astype(np.float64)
            sums = self._own_sums(z.astype(np.float64), other)
            return WindowState(self.name, base.n, base.counts, np.concatenate([base.sums, sums]))

        return in_pieces(logits, state)

    def _check_mergeable(self) -> None:
        if not self.mergeable:
            raise ValueError(
                f"{self.name} reads all rows of a window together, so there is no state to add;"
                " pass the whole window to estimate."
            )

    def _check_rows(
        self,
        logits: Any,
        y: Any,
        environment: ArrayLike | None,
        second: ArrayLike | None,
    ) -> Rows:
        y, environment = (
            column(logits, given, name) for name, given in (("y", y), ("environment", environment))
        )
        if y is None:
            raise ValueError("y must be given: fit(logits, y), or a source that has labels.")
        z = check_logits(held(logits, type(self).__name__), fitting=True)
        labels = check_labels(y, len(z), z.shape[1], accepts_ood=True)
        check_some_known(labels)
        groups = np.zeros(len(z), np.int64)
        if environment is not None:
            groups = check_environment(environment, labels, None)
        self._check_second_given(second)
        other = None if second is None else self._check_second(second, z)
        return Rows(z, labels, groups, other)

    def _door(self, window: Any, second: Any, *, whole: bool = True) -> tuple[Any, Logits | None]:
        """Return checked logits; those of a source are read, unless they need not be `whole`."""
        self.check_is_fitted()
        if is_source(window) and not whole:
            z = check_rows(window, n_classes=self.n_classes_).logits
        else:
            z = check_window(held(window, type(self).__name__), self.n_classes_)
        self._check_second_given(second)
        return z, None if second is None else self._check_second(second, z)

    def _check_second_given(self, second: ArrayLike | None) -> None:
        if self.needs_second and second is None:
            raise ValueError(
                f"{self.name} compares two networks; pass second=, the logits of the other one on"
                " the same rows."
            )
        if not self.needs_second and second is not None:
            raise ValueError(f"{self.name} reads one network; leave out second=.")

    def _check_second(self, second: Any, first: Source) -> Any:
        other = held(second, type(self).__name__) if not is_source(first) else second
        if is_source(other):  # looked at as it is read
            check_rows(other, n_classes=first.shape[1])
        else:
            other = check_window(other, first.shape[1], "second")
        if len(other) != len(first):
            raise ValueError(f"second must have {len(first)} rows, as logits, got {len(other)}.")
        return other
