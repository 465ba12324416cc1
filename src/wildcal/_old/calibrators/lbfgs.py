"""L-BFGS for losses whose Hessian is too large or too tangled to be built."""

from collections.abc import Callable

import numpy as np

from wildcal._old.core.arrays import FloatArray
from wildcal._old.core.one_thread import one_thread
from wildcal._old.core.optimize import Solution

# Of a gradient, where the loss and the parameters are of order one.
_SMALL = 1e-4


def minimize_lbfgs(
    objective: Callable[[FloatArray], tuple[float, FloatArray]],
    start: FloatArray,
    *,
    exact: bool,
    max_iter: int,
) -> Solution:
    """Return a local minimum of a smooth function given with its gradient.

    `exact` says that values and gradients carry the rounding of float64 rather than of float32;
    below that rounding there is nothing to find, and a line search that ends there has converged.
    """
    from scipy.optimize import minimize  # here: predicting, and `import wildcal`, need no solver

    options = {
        "maxiter": max_iter,
        "maxfun": 2 * max_iter,
        "maxcor": 20,
        "ftol": 1e-14 if exact else 1e-9,
        "gtol": 1e-9 if exact else 1e-7,
    }
    with one_thread():  # again: SciPy's linear algebra came with the import
        result = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    return Solution(
        np.asarray(result.x),
        float(result.fun),
        np.asarray(result.jac),
        int(result.nit),
        # 1: out of iterations. 2: the line search found nothing, as it does at the rounding.
        result.status == 0 or bool(result.status == 2 and np.abs(result.jac).max() < _SMALL),
        str(result.message),
    )
