"""Optimal transport of samples to classes by its dual, which has one price for each class."""

from typing import Final

import numpy as np
from scipy.optimize import minimize

from wildcal.core.arrays import FloatArray

# Widths of the soft maximum. The last one bounds the error of the value: width * log(n_classes).
_WIDTHS: Final = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
_MAX_ITER: Final = 200


def transport_prices(p: FloatArray, share: FloatArray) -> FloatArray:
    """Return the prices u that minimize mean_i max_k (p_ik - u_k) + sum_k share_k u_k.

    The minimum is the largest mean of p[i, k_i] when every class k is assigned to a given share of
    the samples; sample i is assigned to the class with the largest p_ik - u_k. The value is exact
    to about 1e-4.

    Parameters
    ----------
    p
        Shape (n_samples, n_classes).
    share
        Sum 1, shape (n_classes,).

    Examples
    --------
    >>> p, share = np.array([[0.9, 0.1], [0.8, 0.2]]), np.array([0.5, 0.5])
    >>> u = transport_prices(p, share)
    >>> round(float((p - u).max(axis=1).mean() + share @ u), 4)  # (0.9 + 0.2) / 2
    0.55
    """
    used = share > 0
    p, share = p[:, used], share[used] / share[used].sum()
    u = np.zeros(len(share))

    def dual(u: FloatArray, width: float) -> tuple[float, FloatArray]:
        e = (p - u) / width
        top = e.max(axis=1, keepdims=True)
        np.exp(e - top, out=e)
        total = e.sum(axis=1, keepdims=True)
        value = width * float((np.log(total) + top).mean()) + float(share @ u)
        return value, share - (1 / total[:, 0] / len(p)) @ e

    for width in _WIDTHS:
        options = {"maxiter": _MAX_ITER, "ftol": 1e-9, "gtol": 1e-6}
        u = minimize(dual, u, (width,), method="L-BFGS-B", jac=True, options=options).x
    prices = np.full(len(used), np.inf)  # classes without a share get no sample
    prices[used] = u
    return prices
