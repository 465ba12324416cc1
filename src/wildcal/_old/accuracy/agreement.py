"""GDE: two networks agree as often as they are right."""

from dataclasses import dataclass
from typing import final

import numpy as np

from wildcal._old.accuracy.means import MeanEstimator
from wildcal._old.core.arrays import FloatArray


@final
@dataclass(kw_only=True, eq=False)
class Agreement(MeanEstimator):
    """GDE: the share of rows to which two networks give the same class.

    It holds for two runs of one architecture that are well calibrated together. Two architectures
    are a variant of it. `fit` and `estimate` take the logits of the other network as `second`.

    Examples
    --------
    >>> first, other = np.array([[2.0, 0]] * 4), np.array([[3.0, 0], [0, 3.0]] * 2)
    >>> estimator = Agreement().fit(first, np.array([0, 0, 0, 1]), second=other)
    >>> estimator.estimate(first, other).value
    0.5
    """

    name = "gde"
    title = "generalization disagreement equality"
    reference = "Jiang et al., ICLR 2022"
    assumes_clean_class_mix = False
    smallest_window = 32
    usual_error = 0.8
    needs_second = True

    def _row_values(self, logits: FloatArray, second: FloatArray | None) -> FloatArray:
        assert second is not None  # the door asked for it
        return np.asarray(logits.argmax(axis=1) == second.argmax(axis=1), np.float64)
