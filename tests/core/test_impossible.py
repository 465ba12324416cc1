"""A row whose true class is ruled out counts as a mistake, and no more than that."""

import tracemalloc
import warnings
from dataclasses import dataclass

import numpy as np
import pytest

import wildcal
from wildcal.core.errors import CalibrationWarning
from wildcal.core.impossible import tamed
from wildcal.core.parallel import use_threads
from wildcal.core.rows import Rows
from wildcal.core.span import Span
from wildcal.metrics import ece
from wildcal.testing import make_suite

SUITE = make_suite(3, n_classes=6, n_tuning=700, n_ood_tuning=0, n_test=4000)
Z, Y = SUITE.tuning
METHODS = [name for name in wildcal.CALIBRATORS if name not in ("identity", "context")]


def ruled_out(value, rows):
    logits = Z.copy()
    logits[rows, Y[rows]] = value
    return logits


def fitted(name, logits, y=Y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return wildcal.make_calibrator(name).fit(logits, y)


def test_nothing_is_touched_where_every_true_class_is_possible():
    rows = Rows(Z, Y)
    same, note, _ = tamed(rows)
    assert same is rows
    assert note is None
    # A wrong class may be ruled out: that is what -inf is for.
    logits = Z.copy()
    logits[5, (Y[5] + 1) % 6] = -np.inf
    assert tamed(Rows(logits, Y))[1] is None


@pytest.mark.parametrize("value", [-np.inf, -1e9, -1e4, np.finfo(np.float32).min])
def test_by_hand(value):
    logits = np.array([[3.0, 1.0, value, 2.0], [1.0, 2.0, 0.0, 0.0]])
    mended, note, _ = tamed(Rows(logits, np.array([2, 1])))
    np.testing.assert_array_equal(mended.logits, [[3.0, 1.0, 1.0, 2.0], [1.0, 2.0, 0.0, 0.0]])
    assert note.startswith("1 of 2 rows have a true class that their logits rule out")
    assert "the first is row 0" in note
    np.testing.assert_array_equal(logits[0], [3.0, 1.0, value, 2.0])  # not written to


def test_a_single_class_that_is_left_and_rows_of_other_classes():
    logits = np.array([[3.0, -np.inf, -np.inf], [1.0, -np.inf, 0.5], [1.0, 2.0, 0.0]])
    mended, note, _ = tamed(Rows(logits, np.array([1, -1, 1])))
    np.testing.assert_array_equal(mended.logits[0], [3.0, 3.0, -np.inf])
    np.testing.assert_array_equal(mended.logits[1], [1.0, 0.5, 0.5])  # aims at the uniform
    assert note.startswith("1 of 2 rows")


def test_other_classes_stay_ruled_out_where_the_true_one_is_the_first():
    logits = np.array([[-np.inf, 3.0, 1.0, -np.inf], [2.0, 1.0, 0.0, 0.0]])
    mended, _, _ = tamed(Rows(logits, np.array([0, 0])))
    np.testing.assert_array_equal(mended.logits[0], [1.0, 3.0, 1.0, -np.inf])


def test_whether_all_rows_are_right():
    logits = np.array([[3.0, 1.0], [1.0, 2.0], [5.0, 5.0], [4.0, 0.0]])
    for labels, all_right in (([0, 1, 0, -1], True), ([0, 1, 1, 0], False), ([1, 1, 0, 0], False)):
        assert tamed(Rows(logits, np.array(labels)))[2] is all_right  # the first of two that tie


def test_logits_in_a_large_unit_are_no_mask():
    """A network whose logits are thousands apart has genuine mistakes that far off."""
    rows = Rows(Z * 1000, Y)
    assert tamed(rows)[1] is None


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("value", [-np.inf, -1e9])
def test_under_one_percent_of_such_rows_moves_no_method_beyond_noise(name, value):
    rows = np.arange(0, 700, 140)  # 5 of 700
    test = SUITE.clean
    found = []
    for logits in (Z, ruled_out(value, rows)):
        calibrator = fitted(name, logits)
        found.append(ece(test.y, calibrator.predict_proba(test.logits)))
    # The rows are mistakes of 0.7 %, which is the part of the ECE that they may be worth.
    assert abs(found[1] - found[0]) < 0.012


def test_it_is_said_and_kept():
    with pytest.warns(CalibrationWarning, match="2 of 700 rows have a true class"):
        calibrator = wildcal.TemperatureScaling().fit(ruled_out(-np.inf, np.array([7, 9])), Y)
    assert calibrator.fit_.notes[0].startswith("2 of 700 rows")


@pytest.mark.parametrize("n", [1, 2, 50, 699, 700])
@pytest.mark.parametrize("unit", [1, 1000, 1e30])
def test_rows_that_are_read_have_the_limit_of_those_in_memory(n, unit):
    logits = unit * Z[:n].astype(np.float64)
    logits[:, 0] -= 40 * unit  # margins of every size, and one class far below
    logits[n // 2, Y[n // 2]] = -np.inf
    kept, note, _ = tamed(Rows(logits, Y[:n]))
    read, same_note, _ = tamed(Rows(Span(logits, 0, n), Y[:n]))
    assert note is not None
    assert same_note == note
    np.testing.assert_array_equal(read.logits[:], kept.logits)


@dataclass(frozen=True)
class MadeRows:
    """Rows that are made when they are read, most of them twenty `unit` apart."""

    n: int
    unit: float
    dtype = np.dtype(np.float32)
    offset = 0

    @property
    def shape(self):
        return (self.n, 3)

    def __len__(self):
        return self.n

    def __getitem__(self, rows):
        number = np.arange(*rows.indices(self.n), dtype=np.float32)[:, None]
        found = self.unit * np.array([20.0, 0.0, 1.0], np.float32) + number % 7
        found[(number[:, 0] % 50_000) == 49_999, 1] = -np.inf
        return found


@dataclass(frozen=True)
class MadeLabels:
    n: int
    dtype = np.dtype(np.int64)

    def __len__(self):
        return self.n

    def __getitem__(self, rows):
        return np.ones(len(range(*rows.indices(self.n))), np.int64)


@pytest.mark.parametrize("unit", [0.1, 1e5])
def test_it_takes_no_memory_for_rows_that_are_right(unit):
    peaks = []
    for n in (200_000, 600_000):
        tracemalloc.start()
        with use_threads(1):
            _, note, _ = tamed(Rows(MadeRows(n, unit), MadeLabels(n)))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert note.startswith(f"{n // 50_000} of {n} rows")
    assert peaks[1] - peaks[0] < 400_000  # one byte a row
