import itertools

import numpy as np
import pytest

from wildcal.calibrators import distinct_scores
from wildcal.calibrators.distinct_scores import DistinctScores, merged, whole
from wildcal.core import room
from wildcal.core.errors import TooLargeError

PARTS, ROWS = 64, 50


@pytest.fixture(params=["all differ", "many are equal"])
def rows(request):
    rng = np.random.default_rng(0)
    score = rng.random(PARTS * ROWS)
    if request.param == "many are equal":
        score = np.round(score, 2)
    return score, rng.random(len(score)) < score


def parts_of(score, correct):
    for i in range(0, len(score), ROWS):
        piece = slice(i, i + ROWS)
        yield (DistinctScores.of_rows(score[piece], correct[piece], None),)


def test_runs_hold_what_all_rows_say(rows):
    score, correct = rows
    once = DistinctScores.of_rows(score, correct, None)
    runs = ()
    for i, part in enumerate(parts_of(score, correct), start=1):
        runs = merged([runs, part]) if runs else part
        lengths = [len(run) for run in runs]
        # Few entries, whatever the number of rows, and few runs.
        assert sum(lengths) <= 2 * len(np.unique(score[: i * ROWS]))
        assert all(a > 2 * b for a, b in itertools.pairwise(lengths))
    found = whole(runs)
    for name in ("score", "right", "wrong"):
        np.testing.assert_array_equal(getattr(found, name), getattr(once, name))


def test_all_at_once_as_one_by_one():
    """Threads hand in the parts of a group together, others one by one: the same bits."""
    rng = np.random.default_rng(1)
    parts = [
        (DistinctScores.of_rows(rng.random(20).round(1), rng.random(20) < 0.5, rng.random(20)),)
        for _ in range(16)
    ]
    one_by_one = parts[0]
    for part in parts[1:]:
        one_by_one = merged([one_by_one, part])
    together = merged(parts)
    assert len(together) == len(one_by_one)
    for a, b in zip(together, one_by_one, strict=True):
        assert a.right.tobytes() + a.wrong.tobytes() == b.right.tobytes() + b.wrong.tobytes()


def test_work_grows_hardly_faster_than_rows(monkeypatch):
    rng = np.random.default_rng(2)
    score = rng.random(PARTS * ROWS)
    parts = list(parts_of(score, score > 0.5))
    sorted_scores, original = [], distinct_scores._merged

    def counting(score, *others):
        sorted_scores.append(len(score))
        return original(score, *others)

    monkeypatch.setattr(distinct_scores, "_merged", counting)
    runs = parts[0]
    for part in parts[1:]:
        runs = merged([runs, part])
    whole(runs)
    # One by one into a growing list would be 32 times all scores.
    assert sum(sorted_scores) <= len(score) * (np.log2(PARTS) + 1)


def test_parts_without_rows_leave_nothing():
    nothing = (DistinctScores.of_rows(np.empty(0), np.empty(0, bool), None),)
    assert [len(run) for run in merged([nothing] * 9)] == [0]


def test_no_room_is_one_line(monkeypatch):
    monkeypatch.setattr(room, "_FEW_SCORES", 10)
    monkeypatch.setattr(room, "free_bytes", lambda: 100.0)
    score = np.linspace(0, 1, 11)
    with pytest.raises(TooLargeError, match=r"11 distinct confidences so far.*Leave out"):
        DistinctScores.of_rows(score, score > 0.5, None)
