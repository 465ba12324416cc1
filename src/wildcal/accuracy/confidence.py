"""Mean confidence, and its difference to that of source samples: AC and DoC."""

from dataclasses import dataclass, field

from wildcal.accuracy.base import AccuracyEstimator
from wildcal.core.arrays import Array, FloatArray, IntArray


@dataclass(kw_only=True, eq=False, repr=False)
class AC(AccuracyEstimator):
    """Average confidence: the mean of the largest probability.

    Under shift most networks stay too confident, and the estimate is too high.

    Examples
    --------
    >>> import numpy as np
    >>> logits, y = np.array([[3.0, 0.0]] * 4), np.array([0, 0, 0, 1])
    >>> round(AC().fit(logits, y).estimate(logits).value, 6)
    0.75
    """

    name = "ac"
    title = "average confidence"
    reference = "Hendrycks and Gimpel, ICLR 2017"
    min_window = 1
    default_relative_error = 1.1

    def _values(self, p: FloatArray, second_logits: FloatArray | None = None) -> Array:
        return p.max(axis=1)


@dataclass(kw_only=True, eq=False, repr=False)
class DoC(AccuracyEstimator):
    """Difference of confidence: source accuracy plus the change of the mean confidence.

    Temperature scaling makes source confidence and accuracy nearly equal, so it is close to AC.

    Attributes
    ----------
    difference_
        Accuracy minus mean confidence of source samples.
    """

    name = "doc"
    title = "difference of confidence"
    reference = "Guillory et al., ICCV 2021"
    min_window = 1
    default_relative_error = 1.1

    difference_: float = field(init=False)

    def _fit(self, p: FloatArray, y: IntArray) -> None:
        self.difference_ = self.source_accuracy_ - float(p.max(axis=1).mean())

    def _values(self, p: FloatArray, second_logits: FloatArray | None = None) -> Array:
        return p.max(axis=1) + self.difference_
