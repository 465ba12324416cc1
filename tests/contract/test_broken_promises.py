"""`check_calibrator` names the promise that was broken, with the values."""

from dataclasses import dataclass

import numpy as np
import pytest

from wildcal import Calibrator
from wildcal.core.bound import bound_matrix
from wildcal.core.calibrator import FitSummary
from wildcal.testing import check_calibrator, check_promises_are_kept


@dataclass(kw_only=True, eq=False)
class Odd(Calibrator):
    """softmax(z), spoiled in some way."""

    name = title = "odd"
    reference = "made up"
    preserves_accuracy = True
    shift_invariant = False
    spoil = staticmethod(lambda p: p)

    def _fit(self, rows):
        return FitSummary()

    def _bind(self, rows):
        def fill(block, out):
            block.softmax(np.ones(block.n), out)
            out[...] = self.spoil(out)

        return bound_matrix(rows.logits, fill)


class Heavy(Odd):
    spoil = staticmethod(lambda p: p * np.where(np.arange(len(p)) == 3, 0.5, 1.0)[:, None])


class Crowd(Odd):
    spoil = staticmethod(lambda p: 0.9 * p + 0.1 * p.mean(axis=0))


class Turned(Odd):
    spoil = staticmethod(lambda p: np.roll(p, 1, axis=1))


class Lazy(Odd):
    def _fit(self, rows):
        if len(rows) < 2:
            raise IndexError("no second row")
        return FitSummary()


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (
            Heavy,
            r"Heavy breaks a promise, 'output is a distribution'\. Rows lie in \[0, 1\] and sum to"
            r" one;.* predict_proba, sums of rows: row 3 is 0\.[45]\d+ where 1\.0 was expected,"
            r" at most 1e-05 apart; \d+ of \d+ entries differ\.",
        ),
        (Crowd, r"'rows do not depend on each other'.* rows cut at 1, 2, 3, 10: row \d+, class \d"),
        (Lazy, r"'degenerate tuning sets'.* it raised IndexError: no second row"),
    ],
)
def test_what_broke_and_by_how_much(kind, said):
    with pytest.raises(AssertionError, match=said):
        check_calibrator(kind)


def test_a_declared_promise():
    with pytest.raises(
        AssertionError, match=r"preserves_accuracy, the top class: row \d+ is \S+ where 0\.9"
    ):
        check_promises_are_kept(Turned)
