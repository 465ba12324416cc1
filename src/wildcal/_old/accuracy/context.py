"""Mean confidence of context scaling, which reads the window it is asked about."""

from dataclasses import dataclass, field
from typing import Final, final

import numpy as np

from wildcal._old.accuracy.estimator import AccuracyEstimator, Reading
from wildcal._old.accuracy.rows import Rows, by_pieces, confidence
from wildcal._old.calibrators.context import ContextScaling
from wildcal._old.core.arrays import FloatArray, Labels, Logits
from wildcal._old.core.stored import Nested, stored

_DRAWS: Final = 30
_MOST_DRAWN: Final = 2000


@final
@dataclass(kw_only=True, eq=False)
class ContextConfidence(AccuracyEstimator):
    """The mean confidence of `wildcal.ContextScaling` on the window, in the context of the window.

    Context scaling learns from environments how a window's statistics move the temperature, so that
    mean confidence and accuracy agree; without any it has numbers that come with wildcal. Each
    row's confidence depends on the whole window, which is why parts of a window cannot be merged;
    `wildcal.Stream` does it row by row.
    """

    name = "context"
    title = "mean confidence of context scaling"
    reference = "context scaling of wildcal 0.1"
    assumes_clean_class_mix = False
    smallest_window = 1
    mergeable = False
    usual_error = 0.35
    learns_from_environments = True
    shift_invariant = ContextScaling.shift_invariant

    calibrator_: ContextScaling = field(
        init=False, repr=False, metadata=stored(Nested(ContextScaling.name))
    )

    def _learn(self, rows: Rows) -> None:
        self._relearn(rows)

    def _relearn(self, rows: Rows) -> None:
        self.calibrator_ = ContextScaling().fit(rows.logits, rows.y, environment=rows.environment)

    def _read(self, logits: Logits, second: Logits | None) -> Reading:
        return Reading(self._mean_confidence(logits), self._bootstrap(logits))

    def _read_quickly(self, logits: Logits, second: Logits | None) -> Reading:
        return Reading(self._mean_confidence(logits), 0.0)

    def _mean_confidence(self, logits: Logits) -> float:
        around = self.calibrator_.context(logits)
        return float(
            np.asarray(self.calibrator_.confidence(logits, context=around), np.float64).mean()
        )

    def _bootstrap(self, logits: Logits) -> float:
        """Return the variance of the mean when rows are drawn anew: the context moves with them.

        Rows are drawn from a fixed seed after sorting, so their order does not matter. Of a large
        window some thousand are drawn; the variance falls as one over the rows.
        """
        logits = logits[_order(logits)]
        n = min(len(logits), _MOST_DRAWN)
        rng = np.random.default_rng(0)
        values = [
            self._mean_confidence(logits[rng.integers(0, len(logits), n)]) for _ in range(_DRAWS)
        ]
        return float(np.var(values, ddof=1)) * n / len(logits)

    def _check_fitted(self) -> None:
        super()._check_fitted()
        if self.calibrator_.n_classes_ != self.n_classes_:
            raise ValueError("the calibrator must be of as many classes")

    def _describe(self) -> list[str]:
        return self.calibrator_.describe()


def _order(logits: Logits) -> Labels:
    """Return an order of rows in which a constant added to a row changes nothing.

    Rows that rounding may swap are equally confident, so that it hardly matters.
    """
    keys = by_pieces(logits, _keys)
    return np.lexsort((logits.argmax(axis=1), *keys.T))


def _keys(logits: FloatArray) -> FloatArray:
    """Return the sum of each row below its largest entry, and the row's confidence."""
    below = logits - logits.max(axis=1, keepdims=True)
    total = below.sum(axis=1, where=~np.isneginf(below))
    return np.column_stack([total, confidence(logits, 1.0)])
