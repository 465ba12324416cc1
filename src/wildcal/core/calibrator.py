"""The contract of a calibrator: `fit`, `predict_proba`, and one formula per method."""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, ClassVar, Final, Self

import array_api_compat.numpy as np_compat
import numpy as np
from array_api_compat import is_dask_array
from numpy.typing import NDArray

from wildcal.core import arrays, validation
from wildcal.core.arrays import Array, BoolArray, FloatArray, device
from wildcal.core.conversion import to_logits
from wildcal.core.estimator import BaseEstimator
from wildcal.core.exceptions import ConvergenceWarning, InputError, NotFittedError
from wildcal.core.profile import Profile

# Samples that decide whether class frequencies are matched.
_N_CHECKED: Final = 5_000
# Mean probability and frequency of a class differ by this many standard errors, and by this much.
_MANY_ERRORS: Final = 6.0
_LARGE_GAP: Final = 0.01


@dataclass(frozen=True)
class FitInfo:
    """Losses, numbers of samples and warnings of a fit."""

    loss: str = "nll"
    """Name of the loss: "nll", "mse" (the Brier score) or another objective of the method."""
    loss_before: float = math.nan
    loss_after: float = math.nan
    n_iter: int = 0
    converged: bool = True
    n_samples: int = 0
    n_ood: int = 0
    n_domains: int = 1
    warnings: tuple[str, ...] = ()
    message: str = ""


@dataclass(kw_only=True, eq=False, repr=False)
class Calibrator(BaseEstimator, ABC):
    """Maps the outputs of a classifier to calibrated probabilities.

    A method is a dataclass: options are fields, fitted numbers are fields with ``init=False`` whose
    names end in ``_``. It writes `_fit` and `formula`.

    Attributes
    ----------
    n_classes_, input_, class_names_, feature_names_in_
        Number of classes, kind of input, names of classes and of columns, from `fit`.
    fit_info_
        A `FitInfo`.
    profile_
        Statistics of the calibration samples, for monitoring.
    """

    name: ClassVar[str]
    """The registered short name."""
    title: ClassVar[str]
    reference: ClassVar[str] = ""
    preserves_accuracy: ClassVar[bool] = False
    """The predicted class never changes."""
    uses_ood: ClassVar[bool] = False
    """`fit` uses samples with y == -1."""
    requires_raw_logits: ClassVar[bool] = False
    """The method uses the free energy, which probabilities do not have."""
    requires: ClassVar[frozenset[str]] = frozenset()
    """Inputs besides X: "knn_distances"."""
    min_mistakes: ClassVar[int] = 20
    """`fit` warns if fewer calibration samples are misclassified."""

    n_classes_: int = field(init=False)
    input_: str = field(init=False)
    eps_: float = field(init=False)
    class_names_: tuple[str, ...] | None = field(init=False)
    feature_names_in_: tuple[str, ...] | None = field(init=False)
    profile_: Profile | None = field(init=False)
    fit_info_: FitInfo = field(init=False)

    @abstractmethod
    def _fit(self, data: validation.Samples) -> FitInfo:
        """Set the fitted numbers from checked samples."""

    @abstractmethod
    def formula(self, xp: Any, z: Array, *inputs: Array) -> Array:
        """Return probabilities from logits, sample by sample, with array API functions only.

        Arrays of `self` have the kind, precision and device of `z`; numbers are Python floats.
        """

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        input: str = "logits",
        sample_weight: Any = None,
        domain: Any = None,
        source_domain: Any = None,
        knn_distances: Any = None,
    ) -> Self:
        """Fit on held-out samples and return self.

        Parameters
        ----------
        X
            Shape (n_samples, n_classes): array, tensor or DataFrame. One column for a binary score
            or a confidence.
        y
            Class indices, or names that are columns of X. -1 marks OOD samples. With
            ``input="confidence"``: whether the prediction was right.
        input
            Kind of X: "logits", "proba", "log_proba", "score" or "confidence".
        sample_weight
            Counts; a weight of 2 is equivalent to repeating the sample.
        domain
            Labels of the domains that samples come from, for methods that use them.
        source_domain
            The label of the in-distribution domain. Default: 0 or "source".
        knn_distances
            Distances to training samples, shape (n_samples, n_layers), for `dac`.
        """
        if self.requires_raw_logits and input not in ("logits", "score"):
            raise InputError(
                f"input must be 'logits' for {type(self).__name__}, got {input!r}, which has no"
                " free energy. Try TemperatureScaling.",
                "input",
            )
        self._check_distances_given(knn_distances)
        samples = validation.check_samples(
            X,
            y,
            input=input,
            sample_weight=sample_weight,
            domain=domain,
            source_domain=source_domain,
            knn_distances=knn_distances,
            uses_ood=self.uses_ood,
        )
        self._check_raw_logits(samples.logits, input)
        self.fit_samples(samples, input=input)
        for message in self.fit_info_.warnings:
            validation.warn(f"{type(self).__name__}: {message}")
        if not self.fit_info_.converged:
            validation.warn(
                f"{type(self).__name__} stopped after {self.fit_info_.n_iter} iterations (loss"
                f" {self.fit_info_.loss_after:.4g}) before it converged.",
                ConvergenceWarning,
            )
        return self

    def fit_samples(self, samples: validation.Samples, *, input: str = "logits") -> Self:
        """Fit on checked samples. Warnings are stored in `fit_info_`, not issued."""
        self._check_options()
        if not self.uses_ood:
            samples = samples.subset(~samples.is_ood)
        self.n_classes_, self.input_, self.eps_ = samples.n_classes, input, samples.eps
        self.class_names_, self.feature_names_in_ = samples.class_names, samples.feature_names
        info = self._fit(samples)
        self._check_finite()
        source = samples.subset(samples.is_source)
        self.profile_ = _make_profile(source, input)
        n_wrong = round((1 - self.profile_.accuracy) * self.profile_.n_samples)
        notes = [*samples.warnings, *info.warnings]
        others = self._mistake_warnings(n_wrong) + self._frequency_warnings(source)
        notes += self._one_class_warnings(source) or others
        self.fit_info_ = replace(
            info,
            n_samples=len(samples),
            n_ood=int(samples.is_ood.sum()),
            n_domains=samples.n_domains,
            warnings=tuple(dict.fromkeys(notes)),  # a wrapper repeats those of its base
        )
        return self

    def predict_proba(self, X: Any, *, knn_distances: Any = None) -> Array:
        """Return probabilities, shape (n_samples, n_classes), as the array type of X.

        X is of the kind given to `fit`. With ``input="confidence"`` the shape is (n_samples,).
        """
        return self._apply(_keep, X, knn_distances)

    def confidence(self, X: Any, *, knn_distances: Any = None) -> Array:
        """Return the largest probability of each sample, shape (n_samples,)."""
        return self._apply(_largest, X, knn_distances)

    def predict(self, X: Any, *, knn_distances: Any = None) -> Array:
        """Return class indices: the argmax of `predict_proba`."""
        if self.is_fitted and self.input_ == "confidence":
            raise InputError(
                "predict needs probabilities of classes, and this calibrator was fitted with"
                " input='confidence'. Try predict_proba.",
                "X",
            )
        return self._apply(_argmax, X, knn_distances)

    def probabilities(self, xp: Any, x: Array, *inputs: Array) -> Array:
        """Return probabilities from an input of the kind given to `fit`; array API only.

        This is the function that exports trace. Call it on `converted` calibrators.
        """
        if self.input_ in ("logits", "log_proba"):
            return arrays.masked_apply(xp, self.formula, x, *inputs)
        p = self.formula(xp, to_logits(xp, x, self.input_, self.eps_), *inputs)
        return p[:, 1] if self.input_ == "confidence" else p

    def converted(self, xp: Any, like: Array) -> Self:
        """Return a copy whose arrays have the kind, precision and device of `like`."""
        new = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                setattr(new, name, arrays.convert(xp, value, like))
            elif isinstance(value, Calibrator):
                setattr(new, name, value.converted(xp, like))
        return new

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` was called."""
        return hasattr(self, "n_classes_")

    def describe(self) -> str:
        """Return the fitted numbers in words."""
        self.check_is_fitted()
        shared = {f.name for f in fields(Calibrator)}
        own = [f.name for f in fields(self) if not f.init and f.name not in shared]
        return "; ".join(f"{name}: {_brief(getattr(self, name))}" for name in own)

    def check_is_fitted(self) -> None:
        """Raise NotFittedError unless `fit` was called."""
        if not self.is_fitted:
            raise NotFittedError(f"{type(self).__name__} is not fitted; call fit(X, y) first.")

    def _check_options(self) -> None:
        """Raise InputError if an option has a value that is not allowed."""

    def _apply(self, reduce: Callable[[Any, Array], Array], X: Any, knn_distances: Any) -> Array:
        """Return `reduce(xp, probabilities)` of samples, computed for blocks or chunks of them."""
        self.check_is_fitted()
        if validation.is_foreign_array(X):
            validation.check_foreign_array(X, self.input_, self.n_classes_)
            if is_dask_array(X):
                inputs = self._extra_inputs(X, knn_distances)
                return arrays.in_chunks(partial(_apply_chunk, self, reduce), X, *inputs)
            xp = arrays.namespace(X)
            if X.dtype not in (xp.float32, xp.float64):
                X = xp.astype(X, xp.float32)
            inputs = self._extra_inputs(X, knn_distances)
            return reduce(xp, self.converted(xp, X).probabilities(xp, X, *inputs))
        validation.check_column_names(X, self.feature_names_in_)
        x = validation.check_input(X, self.input_, n_classes=self.n_classes_)
        self._check_raw_logits(x, self.input_)
        inputs = self._extra_inputs(x, knn_distances)
        fitted = self.converted(np_compat, x)
        return arrays.in_blocks(
            lambda *block: reduce(np_compat, fitted.probabilities(np_compat, *block)), x, *inputs
        )

    def _extra_inputs(self, x: Array, knn_distances: Any) -> tuple[Array, ...]:
        """Return the checked inputs besides `x`, as arrays of the same library and dtype."""
        if "knn_distances" not in self.requires:
            return ()
        self._check_distances_given(knn_distances)
        n_layers = getattr(self, "n_layers", None)
        if isinstance(x, np.ndarray):
            distances = validation.check_distances(knn_distances, len(x), n_layers)
            return (distances.astype(x.dtype, copy=False),)
        xp = arrays.namespace(x)
        if not validation.is_foreign_array(knn_distances):
            knn_distances = xp.asarray(knn_distances, device=device(x))
        validation.check_distances_shape(knn_distances.shape, x.shape[0], n_layers)
        return (knn_distances if is_dask_array(x) else xp.astype(knn_distances, x.dtype),)

    def _check_distances_given(self, knn_distances: Any) -> None:
        if "knn_distances" in self.requires and knn_distances is None:
            raise InputError(
                f"knn_distances must be given to {type(self).__name__}.", "knn_distances"
            )

    def _check_raw_logits(self, x: NDArray[Any], input: str) -> None:
        if self.requires_raw_logits and input == "logits":
            validation.check_raw_logits(x, type(self).__name__)

    def _check_finite(self) -> None:
        """Raise if a fitted number is not finite."""
        for each in fields(self):
            value = None if each.init else getattr(self, each.name, None)
            # Padded tables end with infinite knots.
            if isinstance(value, float | np.ndarray) and np.isnan(value).any():
                del self.n_classes_
                raise InputError(
                    f"{type(self).__name__} cannot be fitted to these samples: {each.name} is NaN."
                    " Try dividing very large logits by a constant.",
                    "X",
                )

    def _one_class_warnings(self, samples: validation.Samples) -> list[str]:
        """Return a warning if all samples are of one class."""
        first = samples.y[0]
        if (samples.y != first).any() or (self.input_ == "confidence" and first == 1):
            return []
        return [
            f"all calibration samples are of class {samples.class_name(first)}, which tells nothing"
            " about the other classes. Try samples of all classes, or method 'identity'."
        ]

    def _mistake_warnings(self, n_wrong: int) -> list[str]:
        """Return a warning if few of the samples are misclassified."""
        if n_wrong >= self.min_mistakes:
            return []
        if n_wrong:
            return [
                f"few calibration samples are misclassified ({n_wrong}), so the fit is uncertain."
                " Try method 'auto' or more samples."
            ]
        return [
            "no calibration sample is misclassified. Are these samples of the training set? Try"
            " held-out samples."
        ]

    def _frequency_warnings(self, samples: validation.Samples) -> list[str]:
        """Return a warning if the mean probability of a class is far from its frequency."""
        few = samples.subset(np.arange(len(samples)) % max(1, len(samples) // _N_CHECKED) == 0)
        inputs = self._extra_inputs(few.logits, few.knn_distances)
        fitted = self.converted(np_compat, few.logits)
        p = arrays.in_blocks(partial(fitted.formula, np_compat), few.logits, *inputs)
        weight = few.weight / few.weight.sum()
        mean, frequency = weight @ p, np.bincount(few.y, weight, few.n_classes)
        gap = np.abs(mean - frequency)
        error = np.sqrt(np.maximum((weight * weight) @ (p * (1 - p)), 1e-12))
        worst = int(np.argmax(gap / error))
        if gap[worst] < max(_MANY_ERRORS * error[worst], _LARGE_GAP):
            return []
        return [
            f"the mean probability of class {samples.class_name(worst)} is {mean[worst]:.3f} after"
            f" calibration, its frequency {frequency[worst]:.3f}. The method cannot correct this."
            " Try 'auto' or 'vector'."
        ]


class TemperatureCalibrator(Calibrator):
    """Base class of methods with p = softmax(z / T(z)); the method writes `_temperatures`."""

    preserves_accuracy = True

    @abstractmethod
    def _temperatures(self, xp: Any, z: Array, *inputs: Array) -> Any:
        """Return a positive number, or an array of shape (n_samples, 1)."""

    def formula(self, xp: Any, z: Array, *inputs: Array) -> Array:
        """Return softmax(z / T(z))."""
        return arrays.softmax(xp, z, self._temperatures(xp, z, *inputs))

    def temperatures(self, X: Any, *, knn_distances: Any = None) -> NDArray[Any]:
        """Return the temperature of each sample, shape (n_samples,), of NumPy input."""
        self.check_is_fitted()
        validation.check_column_names(X, self.feature_names_in_)
        x = validation.check_input(X, self.input_, n_classes=self.n_classes_)
        fitted = self.converted(np_compat, x)

        def function(block: NDArray[Any], *inputs: NDArray[Any]) -> NDArray[Any]:
            z = arrays.unmask(to_logits(np_compat, block, self.input_, self.eps_))
            t = fitted._temperatures(np_compat, z, *inputs)
            return np.broadcast_to(np.asarray(t, dtype=x.dtype), (len(block), 1))[:, 0]

        return arrays.in_blocks(function, x, *self._extra_inputs(x, knn_distances))


class TopLabelCalibrator(Calibrator):
    """Base class of methods that map the confidence.

    A method writes `_fit_top_label` and `_top_probability`. The predicted class gets q, the others
    share 1 - q in proportion to their probabilities. Where one of them would exceed q, shares are
    moved towards equal ones until none does, so the predicted class never changes.
    """

    preserves_accuracy = True

    @abstractmethod
    def _fit_top_label(self, rest: FloatArray, correct: BoolArray, weight: FloatArray) -> None:
        """Set the fitted numbers from rest = 1 - confidence, and whether predictions are right."""

    @abstractmethod
    def _top_probability(self, xp: Any, rest: Array) -> Array:
        """Return q from rest = 1 - confidence, shape (n_samples, 1).

        The rest has more digits than the confidence where that is close to 1.
        """

    def _fit(self, data: validation.Samples) -> FitInfo:
        rest = arrays.in_blocks(_rest, data.logits)[:, 0]
        correct = data.logits.argmax(axis=1) == data.y
        self._fit_top_label(rest, correct, data.weight)
        q = self._top_probability(np_compat, rest[:, None])[:, 0]
        before, after = (
            float(np.average(np.square(confidence - correct), weights=data.weight))
            for confidence in (1 - rest, np.clip(q, 0, 1))
        )
        return FitInfo("mse", before, after)

    def formula(self, xp: Any, z: Array, *inputs: Array) -> Array:
        """Return probabilities whose top class has the calibrated confidence q."""
        n_classes = z.shape[-1]
        top, others, total = _top_and_others(xp, z)
        q = self._top_probability(xp, total / (total + 1))
        q = arrays.clip(xp, q, (1 + 2e-6) / n_classes, 1.0)
        positive = arrays.clip(xp, total, 1e-37, None)
        second = xp.max(others, axis=-1, keepdims=True) / positive  # its share of the mass 1 - q
        equal = 1.0 / (n_classes - 1)
        # The largest a <= 1 with (1 - q) (a second + (1 - a) equal) <= q (1 - 1e-6).
        room = q * (1 - 1e-6) / arrays.clip(xp, 1 - q, 1e-12, None) - equal
        a = arrays.clip(xp, room / arrays.clip(xp, second - equal, 1e-12, None), 0.0, 1.0)
        a = xp.where(total > 1e-37, a, xp.zeros_like(a))
        least = (1 - q) * (1 - a) * equal
        return others * ((1 - q) * a / positive) + (top * (q - least) + least)


def _top_and_others(xp: Any, z: Array) -> tuple[Array, Array, Array]:
    """Return 1 at the top class, exp(z - max z) of the others, and the sum of these."""
    top = arrays.is_top_class(xp, z)
    others = xp.exp(z - xp.max(z, axis=-1, keepdims=True)) * (1 - top)
    return top, others, xp.sum(others, axis=-1, keepdims=True)


def _rest(z: FloatArray) -> Array:
    total = _top_and_others(np_compat, z)[2]
    return total / (total + 1)


def clone(calibrator: Calibrator) -> Calibrator:
    """Return an unfitted calibrator of the same class and options."""
    params = calibrator.get_params(deep=False).items()
    return type(calibrator)(**{k: clone(v) if isinstance(v, Calibrator) else v for k, v in params})


def fit_base(base: Calibrator, samples: validation.Samples, input: str) -> Calibrator:
    """Return a fitted base as it is, or a clone fitted on the source samples."""
    if base.is_fitted:
        if base.n_classes_ != samples.n_classes:
            raise InputError(
                f"base must be fitted for {samples.n_classes} classes, got {base.n_classes_}.",
                "base",
            )
        return base
    return clone(base).fit_samples(samples.subset(samples.is_source | samples.is_ood), input=input)


def _apply_chunk(calibrator: Calibrator, reduce: Callable[..., Array], x: Any, *inputs: Any) -> Any:
    return calibrator._apply(reduce, x, *(inputs or (None,)))


def _keep(xp: Any, p: Array) -> Array:
    return p


def _largest(xp: Any, p: Array) -> Array:
    return p if p.ndim == 1 else xp.max(p, axis=-1)


def _argmax(xp: Any, p: Array) -> Array:
    return xp.argmax(p, axis=-1)


def _brief(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.size > 8:
        shape, finite = " x ".join(map(str, value.shape)), value[np.isfinite(value)]
        return f"{shape} numbers from {finite.min():.4g} to {finite.max():.4g}"
    if isinstance(value, np.ndarray):
        return "[" + ", ".join(f"{v:.4g}" for v in value.ravel()) + "]"
    return f"{value:.4g}" if isinstance(value, float) else repr(value)


def _make_profile(samples: validation.Samples, input: str) -> Profile:
    """Return the profile of in-distribution samples."""
    predicted, w = samples.logits.argmax(axis=1), samples.weight
    correct = samples.y == (1 if input == "confidence" else predicted)
    confidence = arrays.uncalibrated_confidence(samples.logits, input).astype(np.float64)
    bins = arrays.confidence_bins(confidence)
    accuracy = float(w @ correct / w.sum())
    fitted = arrays.fit_threshold(confidence, accuracy, arrays.CONFIDENCE_ROUNDING, w)
    k, n_bins = samples.n_classes, arrays.N_CONFIDENCE_BINS
    groups = (predicted, k), (bins, n_bins), (samples.y, k)
    counts = [np.bincount(index, w, size).astype(np.float64) for index, size in groups]
    return Profile(
        n_samples=math.ceil(w.sum()),
        accuracy=accuracy,
        class_counts=counts[0],
        histogram=counts[1],
        atc_threshold=min(fitted[0], 1.0),  # infinite if all are wrong
        atc_tie_share=fitted[1],
        label_counts=counts[2],
    )
