"""COT and COTT: confidence if the classes were as frequent as in the source (Lu et al., 2023)."""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from wildcal.accuracy.base import AccuracyEstimator
from wildcal.accuracy.transport import transport_prices
from wildcal.core.arrays import Array, FloatArray, IntArray, fit_threshold, share_above
from wildcal.core.validation import warn

# Samples that change their predicted class, per unit of lost confidence: the largest value of the
# shipped networks under corruptions is 1.85.
_SLOPE: Final = 2.0
# Probability of a warning for a window with the class frequencies of the source.
_FALSE_WARNINGS: Final = 0.01
# Costs of equal samples differ by rounding.
_ROUNDING: Final = 1e-6


@dataclass(kw_only=True, eq=False, repr=False)
class COT(AccuracyEstimator):
    """Confidence optimal transport.

    The largest mean of p[i, y_i] over all labels y whose class frequencies are those of the source.
    A network that errs predicts some classes too often, which confidence does not show.

    Attributes
    ----------
    prior_
        Class frequencies of the source labels.
    source_counts_, source_confidence_, confidence_std_
        Of source samples: predictions of each class; mean and standard deviation of the confidence.

    Notes
    -----
    Wrong for windows with other class frequencies, and too low for windows of few samples. A
    warning is given where predicted classes contradict the source frequencies. It cannot be given
    for every such window.

    Examples
    --------
    >>> logits, y = np.array([[2.0, 0.0], [0.0, 2.0]] * 2), np.array([0, 1, 0, 0])
    >>> estimator = COT().fit(logits, y)
    >>> estimator.prior_
    array([0.75, 0.25])
    >>> round(estimator.estimate(logits).value, 4)  # (2 * 0.75 + 0.75 + 0.25) / 4
    0.625
    """

    name = "cot"
    title = "confidence optimal transport"
    reference = "Lu et al., NeurIPS 2023"
    needs_classes = True
    summable = False
    assumes_source_prior = True
    min_window = 512
    default_relative_error = 0.2

    prior_: FloatArray = field(init=False)
    source_counts_: IntArray = field(init=False)
    source_confidence_: float = field(init=False)
    confidence_std_: float = field(init=False)

    def _fit(self, p: FloatArray, y: IntArray) -> None:
        self.prior_ = np.bincount(y, minlength=p.shape[1]) / len(y)
        self.source_counts_ = np.bincount(p.argmax(axis=1), minlength=p.shape[1])
        confidence = p.max(axis=1)
        self.source_confidence_ = float(confidence.mean())
        self.confidence_std_ = float(confidence.std())

    def _values(self, p: FloatArray, second_logits: FloatArray | None = None) -> Array:
        price = transport_prices(p, self.prior_)
        used = self.prior_ > 0
        return (p - price).max(axis=1) + self.prior_[used] @ price[used]

    def _check_window(self, p: FloatArray) -> None:
        """Warn if the predicted classes contradict the class frequencies of the source."""
        n, n_source = len(p), self.n_source_
        source = self.source_counts_ / n_source
        distance = np.abs(np.bincount(p.argmax(axis=1), minlength=len(source)) / n - source).sum()
        # Jensen's inequality bounds the expected distance, McDiarmid's the deviation from it.
        chance = 0.5 * np.sqrt(source * (1 - source) * (1 / n + 1 / n_source)).sum()
        chance += np.sqrt(np.log(1 / _FALSE_WARNINGS) / (2 * n))
        fall = self.source_confidence_ - p.max(axis=1).mean()
        explained = _SLOPE * max(0.0, fall + 1.64 * self.confidence_std_ / np.sqrt(n))
        if distance / 2 > chance + explained:
            warn(
                f"{type(self).__name__}: the predicted classes contradict the class frequencies of"
                " the source, so the estimate is wrong if the window has other class frequencies."
                " Try ATC.",
                level=5,
            )

    def _margins(self, value: float, n: int) -> tuple[float, float]:
        below, above = super()._margins(value, n)
        # Bounds the loss of confidence from sampling noise of the class frequencies.
        spread = np.sqrt(self.prior_ * (1 - self.prior_) * (1 / n + 1 / self.n_source_)).sum()
        cost = spread / np.sqrt(2 * np.pi) * max(2 * self.source_confidence_ - 1, 0.0)
        return below, above + float(cost)


@dataclass(kw_only=True, eq=False, repr=False)
class COTT(COT):
    """Thresholded confidence optimal transport.

    The share of samples whose cost of transport, 1 - p[i, y_i], is below a threshold. It is the
    cost of the n-th most costly source sample, n of which are misclassified, when the source
    samples are transported to their own labels.

    Attributes
    ----------
    threshold_
        Samples with at least this p[i, y_i] count as right, less rounding.
    tie_share_
        What a sample at the threshold counts, below 1 if many source samples are there.
    """

    name = "cott"
    title = "thresholded confidence optimal transport"

    threshold_: float = field(init=False)
    tie_share_: float = field(init=False, default=1.0)

    def _fit(self, p: FloatArray, y: IntArray) -> None:
        super()._fit(p, y)
        fitted = fit_threshold(self._gains(p), self.source_accuracy_, _ROUNDING)
        self.threshold_, self.tie_share_ = fitted

    def _gains(self, p: FloatArray) -> Array:
        assigned = (p - transport_prices(p, self.prior_)).argmax(axis=1)
        return p[np.arange(len(p)), assigned]

    def _values(self, p: FloatArray, second_logits: FloatArray | None = None) -> Array:
        return share_above(self._gains(p), self.threshold_, self.tie_share_, _ROUNDING)
