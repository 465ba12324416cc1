"""`abstention_threshold`: the confidence above which a model may answer."""

from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from wildcal.core.validation import check_number
from wildcal.metrics._scores import check_scores

# Sequences of tests start with so many times the samples that prove the rate without an error.
_STARTS: Final = (2, 5)
_N_STEPS: Final = 100


@dataclass(frozen=True)
class AbstentionThreshold:
    """A threshold on the confidence. Converts by `float()`."""

    threshold: float
    """Answer at this confidence or above; infinite if no threshold could be certified."""
    coverage: float
    """Fraction of samples that are answered."""
    error_rate: float
    """Of the answered samples; NaN if there are none."""
    error_bound: float
    """Upper bound of the true error rate (exact binomial); 1 if there are none."""
    n_answered: int
    max_error: float
    level: float

    def __float__(self) -> float:
        return self.threshold

    def to_dict(self) -> dict[str, Any]:
        """Return the fields; None for infinite and undefined numbers."""
        return {k: v if np.isfinite(v) else None for k, v in asdict(self).items()}


def abstention_threshold(
    y: ArrayLike, proba: ArrayLike, max_error: float = 0.05, level: float = 0.95
) -> AbstentionThreshold:
    """Return the confidence above which the error rate is at most `max_error`.

    With probability `level` over the labels of these samples, the true error rate of the answered
    samples is at most `max_error`. Candidates are the coverages of 1 %, 2 %, ..., 100 %. They are
    tested from the most confident samples on, by the exact binomial (Clopper-Pearson) bound, until
    the bound exceeds `max_error` (fixed-sequence testing). There are two sequences, starting at 2
    and 5 times the number of samples that prove the rate without an error (59 for the defaults),
    each at half of the error probability.

    Parameters
    ----------
    y, proba
        Labels (n,) and probabilities (n, K), or booleans (n,), whether the prediction was right,
        and confidences (n,). Of calibrated probabilities, on samples that were not used in the fit.
        Samples with y = -1 (OOD) count as errors.
    max_error
        Error rate that is allowed.
    level
        Confidence level of the statement.

    References
    ----------
    Geifman and El-Yaniv (2017), "Selective classification for deep neural networks". Angelopoulos
    et al. (2021), "Learn then test: calibrating predictive algorithms to achieve risk control",
    for fixed-sequence testing.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> confidence = rng.uniform(0.5, 1, 5000)
    >>> found = abstention_threshold(rng.random(5000) < confidence, confidence, max_error=0.1)
    >>> round(found.threshold, 2), round(found.coverage, 2), found.error_bound <= 0.1
    (0.84, 0.33, True)
    """
    from scipy.special import betaincinv

    check_number("max_error", max_error, 1e-6, 1 - 1e-6)
    check_number("level", level, 0.01, 0.9999)
    scores = check_scores(y, proba)
    order = np.argsort(-scores.confidence, kind="stable")
    confidence, errors = scores.confidence[order], np.cumsum(~scores.correct[order])
    n = len(order)
    # Samples of equal confidence are answered together.
    steps = np.unique(np.ceil(np.arange(1, _N_STEPS + 1) / _N_STEPS * n).astype(np.int64))
    ends = np.searchsorted(-confidence, -confidence[steps - 1], side="right")
    alpha = (1 - level) / len(_STARTS)
    n_proof = np.ceil(np.log(alpha) / np.log1p(-max_error))
    best, bound_of_best = 0, 1.0
    for start in _STARTS:
        for m in np.unique(ends[ends >= start * n_proof]):
            k = int(errors[m - 1])
            bound = float(betaincinv(k + 1, m - k, 1 - alpha)) if k < m else 1.0
            if bound > max_error:
                break
            if m > best:
                best, bound_of_best = int(m), bound
    rate = float(errors[best - 1] / best) if best else np.nan
    threshold = float(confidence[best - 1]) if best else np.inf
    return AbstentionThreshold(threshold, best / n, rate, bound_of_best, best, max_error, level)
