"""The rows of each environment."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.arrays import Labels

CLEAN_WEIGHT: Final = 1.0
SHIFTED_WEIGHT: Final = 5.0
"""Of all shifted environments together, so that more of them do not drown the clean one."""
OOD_WEIGHT: Final = 0.1
"""Of all environments of other classes together."""
# A window of n rows is believed n / (n + this).
PRIOR_ROWS: Final = 4.0


def rows_of_each(environment: Labels) -> dict[int, NDArray[np.intp]]:
    """Return the rows of each environment in their order, sorted once for however many there are.

    >>> rows_of_each(np.array([2, 0, 2]))
    {0: array([1]), 2: array([0, 2])}
    """
    order = np.argsort(environment, kind="stable")
    numbers, first = np.unique(environment[order], return_index=True)
    return dict(zip(numbers.tolist(), np.split(order, first[1:]), strict=True))
