"""Base classes of calibrators that adapt to a window: a set of unlabelled samples."""

import sys
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, ClassVar, Final, NoReturn

import array_api_compat.numpy as np_compat
import numpy as np

from wildcal.calibrators._wrapper import Wrapper
from wildcal.calibrators.temperature import TemperatureScaling
from wildcal.core.arrays import Array, FloatArray, clip, in_blocks
from wildcal.core.calibrator import Calibrator, TemperatureCalibrator
from wildcal.core.exceptions import InputError
from wildcal.core.validation import Samples, check_number

_SMALLEST_PROBA: Final = 1e-30


@dataclass(frozen=True, eq=False)
class WindowStatistics:
    """Statistics of a window, for `WindowScaling`; ``a + b`` is that of both windows together."""

    counts: FloatArray
    """Predictions of each class, shape (n_classes,)."""
    confidence_sums: FloatArray
    """Sum of the confidence in each predicted class, shape (n_classes,)."""

    @property
    def n(self) -> int:
        """Number of samples."""
        return round(float(np.sum(self.counts)))

    def __add__(self, other: "WindowStatistics") -> "WindowStatistics":
        return WindowStatistics(
            self.counts + other.counts, self.confidence_sums + other.confidence_sums
        )


@dataclass(kw_only=True, eq=False, repr=False)
class WindowCalibrator(Wrapper):
    """Base class of methods that adapt a base calibrator to a window.

    `adapt` returns an ordinary calibrator. `predict_proba`, `predict` and `confidence` adapt to the
    samples that they are given. A method writes `_fit`, `adapted_formula` and `adjustment`, or
    `_adjustment_to` if it needs the samples of a window.
    """

    no_adjustment: ClassVar[float] = 0.0
    """The adjustment that changes nothing."""

    base: Calibrator | None = None
    min_window: int = 16
    base_: Calibrator = field(init=False)

    @abstractmethod
    def adapted_formula(self, xp: Any, z: Array, adjustment: Any, *inputs: Array) -> Array:
        """Return probabilities from logits, as `formula` does."""

    def adjustment(self, window: WindowStatistics | None) -> Any:
        """Return what changes with the window, a float or an array; None is no window."""
        if window is None:
            return self.no_adjustment
        who = type(self).__name__
        raise InputError(
            f"window must be samples for {who}, got statistics. Try adapt(X), or WindowScaling.",
            "window",
        )

    def window_statistics(self, X: Any, *, knn_distances: Any = None) -> WindowStatistics:
        """Return the statistics of a window, of predictions without an adjustment."""
        self.check_is_fitted()
        top = self._to_numpy(self._unadjusted()._apply(_class_and_confidence, X, knn_distances))
        predicted, k = top[:, 0].astype(np.int64), self.n_classes_
        sums = (np.bincount(predicted, w, k).astype(np.float64) for w in (None, top[:, 1]))
        return WindowStatistics(*sums)

    def adapt(self, window: Any, *, knn_distances: Any = None) -> "AdaptedCalibrator":
        """Return a calibrator for a window, given as samples X or as `WindowStatistics`."""
        self.check_is_fitted()
        if not isinstance(window, WindowStatistics):
            return self._adapted(self._adjustment_to(window, knn_distances))
        shapes = np.shape(window.counts), np.shape(window.confidence_sums)
        if shapes != ((self.n_classes_,), (self.n_classes_,)):
            raise InputError(
                f"window must have two sums for {self.n_classes_} classes, got shapes {shapes[0]}"
                f" and {shapes[1]}.",
                "window",
            )
        return self._adapted(self.adjustment(window))

    def formula(self, xp: Any, z: Array, *inputs: Array) -> Array:
        """Raise: there is no formula without a window."""
        raise self.not_adapted()

    def _inner(self) -> Calibrator:
        return self.base or TemperatureScaling()

    def _check_options(self) -> None:
        check_number("min_window", self.min_window, 1, whole=True)

    def _adjustment_to(self, X: Any, knn_distances: Any) -> Any:
        """Return the adjustment to the samples X."""
        return self.adjustment(self.window_statistics(X, knn_distances=knn_distances))

    def _to_numpy(self, values: Array) -> FloatArray:
        """Return an array of any library in float64; arrays that are traced raise."""
        if hasattr(values, "detach"):  # torch
            if sys.modules["torch"].jit.is_tracing():
                raise self.not_adapted()
            values = values.detach().cpu()
        try:
            return np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError, RuntimeError) as error:
            raise self.not_adapted() from error

    def _unadjusted(self) -> "AdaptedCalibrator":
        return self._adapted(self.adjustment(None))

    def _unadjusted_proba(self, X: Any, knn_distances: Any) -> FloatArray:
        """Return probabilities without an adjustment, two columns with ``input="confidence"``."""
        p = self._to_numpy(self._unadjusted().predict_proba(X, knn_distances=knn_distances))
        return p if p.ndim == 2 else np.stack([1 - p, p], axis=1)

    def _of_fit(self, function: Callable[..., Array], data: Samples) -> FloatArray:
        """Return `function(xp, z, *inputs)` of the samples of a fit."""
        inputs = () if data.knn_distances is None or not self.requires else (data.knn_distances,)
        return in_blocks(partial(function, np_compat), data.logits, *inputs)

    def _log_proba(self, xp: Any, z: Array, *inputs: Array) -> Array:
        """Return log-probabilities of the base, up to a constant in each sample."""
        if isinstance(self.base_, TemperatureCalibrator):  # keeps the order of nearly equal classes
            u = z - xp.max(z, axis=-1, keepdims=True)
            return u / self.base_._temperatures(xp, z, *inputs)
        return xp.log(clip(xp, self.base_.formula(xp, z, *inputs), _SMALLEST_PROBA, None))

    def _adapted(self, adjustment: Any) -> "AdaptedCalibrator":
        adapted = AdaptedCalibrator(calibrator=self)
        copy_fit(self, adapted)
        adapted.adjustment_ = adjustment
        return adapted

    def _apply(self, reduce: Callable[[Any, Array], Array], X: Any, knn_distances: Any) -> Array:
        result = self.adapt(X, knn_distances=knn_distances)._apply(reduce, X, knn_distances)
        if getattr(result, "requires_grad", False):  # gradients would leave out the adjustment
            raise self.not_adapted()
        return result

    def not_adapted(self) -> InputError:
        """Return the error of a call that needs a formula."""
        return InputError(
            f"{type(self).__name__} must be adapted to a window first: it has no formula for single"
            " samples. Try calibrator.adapt(window), which can be traced, differentiated and"
            " exported.",
            "calibrator",
        )

    # The base gives these warnings.
    def _mistake_warnings(self, n_wrong: int) -> list[str]:
        return []

    def _frequency_warnings(self, samples: Samples) -> list[str]:
        return []


@dataclass(kw_only=True, eq=False, repr=False)
class AdaptedCalibrator(Wrapper):
    """A window calibrator with a fixed adjustment: an ordinary calibrator for samples of a window.

    Made by `WindowCalibrator.adapt`.

    Attributes
    ----------
    calibrator
        The fitted window calibrator.
    adjustment_
        A float or an array; see `WindowCalibrator.adjustment`.
    """

    name = "adapted"
    title = "adapted to a window"

    calibrator: WindowCalibrator
    adjustment_: float | FloatArray = field(init=False)

    def fit(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise: only the window calibrator can be fitted."""
        raise InputError(
            "AdaptedCalibrator cannot be fitted; fit the window calibrator and call adapt.",
            "calibrator",
        )

    def _fit(self, data: Samples) -> NoReturn:
        self.fit()

    def formula(self, xp: Any, z: Array, *inputs: Array) -> Array:
        """Return the probabilities of the window calibrator with this adjustment."""
        return self.calibrator.adapted_formula(xp, z, self.adjustment_, *inputs)

    def _inner(self) -> Calibrator:
        return self.calibrator


def _class_and_confidence(xp: Any, p: Array) -> Array:
    """Return predicted class and confidence as two columns."""
    if p.ndim == 1:  # input="confidence"
        p = xp.stack([1 - p, p], axis=1)
    return xp.stack([xp.astype(xp.argmax(p, axis=-1), p.dtype), xp.max(p, axis=-1)], axis=1)


def copy_fit(source: Calibrator, target: Calibrator) -> None:
    """Copy the fitted fields that all calibrators have, such as the profile."""
    for shared in fields(Calibrator):
        setattr(target, shared.name, getattr(source, shared.name))
