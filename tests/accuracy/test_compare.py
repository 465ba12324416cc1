"""Estimators side by side on a suite, a type of shift left out at a time."""

import numpy as np
import pytest

import wildcal
from wildcal._old.accuracy import compare_estimators
from wildcal._old.accuracy.compare import SETTINGS, Cell, draw_window, spearman, summarize
from wildcal._old.core.errors import WildcalError


def test_windows_by_hand():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(5), 20)
    assert draw_window(y, None, "clean", rng).tolist() == list(range(100))
    some = draw_window(y, 30, "clean", rng)
    assert len(set(some.tolist())) == 30
    assert len(np.unique(y[draw_window(y, 60, "three", rng)])) == 3
    assert len(draw_window(y, 60, "dirichlet-0.3", rng)) == 60


def test_summary_by_hand():
    cells = [
        Cell("ac", "whole", "a", 0, 10, 0.8, 0.7, 0.9, 0.7, False),
        Cell("ac", "whole", "b", 0, 10, 0.5, 0.4, 0.6, 0.8, True),
    ]
    (record,) = summarize(cells)
    assert record["mae"] == pytest.approx(0.2)
    assert record["worst"] == pytest.approx(0.3)
    assert record["bias"] == pytest.approx(-0.1)
    assert record["coverage"] == 0.5
    assert record["width"] == pytest.approx(0.2)
    assert record["warned"] == 0.5
    assert record["spearman"] == -1.0
    assert record["windows"] == 2


def test_rank_correlation():
    assert spearman(np.array([1.0, 2, 3, 4]), np.array([1.0, 4, 9, 16])) == pytest.approx(1.0)
    assert spearman(np.array([1.0, 1, 2]), np.array([3.0, 3, 9])) == pytest.approx(1.0)
    assert spearman(np.ones(3), np.array([1.0, 2, 3])) == 0.0


@pytest.fixture(scope="module")
def shipped():
    return wildcal._old.suites.load("cifar10-resnet20")


def test_on_a_shipped_suite(shipped):
    cells = compare_estimators(
        shipped, ["ac", "atc-ne", "gde"], settings=["whole", "32 rows"], draws=1,
        types=["saturate", "spatter"], second=wildcal._old.suites.load("cifar10-wrn-16-2"),
    )  # fmt: skip
    assert len(cells) == 3 * 2 * 10
    assert {cell.n for cell in cells} == {1000, 32}
    assert all(0 <= cell.low <= cell.value <= cell.high <= 1 for cell in cells)
    assert not any(split.role == "test" and split.name in {c.split for c in cells}
                   for split in shipped.splits)  # fmt: skip
    found = {(r["setting"], r["estimator"]): r["mae"] for r in summarize(cells)}
    assert found["whole", "atc-ne"] < found["whole", "ac"]


def test_the_same_windows_for_all(shipped):
    def truth(name):
        cells = compare_estimators(
            shipped, [name], settings=list(SETTINGS)[2:], types=["saturate", "spatter"],
            environments=False, draws=2,
        )  # fmt: skip
        return [(c.setting, c.split, c.draw, c.accuracy) for c in cells]

    assert truth("ac") == truth("doc")


def test_refusals(shipped):
    with pytest.raises(ValueError, match="there is no setting 'tiny'"):
        compare_estimators(shipped, ["ac"], settings=["tiny"])
    with pytest.raises(ValueError, match="two types or more to leave one out, got 1"):
        compare_estimators(shipped, ["ac"], types=["saturate"])


def test_two_networks_that_saw_other_rows_are_refused():
    """Their agreement would be that of strangers."""
    suite, other = (wildcal._old.suites.load(f"cifar10-{n}") for n in ("resnet20", "se-resnet20"))
    with pytest.raises(WildcalError, match="of the second suite has other labels"):
        compare_estimators(
            suite, ["gde"], types=["saturate", "spatter"], second=other, settings=("whole",)
        )
