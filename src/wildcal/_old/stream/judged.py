"""The two features of a row that drift is judged by, in units of clean rows, and their range."""

from typing import Final

import numpy as np

from wildcal._old.calibrators.context import RowStatistics, WindowMap
from wildcal._old.core.arrays import FloatArray
from wildcal._old.stream.sequential import Bets

# Beyond any logit of a network, and far from where sums overflow.
_FAR: Final = 1e4


def judged(calibrator: WindowMap, rows: RowStatistics) -> FloatArray:
    """Return the two features of each row, shape (2, n)."""
    return calibrator.standardized(rows.features)


def make_bets(calibrator: WindowMap, false_alarms: float) -> Bets:
    """Return the bets of a sequential alarm.

    How far a feature can go is asked of the calibrator: the surest and the least sure row there
    is, with large and with small logits.
    """
    none = np.zeros(calibrator.n_classes_)
    sure = np.where(np.arange(len(none)) == 0, _FAR, 0.0)
    extremes = np.stack([sure, sure - 2 * _FAR, none + _FAR, none - _FAR])
    found = judged(calibrator, calibrator.row_statistics(extremes))
    box = np.stack([found.min(axis=1), found.max(axis=1)])
    return Bets.make(calibrator.clean_correlation_, calibrator.clean_rows_, box, false_alarms)
