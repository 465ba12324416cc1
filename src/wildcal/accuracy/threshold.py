"""ATC: the share of samples whose score is above a threshold (Garg et al., 2022)."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from wildcal.accuracy.base import AccuracyEstimator
from wildcal.core.arrays import Array, FloatArray, IntArray, fit_threshold, share_above
from wildcal.core.validation import check_choice


@dataclass(kw_only=True, eq=False, repr=False)
class ATC(AccuracyEstimator):
    """Average thresholded confidence: the share of samples with a score of at least t.

    t is the (k + 1)-th smallest score of the source samples, k of which are misclassified. So the
    estimate for the source samples is their accuracy.

    Parameters
    ----------
    score
        "entropy": sum of p log p. "confidence": the largest p, which saturates and ties.

    Attributes
    ----------
    threshold_
        t, less rounding.
    tie_share_
        What a sample with a score of t counts, below 1 if many source samples have it.

    Notes
    -----
    The authors' script fits a temperature and does not apply it, and its threshold is that of the
    sample before. This is the formula of the paper.

    Examples
    --------
    >>> logits, y = np.array([[3.0, 0.0], [2.0, 0.0], [1.0, 0.0], [0.5, 0.0]]), [0, 0, 0, 1]
    >>> ATC().fit(logits, y).estimate([[4.0, 0.0], [0.0, 0.2]]).value
    0.5
    """

    title = "average thresholded confidence"
    reference = "Garg et al., ICLR 2022"
    default_relative_error = 0.35

    score: Literal["entropy", "confidence"] = "entropy"
    threshold_: float = field(init=False)
    tie_share_: float = field(init=False, default=1.0)

    @property
    def name(self) -> str:  # type: ignore[override]
        """The registered short name."""
        return "atc-ne" if self.score == "entropy" else "atc-mc"

    def _check_options(self) -> None:
        check_choice("score", self.score, ("entropy", "confidence"))

    def _fit(self, p: FloatArray, y: IntArray) -> None:
        self.threshold_, self.tie_share_ = fit_threshold(self._scores(p), self.source_accuracy_)

    def _scores(self, p: FloatArray) -> Array:
        if self.score == "confidence" or p.shape[1] == 1:
            return p.max(axis=1)
        return (p * np.log(np.maximum(p, 1e-300))).sum(axis=1)

    def _values(self, p: FloatArray, second_logits: FloatArray | None = None) -> Array:
        return share_above(self._scores(p), self.threshold_, self.tie_share_)
