"""Base class of accuracy estimators: the accuracy on samples without labels."""

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Final, Self

import array_api_compat.numpy as np_compat
import numpy as np

from wildcal.calibrators.temperature import TemperatureScaling
from wildcal.core import validation
from wildcal.core.arrays import Array, FloatArray, IntArray, in_blocks
from wildcal.core.conversion import ONE_COLUMN, to_logits
from wildcal.core.estimator import BaseEstimator
from wildcal.core.exceptions import InputError, NotFittedError
from wildcal.core.registry import ESTIMATORS, import_class

# The 97.5 % quantile of the normal distribution: intervals of 95 %.
_Z: Final = 1.959963984540054
# `fit` warns about a larger error on source samples.
_LARGE_ERROR: Final = 0.05
# Weight of the default relative error, in domains.
_DEFAULT_DOMAINS: Final = 2.0


@dataclass(frozen=True)
class AccuracyEstimate:
    """The estimated accuracy on a window, with a 95 % interval.

    Examples
    --------
    >>> print(AccuracyEstimate(0.831, 0.802, 0.856, n_samples=1000))
    83.1 % (80.2 to 85.6)
    """

    value: float
    low: float
    high: float
    n_samples: int

    def to_dict(self) -> dict[str, float]:
        """Return the fields by name."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{100 * self.value:.1f} % ({100 * self.low:.1f} to {100 * self.high:.1f})"


@dataclass(frozen=True)
class AccuracyStatistics:
    """Statistics of a window; ``a + b`` is that of both windows together."""

    estimator: str
    """Name of the estimator."""
    n_samples: int
    total: float
    """Sum over samples of a number whose mean is the estimated accuracy."""

    def __add__(self, other: "AccuracyStatistics") -> "AccuracyStatistics":
        if self.estimator != other.estimator:
            raise InputError(
                f"statistics must be of one estimator, got {self.estimator!r} and"
                f" {other.estimator!r}.",
                "window",
            )
        return AccuracyStatistics(
            self.estimator, self.n_samples + other.n_samples, self.total + other.total
        )


@dataclass(kw_only=True, eq=False, repr=False)
class AccuracyEstimator(BaseEstimator, ABC):
    """Estimates the accuracy of a classifier on unlabelled samples.

    A method writes `_values`, and `_fit` if it is fitted to source samples. Both get probabilities
    after temperature scaling of the source samples.

    Attributes
    ----------
    n_classes_, input_, class_names_, feature_names_in_
        What `fit` was given.
    calibrator_
        Temperature scaling of the source samples.
    source_accuracy_, n_source_
        Accuracy on source samples, and their number.
    source_value_, value_variance_, error_variance_
        Of source samples: the estimate; the variance over samples of the numbers whose mean it is;
        the variance over samples of their error.
    relative_error_
        Error of the estimate, per unit of its fall below `source_value_`.
    domain_errors_
        Estimate minus accuracy on the domains of the fit, except the source. No domain is used for
        its own estimate.
    """

    name: ClassVar[str]
    """The registered short name."""
    title: ClassVar[str]
    reference: ClassVar[str]
    summable: ClassVar[bool] = True
    """Windows have `statistics`, which add up."""
    assumes_source_prior: ClassVar[bool] = False
    """Wrong for windows with other class frequencies."""
    min_window: ClassVar[int] = 32
    """For smaller windows other estimators are better."""
    needs_classes: ClassVar[bool] = False
    """Not possible with ``input="confidence"``."""
    requires_second_logits: ClassVar[bool] = False
    """`estimate` needs the logits of a second network for the same samples."""
    default_relative_error: ClassVar[float]
    """`relative_error_` without domains: that of the shipped networks, rounded up."""

    n_classes_: int = field(init=False)
    input_: str = field(init=False)
    class_names_: tuple[str, ...] | None = field(init=False)
    feature_names_in_: tuple[str, ...] | None = field(init=False)
    calibrator_: TemperatureScaling = field(init=False)
    source_accuracy_: float = field(init=False)
    n_source_: int = field(init=False)
    source_value_: float = field(init=False)
    value_variance_: float = field(init=False)
    error_variance_: float = field(init=False)
    relative_error_: float = field(init=False)
    domain_errors_: FloatArray = field(init=False)

    @abstractmethod
    def _values(self, p: FloatArray, second_logits: FloatArray | None = None) -> Array:
        """Return a number for each sample; their mean is the estimated accuracy.

        `p` has shape (n_samples, n_classes), or (n_samples, 1) with ``input="confidence"``.
        """

    def _fit(self, p: FloatArray, y: IntArray) -> None:
        """Set the fitted numbers of the method from source samples."""

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        input: str = "logits",
        domain: Any = None,
        source_domain: Any = None,
    ) -> Self:
        """Fit on held-out labelled samples and return self.

        Parameters
        ----------
        X
            Shape (n_samples, n_classes): array, tensor or DataFrame. One column for a binary score.
        y
            Class indices, or names that are columns of X. OOD samples (-1) are left out.
        input
            What X is: "logits", "proba", "log_proba", "score" or, for AC, DoC and ATC,
            "confidence"; then y is whether the prediction was right.
        domain
            Labels of the domains that samples come from. With domains, intervals have the error
            measured on them.
        source_domain
            The label of the in-distribution domain. Default: 0 or "source".
        """
        samples = validation.check_samples(
            X, y, input=input, domain=domain, source_domain=source_domain
        )
        self.fit_samples(samples, input=input)
        for message in (*samples.warnings, *self._source_warnings()):
            validation.warn(f"{type(self).__name__}: {message}")
        return self

    def fit_samples(self, samples: validation.Samples, *, input: str = "logits") -> Self:
        """Fit on checked samples and return self."""
        if input == "confidence" and self.needs_classes:
            raise InputError(
                f"input must have classes for {type(self).__name__}, got 'confidence'. Try ATC.",
                "input",
            )
        self._check_options()
        self.input_, self.n_classes_ = input, samples.n_classes
        self.class_names_, self.feature_names_in_ = samples.class_names, samples.feature_names
        samples = _repeated(samples.subset(~samples.is_ood))
        source = samples.subset(samples.is_source)
        self.calibrator_ = TemperatureScaling().fit_samples(source, input=input)
        p = self._proba_of(source)
        correct = self._correct(p, source)
        self.source_accuracy_, self.n_source_ = float(correct.mean()), len(source)
        self._fit(p, source.y)
        self._fit_errors(p, correct, samples)
        return self

    def statistics(self, window: Any, *, second_logits: Any = None) -> AccuracyStatistics:
        """Return statistics of a window, which can be added and passed to `estimate`.

        Raises
        ------
        InputError
            If the estimator needs all samples of a window together (`summable` is False).
        """
        if not self.summable:
            raise InputError(
                f"{type(self).__name__} has no statistics: it needs all samples of a window"
                " together. Try estimate(window), or ATC.",
                "window",
            )
        return self._statistics(window, second_logits)

    def estimate(self, window: Any, *, second_logits: Any = None) -> AccuracyEstimate:
        """Return the estimated accuracy on a window, given as samples X or as statistics.

        Parameters
        ----------
        window
            Unlabelled samples of the kind given to `fit`, or `AccuracyStatistics`.
        second_logits
            Outputs of a second network for the same samples, for GDE.
        """
        self.check_is_fitted()
        if not isinstance(window, AccuracyStatistics):
            window = self._statistics(window, second_logits)
        if window.estimator != self.name or window.n_samples < 1:
            raise InputError(
                f"window must be samples or statistics of {self.name!r} with at least one sample,"
                f" got statistics of {window.estimator!r} with {window.n_samples}.",
                "window",
            )
        n = window.n_samples
        value = min(max(window.total / n, 0.0), 1.0)
        below, above = self._margins(value, n)
        return AccuracyEstimate(value, max(value - below, 0.0), min(value + above, 1.0), n)

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` was called."""
        return hasattr(self, "domain_errors_")

    def check_is_fitted(self) -> None:
        """Raise NotFittedError unless `fit` was called."""
        if not self.is_fitted:
            raise NotFittedError(f"{type(self).__name__} is not fitted; call fit(X, y) first.")

    def check_loaded(self) -> None:
        """Raise ValueError unless an estimator read from a file can be used."""
        shape = (1,) if self.input_ in ONE_COLUMN else (1, self.n_classes_)
        sample = np.full(shape, 1 / self.n_classes_)
        found = self.estimate(sample, second_logits=sample)
        if not np.isfinite([found.value, found.low, found.high]).all():
            raise ValueError("its estimates are not finite")

    def _source_warnings(self) -> list[str]:
        """Return warnings about source samples."""
        if self.source_accuracy_ == 1:
            return [
                "no source sample is misclassified. Are these samples of the training set? Try"
                " held-out samples."
            ]
        chance = 4 * np.sqrt(self.error_variance_ / self.n_source_)
        if abs(self.source_value_ - self.source_accuracy_) <= max(chance, _LARGE_ERROR):
            return []
        return [
            f"the estimate for the source samples is {self.source_value_:.3f}, their accuracy"
            f" {self.source_accuracy_:.3f}; other estimates have at least this error. Try ATC."
        ]

    def _check_window(self, p: FloatArray) -> None:
        """Warn if a window contradicts an assumption of the method."""

    def _check_options(self) -> None:
        """Raise InputError if an option has a value that is not allowed."""

    def _proba_of(self, samples: validation.Samples) -> FloatArray:
        p = in_blocks(partial(self.calibrator_.formula, np_compat), samples.logits)
        return p[:, 1:] if self.input_ == "confidence" else p

    def _correct(self, p: FloatArray, samples: validation.Samples) -> Any:
        return samples.y == (1 if self.input_ == "confidence" else p.argmax(axis=1))

    def _checked(self, X: Any) -> FloatArray:
        validation.check_column_names(X, self.feature_names_in_)
        x = validation.check_input(validation.in_memory(X), self.input_, n_classes=self.n_classes_)
        return x.astype(np.float64)

    def _statistics(self, window: Any, second_logits: Any) -> AccuracyStatistics:
        self.check_is_fitted()
        x, second = self._checked(window), []
        if self.requires_second_logits:
            if second_logits is None:
                raise InputError(
                    f"second_logits must be given to {type(self).__name__}.", "second_logits"
                )
            checked = self._checked(second_logits)
            second = [to_logits(np, checked, self.input_, self.calibrator_.eps_)]
            if len(second[0]) != len(x):
                raise InputError(
                    f"second_logits must have {len(x)} samples, got {len(second[0])}.",
                    "second_logits",
                )

        def proba(block: FloatArray) -> Any:
            return self.calibrator_.probabilities(np_compat, block).reshape(len(block), -1)

        if self.summable:
            values = in_blocks(lambda block, *more: self._values(proba(block), *more), x, *second)
        else:
            p = in_blocks(proba, x)
            self._check_window(p)
            values = self._values(p, *second)
        return AccuracyStatistics(self.name, len(x), float(values.sum()))

    def _fit_errors(self, p: FloatArray, correct: Any, samples: validation.Samples) -> None:
        """Set the sampling error from source samples, and the error under shift from domains."""
        values = self._values(p)
        self.source_value_ = float(values.mean())
        self.value_variance_ = float(values.var())
        self.error_variance_ = float((values - correct).var())
        errors, squared_errors, squared_falls = [], 0.0, 0.0
        domain = np.zeros(len(samples)) if samples.domain is None else samples.domain
        for d in range(1, samples.n_domains):
            shifted = samples.subset(np.asarray(domain == d))
            p, n = self._proba_of(shifted), len(shifted)
            value = float(self._values(p).mean())
            errors.append(value - float(self._correct(p, shifted).mean()))
            squared_errors += max(errors[-1] ** 2 - self._sampling_variance(value, n), 0.0)
            squared_falls += self._squared_fall(value, n)
        self.domain_errors_ = np.array(errors)
        default = self.default_relative_error**2
        measured = squared_errors / squared_falls if squared_falls > 0 else default
        weight = _DEFAULT_DOMAINS / (_DEFAULT_DOMAINS + len(errors))
        self.relative_error_ = float(np.sqrt(weight * default + (1 - weight) * measured))

    def _sampling_variance(self, value: float, n: int) -> float:
        """Return the variance of the error from sampling the window and the source."""
        a, least = self.source_accuracy_, 1 / (self.n_source_ + 4)
        v = min(value + float(np.sqrt(self.value_variance_ / n)), a)  # a fall beyond noise
        ratio = max(1.0, v * (1 - v) / max(a * (1 - a), least))
        return max(self.error_variance_, least) * ratio * (1 / n + 1 / self.n_source_)

    def _squared_fall(self, value: float, n: int) -> float:
        """Return the squared difference to the source estimate, beyond sampling noise."""
        chance = self.value_variance_ * (1 / n + 1 / self.n_source_)
        return max((self.source_value_ - value) ** 2 - chance, 0.0)

    def _margins(self, value: float, n: int) -> tuple[float, float]:
        """Return how far the interval reaches below and above the estimate."""
        variance = self._sampling_variance(value, n)
        # The error on source samples, beyond noise.
        bias = self.source_value_ - self.source_accuracy_
        variance += max(bias**2 - self.error_variance_ / self.n_source_, 0.0)
        variance += self.relative_error_**2 * self._squared_fall(value, n)
        margin = _Z * float(np.sqrt(variance))
        return margin, margin


def _repeated(samples: validation.Samples) -> validation.Samples:
    """Return samples of weight 1: estimators count samples, so a weight of 2 repeats a sample."""
    counts = samples.weight.astype(np.int64)
    if (counts != samples.weight).any():
        raise InputError(
            "sample_weight must be whole numbers for an accuracy estimator.", "sample_weight"
        )
    repeated = samples.take(np.repeat(np.arange(len(samples)), counts))
    return replace(repeated, weight=np.ones(len(repeated)))


def get_estimator(name: str, **options: Any) -> AccuracyEstimator:
    """Return an unfitted accuracy estimator by its name.

    Examples
    --------
    >>> get_estimator("atc-mc")
    ATC(score='confidence')
    """
    if name not in ESTIMATORS:
        raise InputError(
            f"Unknown estimator {name!r}. Try one of {', '.join(ESTIMATORS)}.", "estimator"
        )
    place, defaults = ESTIMATORS[name]
    estimator: AccuracyEstimator = import_class(place)(**{**defaults, **options})
    return estimator
