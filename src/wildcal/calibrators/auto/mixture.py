"""The weights of a mixture, by the likelihood of rows its members had not seen."""

import numpy as np

from wildcal.core.arrays import FloatArray

_STEPS = 200
_STILL = 1e-7
# Rows that the identity is worth while nothing is known, and when all is.
MOST_BELIEF, LEAST_BELIEF = 5.0, 0.5
# Standard errors that the gain of a mixture must be above zero before the belief fades.
_SURE = 3.0


def safe_weights(log_proba: FloatArray, row_weight: FloatArray) -> FloatArray:
    """Return the weights of the members, with a belief in the identity that fades with evidence.

    The evidence is the gain of the careful mixture on rows that its members had not seen, in
    standard errors t: the belief is 5 rows up to t = 3, and 5 (3 / t)² rows beyond it.

    Parameters
    ----------
    log_proba
        Log probability that each member gave to the true class of rows it was not fitted on,
        shape (rows, members); member 0 is the identity.
    """
    careful = mixture_weights(log_proba, row_weight, MOST_BELIEF)
    sureness = _sureness(np.log(np.exp(log_proba) @ careful) - log_proba[:, 0], row_weight)
    if sureness <= _SURE:
        return careful
    belief = MOST_BELIEF * (_SURE / sureness) ** 2
    return mixture_weights(log_proba, row_weight, max(belief, LEAST_BELIEF))


def _sureness(gain: FloatArray, row_weight: FloatArray) -> float:
    """Return the mean gain in standard errors of it; a row of weight 2 is two rows."""
    total = row_weight.sum()
    mean = row_weight @ gain / total
    error = np.sqrt(row_weight @ np.square(gain - mean)) / total
    return float(mean / max(error, 1e-12))


def mixture_weights(log_proba: FloatArray, row_weight: FloatArray, prior: float) -> FloatArray:
    """Return w on the simplex that maximizes sum_i log sum_m w_m p_im + prior log w_0.

    Member 0 is the identity: with n rows its weight is at least prior / (n + prior). Expectation
    maximization from equal weights; each step raises the objective.

    Examples
    --------
    >>> mixture_weights(np.log([[0.5, 0.9]] * 20), np.ones(20), prior=5.0).round(2)
    array([0.45, 0.55])
    """
    p = np.exp(log_proba - log_proba.max(axis=1, keepdims=True))
    w = np.full(p.shape[1], 1 / p.shape[1])
    for _ in range(_STEPS):
        share = p * w
        counts = row_weight @ (share / share.sum(axis=1, keepdims=True))
        counts[0] += prior
        before, w = w, counts / counts.sum()
        if np.abs(w - before).max() < _STILL:
            break
    return np.asarray(w)
