"""The contract of a method that adapts to a window: a set of unlabelled samples to be predicted."""

import sys
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, NoReturn

import numpy as np
from array_api_compat import is_dask_array
from numpy.typing import NDArray

from wildcal.calibrators.temperature import TemperatureScaling
from wildcal.core.arrays import Array, FloatArray
from wildcal.core.calibrator import Calibrator
from wildcal.core.exceptions import InputError
from wildcal.core.validation import Samples


@dataclass(frozen=True, eq=False)
class WindowStatistics:
    """What a method needs to know of a window; ``a + b`` is that of both windows together."""

    counts: FloatArray
    """Predictions of each class, shape (n_classes,)."""
    confidence_sums: FloatArray
    """Sum of the confidence in each predicted class, shape (n_classes,)."""

    def __post_init__(self) -> None:
        shapes = np.shape(self.counts), np.shape(self.confidence_sums)
        if shapes[0] != shapes[1] or len(shapes[0]) != 1:
            raise InputError(
                "counts and confidence_sums must have shape (n_classes,), got"
                f" {shapes[0]} and {shapes[1]}.",
                "counts",
            )

    @property
    def n(self) -> int:
        """Number of samples."""
        return round(float(np.sum(self.counts)))

    def __add__(self, other: "WindowStatistics") -> "WindowStatistics":
        if not isinstance(other, WindowStatistics):
            return NotImplemented
        if self.counts.shape != other.counts.shape:
            raise InputError(
                "windows must have the same number of classes, got"
                f" {len(self.counts)} and {len(other.counts)}.",
                "window",
            )
        return WindowStatistics(
            self.counts + other.counts, self.confidence_sums + other.confidence_sums
        )


class _Wrapper(Calibrator):
    """Has the properties of the calibrator that it contains."""

    @abstractmethod
    def _inner(self) -> Calibrator:
        """Return that calibrator."""

    @property
    def preserves_accuracy(self) -> bool:  # type: ignore[override]
        """Whether the predicted class never changes."""
        return self._inner().preserves_accuracy

    @property
    def uses_ood(self) -> bool:  # type: ignore[override]
        """Whether `fit` uses samples with y == -1."""
        return self._inner().uses_ood

    @property
    def requires(self) -> frozenset[str]:  # type: ignore[override]
        """Inputs besides X."""
        return self._inner().requires

    @property
    def requires_raw_logits(self) -> bool:  # type: ignore[override]
        """Whether the base reads the free energy."""
        return self._inner().requires_raw_logits

    @property
    def n_layers(self) -> int | None:
        """Number of layers of `knn_distances`, None without them."""
        return getattr(self._inner(), "n_layers", None)


@dataclass(kw_only=True, eq=False, repr=False)
class WindowCalibrator(_Wrapper):
    """Base class of methods that adapt a base calibrator to a window.

    `adapt` returns an ordinary calibrator. `predict_proba`, `predict` and `confidence` adapt to the
    samples that they are given. A method writes `_fit`, `adjustment` and `adapted_formula`; one
    that needs more than the statistics of a window also writes `_adjustment_to`.
    """

    base: Calibrator | None = None
    base_: Calibrator = field(init=False)

    @abstractmethod
    def adjustment(self, window: WindowStatistics | None) -> Any:
        """Return what changes with the window, a float or an array; None is no change."""

    @abstractmethod
    def adapted_formula(self, xp: Any, z: Array, adjustment: Any, *inputs: Array) -> Array:
        """Return probabilities from logits, as `formula` does."""

    def window_statistics(self, X: Any, *, knn_distances: Any = None) -> WindowStatistics:
        """Return the statistics of a window, of predictions without an adjustment."""
        self.check_is_fitted()
        top = self._adapted(self.adjustment(None))._apply(_top, X, knn_distances)
        if is_dask_array(top):
            return self._sum_chunks(top)
        if hasattr(top, "detach"):  # torch
            if sys.modules["torch"].jit.is_tracing():
                raise self._not_adapted()
            top = top.detach().cpu()
        try:
            top = np.asarray(top, dtype=np.float64)
        except (TypeError, ValueError, RuntimeError) as error:  # the array is traced
            raise self._not_adapted() from error
        return WindowStatistics(*_sums(self.n_classes_, top).reshape(2, -1))

    def adapt(self, window: Any, *, knn_distances: Any = None) -> "AdaptedCalibrator":
        """Return a calibrator for a window, given as samples X or as `WindowStatistics`."""
        self.check_is_fitted()
        if not isinstance(window, WindowStatistics):
            return self._adapted(self._adjustment_to(window, knn_distances))
        if window.counts.shape != (self.n_classes_,):
            raise InputError(
                f"window must have {self.n_classes_} classes, got {len(window.counts)}.", "window"
            )
        return self._adapted(self.adjustment(window))

    def formula(self, xp: Any, z: Array, *inputs: Array) -> Array:
        """Raise: there is no formula without a window."""
        raise self._not_adapted()

    def _inner(self) -> Calibrator:
        return self.base or TemperatureScaling()

    def _adjustment_to(self, X: Any, knn_distances: Any) -> Any:
        """Return the adjustment to the samples X."""
        return self.adjustment(self.window_statistics(X, knn_distances=knn_distances))

    def _adapted(self, adjustment: Any) -> "AdaptedCalibrator":
        adapted = AdaptedCalibrator(calibrator=self)
        for shared in fields(Calibrator):
            setattr(adapted, shared.name, getattr(self, shared.name))
        adapted.adjustment_ = adjustment
        return adapted

    def _apply(self, reduce: Callable[[Any, Array], Array], X: Any, knn_distances: Any) -> Array:
        result = self.adapt(X, knn_distances=knn_distances)._apply(reduce, X, knn_distances)
        if getattr(result, "requires_grad", False):  # gradients would leave out the adjustment
            raise self._not_adapted()
        return result

    def _sum_chunks(self, top: Array) -> WindowStatistics:
        """Return the statistics of a Dask array in one pass over its chunks."""
        k = self.n_classes_
        chunks = ((1,) * top.numblocks[0], (2 * k,))
        sums = top.map_blocks(partial(_sums, k), chunks=chunks, dtype=np.float64).sum(axis=0)
        return WindowStatistics(*sums.compute().reshape(2, -1))

    def _not_adapted(self) -> InputError:
        return InputError(
            f"{type(self).__name__} must be adapted to a window first: it has no formula for single"
            " samples. Try calibrator.adapt(window), which can be traced, differentiated and"
            " exported.",
            "calibrator",
        )

    # The base gives these warnings.
    def _mistake_notes(self, n_wrong: int) -> list[str]:
        return []

    def _frequency_notes(self, samples: Samples) -> list[str]:
        return []


@dataclass(kw_only=True, eq=False, repr=False)
class AdaptedCalibrator(_Wrapper):
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


def window_sums(
    predicted: NDArray[np.int64], weight: FloatArray, confidence: FloatArray, n_classes: int
) -> WindowStatistics:
    """Return the statistics of predictions."""
    counts = np.bincount(predicted, weight, n_classes)
    sums = np.bincount(predicted, weight * confidence, n_classes)
    return WindowStatistics(counts.astype(np.float64), sums.astype(np.float64))


def _top(xp: Any, p: Array) -> Array:
    """Return predicted class and confidence as two columns."""
    if p.ndim == 1:  # input="confidence"
        p = xp.stack([1 - p, p], axis=1)
    return xp.stack([xp.astype(xp.argmax(p, axis=-1), p.dtype), xp.max(p, axis=-1)], axis=1)


def _sums(n_classes: int, top: NDArray[Any]) -> FloatArray:
    """Return counts and confidence sums of what `_top` returns, shape (1, 2 * n_classes)."""
    predicted, confidence = top.astype(np.float64).T
    sums = window_sums(predicted.astype(np.int64), np.ones(len(top)), confidence, n_classes)
    return np.concatenate([sums.counts, sums.confidence_sums])[None]
