"""The weights of a mixture, by the likelihood of rows its members had not seen."""

import numpy as np

from wildcal.core.arrays import BoolArray, FloatArray

_STEPS = 200
_STILL = 1e-7
_LEAST_PROBA = 1e-12
# Rows that the identity is worth: to begin with, while nothing is known, and when all is.
BELIEF, MOST_BELIEF, LEAST_BELIEF = 5.0, 7.5, 0.5
# Standard errors above zero at which the gain of a mixture leaves the belief as it is.
_SURE = 3.0
# Those above zero at which one mixture is taken for better than another.
BETTER = 2.0


def safe_weights(log_proba: FloatArray, row_weight: FloatArray, right: BoolArray) -> FloatArray:
    """Return the weights of the members, with a belief in the identity that fades with evidence.

    The evidence is the gain of the mixture with a belief of 5 rows on rows that its members had not
    seen, in standard errors t: the belief is then 5 (3 / t)² rows, from 0.5 to 7.5.

    Parameters
    ----------
    log_proba
        Log probability that each member gave to the true class of rows it was not fitted on,
        shape (rows, members); member 0 is the identity.
    right
        Whether the network was right on each of them.
    """
    log_proba, row_weight = _with_one_mistake(log_proba, row_weight, right)
    first = mixture_weights(log_proba, row_weight, BELIEF)
    t = sureness(log_mixture(log_proba, first) - log_proba[:, 0], row_weight)
    belief = BELIEF * (_SURE / t) ** 2 if t > 0 else MOST_BELIEF
    return mixture_weights(log_proba, row_weight, min(max(belief, LEAST_BELIEF), MOST_BELIEF))


def _with_one_mistake(
    log_proba: FloatArray, row_weight: FloatArray, right: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Return rows and their weights with one more mistake among them, where the network doubts.

    Where no row is wrong, every member that is surer than the network gains on every row, and no
    spread of the gains warns of it. So the right rows count once more as mistakes, with the weight
    of one row in all, each by the network's own doubt 1 - p.
    """
    proba = np.exp(log_proba[right])
    doubt = row_weight[right] * (1 - proba[:, 0])
    if not doubt.sum() > 0:
        return log_proba, row_weight
    others = np.log(np.maximum(1 - proba, _LEAST_PROBA))
    return np.vstack([log_proba, others]), np.append(row_weight, doubt / doubt.sum())


def log_mixture(log_proba: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the log probability that a mixture gives to each true class."""
    return np.asarray(np.log(np.exp(log_proba) @ weights))


def sureness(gain: FloatArray, row_weight: FloatArray) -> float:
    """Return the mean gain in standard errors of it; a row of weight 2 is two rows."""
    total = row_weight.sum()
    mean = row_weight @ gain / total
    error = np.sqrt(row_weight @ np.square(gain - mean)) / total
    return float(mean / max(error, 1e-12))


def mixture_weights(log_proba: FloatArray, row_weight: FloatArray, prior: float) -> FloatArray:
    """Return w on the simplex that nearly maximizes sum_i log sum_m w_m p_im + prior log w_0.

    Member 0 is the identity: with n rows its weight is at least prior / (n + prior). At most 200
    steps of expectation maximization from equal weights; each raises the objective.

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
