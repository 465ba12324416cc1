"""One row into a window: the bits of the general path, without its arrays of length one."""

from math import sqrt
from typing import Final

import numpy as np

from wildcal._old.calibrators.context import WindowMap
from wildcal._old.calibrators.context.one_row import InClass, OneRow, RowLook
from wildcal._old.core.arrays import Logits
from wildcal._old.stream.accuracy import Z95
from wildcal._old.stream.drift import DriftTest
from wildcal._old.stream.evidence import Evidence
from wildcal._old.stream.sequential import Bets, follow_row
from wildcal._old.stream.window import UNIT, Totals, Whole, Window

_PER_UNIT: Final = 1 / UNIT


class RowTaker:
    """Lets rows into a window one by one."""

    def __init__(
        self,
        calibrator: WindowMap,
        form: OneRow,
        window: Window,
        test: DriftTest,
        bets: Bets | None,
    ) -> None:
        self._form = form
        self._window, self._test, self._bets = window, test, bets
        self._calibrator, self._kept = calibrator, calibrator.by_class
        self._threshold = test.threshold
        self._units = form.units
        self._decided: tuple[Whole | None, bool] = (None, False)
        """The last window that was all new, and whether it was too far from clean."""

    def look(self, z: Logits, i: int) -> RowLook:
        """Return what is seen of a row; whatever is wrong with it comes up here."""
        return self._form.look(z, i)

    def take(self, row: RowLook, evidence: Evidence) -> tuple[list[float], Evidence]:
        """Let a row in; return the columns of `StreamRows`, and the evidence after it."""
        form, window, now = self._form, self._window, self._window.totals
        features = [round(value * _PER_UNIT) for value in row.features]
        old = window.leaving_row()
        *sums, total, variance = now.sums.tolist()
        sums = [a + b for a, b in zip(sums, features, strict=True)]
        counts, inside = now.counts.copy(), now.inside.copy()
        seen = now.seen + 1
        n, new, kept = min(seen, window.size), row.pred, self._kept
        come = [features[i] for i in kept]
        numbers = now.numbers
        if old is not None:
            sums = [a - b for a, b in zip(sums, old, strict=False)]
            gone = old[-1]
            if numbers is None:
                numbers = form.numbers(counts, inside)
            out = [old[i] for i in kept]
            numbers = form.exchanged(
                numbers,
                n,
                InClass(gone, int(counts[gone]), inside[:, gone].tolist(), out),
                InClass(new, int(counts[new]), inside[:, new].tolist(), come),
            )
            counts[gone] -= 1
            inside[:, gone] -= out
        counts[new] += 1
        inside[:, new] += come
        if old is None:  # with every row, something else is expected of all classes
            numbers = form.numbers(counts, inside)
        assert numbers is not None
        means = [value * UNIT / n for value in sums]
        offset = form.offset(n, means, numbers)
        temperature = form.temperature(row.own, offset)
        confidence = form.confidence(row.shifted, temperature)
        p = round(confidence * _PER_UNIT)
        total, variance = total + p, variance + _variance(p)
        if old is not None:
            total, variance = total - old[-2], variance - _variance(old[-2])
        all_new = seen % window.size == 0
        filled = np.array(sums) if all_new else now.filled
        alarm = self._too_far(filled)
        if self._bets is not None:
            x = self._standardized(row.features)
            evidence = follow_row(self._bets, evidence, x, all_new and not alarm, window.size)
            alarm = evidence.alarm
        value = total * UNIT / n
        error = float(self._calibrator.accuracy_error(offset))
        reach = Z95 * sqrt(variance * UNIT / (n * n) + error * error)
        low, high = max(value - reach, 0.0), min(value + reach, 1.0)
        drift = self._test.score_of(n, *self._standardized(means))
        after = Totals(seen, np.array([*sums, total, variance]), counts, inside, filled, numbers)
        window.commit_row((*features, p, new), after)
        return [confidence, temperature, value, low, high, drift, alarm], evidence

    def _too_far(self, filled: Whole | None) -> bool:
        if self._decided[0] is not filled and filled is not None:
            size = self._window.size
            means = self._standardized([value * UNIT / size for value in filled.tolist()])
            self._decided = (filled, self._test.score_of(size, *means) > self._threshold)
        return filled is not None and self._decided[1]

    def _standardized(self, means: list[float]) -> tuple[float, float]:
        (i, a, s), (j, b, t) = self._units
        return (means[i] - a) / s, (means[j] - b) / t


def _variance(p: int) -> int:
    """Return p (1 - p), both in units of 2^-40."""
    share = p * UNIT
    return round(share * (1 - share) * _PER_UNIT)
