"""The weights of a mixture, by the likelihood of rows its members had not seen."""

import numpy as np

from wildcal.core.arrays import FloatArray

_STEPS = 200


def mixture_weights(log_proba: FloatArray, row_weight: FloatArray, prior: float) -> FloatArray:
    """Return w on the simplex that maximizes sum_i log sum_m w_m p_im + prior log w_0.

    Member 0 is the identity: with n rows its weight is at least prior / (n + prior). Expectation
    maximization from equal weights; each step raises the objective.

    Parameters
    ----------
    log_proba
        Log probability that each member gave to the true class of rows it was not fitted on,
        shape (rows, members).

    Examples
    --------
    >>> mixture_weights(np.log([[0.5, 0.9]] * 20), np.ones(20), prior=5.0).round(2)
    array([0.2, 0.8])
    """
    p = np.exp(log_proba - log_proba.max(axis=1, keepdims=True))
    w = np.full(p.shape[1], 1 / p.shape[1])
    for _ in range(_STEPS):
        share = p * w
        counts = row_weight @ (share / share.sum(axis=1, keepdims=True))
        counts[0] += prior
        w = counts / counts.sum()
    return np.asarray(w)
