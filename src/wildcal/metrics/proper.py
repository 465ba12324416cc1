"""Accuracy, mean confidence and proper scores: means over samples."""

from typing import Any

import numpy as np

from wildcal.core.arrays import FloatArray
from wildcal.metrics._scores import Scores, check_scores, mean, measure


def accuracy(y: Any, proba: Any, *, sample_weight: Any = None) -> float:
    """Return the fraction of samples whose predicted class is the label.

    Parameters
    ----------
    y, proba
        Labels (n,) and probabilities (n, K), or booleans (n,), whether the prediction was right,
        and confidences (n,). Samples with y = -1 (OOD) count as wrong.
    sample_weight
        Counts (n,): a weight of 2 is equivalent to repeating the sample.

    Examples
    --------
    >>> accuracy([0, 1, 1, -1], np.array([[0.8, 0.2], [0.3, 0.7], [0.6, 0.4], [0.9, 0.1]]))
    0.5
    """
    return measure(compute_accuracy, y, proba, sample_weight)


def mean_confidence(y: Any, proba: Any, *, sample_weight: Any = None) -> float:
    """Return the mean probability of the predicted class. Parameters as in `accuracy`.

    Examples
    --------
    >>> mean_confidence([-1, -1], np.array([[0.75, 0.25], [0.5, 0.5]]))
    0.625
    """
    return measure(compute_mean_confidence, y, proba, sample_weight)


def nll(y: Any, proba: Any, *, sample_weight: Any = None) -> float:
    """Return the negative log-likelihood in nats (log loss, cross-entropy), a mean over samples.

    A probability of 0 for the label counts as 1e-34, which costs 78.3.

    Parameters
    ----------
    y, proba
        Labels (n,) and probabilities (n, K). Samples with y = -1 (OOD) are left out.
    sample_weight
        Counts (n,).

    Examples
    --------
    >>> round(nll([0, 1], np.array([[0.5, 0.5], [0.75, 0.25]])), 6)  # log(2 * 4) / 2
    1.039721
    """
    return measure(compute_nll, y, proba, sample_weight, ood=False)


def brier_score(y: Any, proba: Any, *, sample_weight: Any = None) -> float:
    """Return the Brier score: the sum over classes of (p_k - [y = k])^2, a mean over samples.

    It lies in [0, 2]. scikit-learn's `brier_score_loss` for two classes is half of it. Parameters
    as in `nll`.

    References
    ----------
    Brier (1950), "Verification of forecasts expressed in terms of probability".

    Examples
    --------
    >>> brier_score([0, 1], np.array([[0.5, 0.5], [1.0, 0.0]]))  # (0.25 + 0.25 + 1 + 1) / 2
    1.25
    """
    return measure(compute_brier_score, y, proba, sample_weight, ood=False)


def top_label_brier(y: Any, proba: Any, *, sample_weight: Any = None) -> float:
    """Return the mean of (confidence - correct)^2. Parameters as in `accuracy`.

    Examples
    --------
    >>> top_label_brier(np.array([True, False]), np.array([0.5, 0.5]))
    0.25
    """
    return measure(compute_top_label_brier, y, proba, sample_weight)


def nll_per_sample(y: Any, proba: Any) -> FloatArray:
    """Return the negative log-likelihood of each sample with y >= 0.

    Examples
    --------
    >>> nll_per_sample([0, -1], np.array([[1.0, 0.0], [0.5, 0.5]])) + 0
    array([0.])
    """
    scores = check_scores(y, proba)
    return scores.log_loss[~scores.is_ood]


def brier_per_sample(y: Any, proba: Any) -> FloatArray:
    """Return the Brier score of each sample with y >= 0.

    Examples
    --------
    >>> brier_per_sample([0, -1, 1], np.array([[0.5, 0.5], [0.5, 0.5], [1.0, 0.0]]))
    array([0.5, 2. ])
    """
    scores = check_scores(y, proba)
    return scores.squared_error[~scores.is_ood]


def top_label_brier_per_sample(y: Any, proba: Any) -> FloatArray:
    """Return (confidence - correct)^2 of each sample.

    Examples
    --------
    >>> top_label_brier_per_sample(np.array([True, False]), np.array([0.5, 1.0]))
    array([0.25, 1.  ])
    """
    return np.asarray(check_scores(y, proba).gap ** 2)


def compute_accuracy(scores: Scores, weights: FloatArray, *, n_bins: int = 15) -> Any:
    """See `accuracy`."""
    return mean(scores.correct.astype(np.float64), weights)


def compute_mean_confidence(scores: Scores, weights: FloatArray, *, n_bins: int = 15) -> Any:
    """See `mean_confidence`."""
    return mean(scores.confidence, weights)


def compute_nll(scores: Scores, weights: FloatArray, *, n_bins: int = 15) -> Any:
    """See `nll`."""
    return mean(scores.log_loss, weights)


def compute_brier_score(scores: Scores, weights: FloatArray, *, n_bins: int = 15) -> Any:
    """See `brier_score`."""
    return mean(scores.squared_error, weights)


def compute_top_label_brier(scores: Scores, weights: FloatArray, *, n_bins: int = 15) -> Any:
    """See `top_label_brier`."""
    return mean(scores.gap**2, weights)
