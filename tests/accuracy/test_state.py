"""States of windows that cannot be are refused."""

import pytest

from wildcal.accuracy import WindowState

GOOD = {"method": "ac", "n": 3, "counts": [2, 1], "sums": [2.0, 0.5, 2.0, 1.5], "log_sums": []}


def test_a_good_one():
    state = WindowState.from_dict(GOOD)
    assert state.to_dict() == GOOD
    assert (state + state).to_dict() == {**GOOD, "n": 6, "counts": [4, 2], "sums": [4, 1, 4, 3]}


@pytest.mark.parametrize(
    "change",
    [
        {"n": 4},
        {"n": 0, "counts": [0, 0]},
        {"n": True, "counts": [1, 0]},
        {"n": 3.0},
        {"counts": [3]},
        {"counts": [4, -1]},
        {"counts": "21"},
        {"method": 3},
        {"sums": [float("nan")]},
        {"sums": [float("inf")]},
        {"sums": ["1"]},
        {"sums": 3.0},
        {"log_sums": None},
    ],
)
def test_what_cannot_be(change):
    with pytest.raises(ValueError, match="of a state must be"):
        WindowState.from_dict({**GOOD, **change})


@pytest.mark.parametrize("document", [{}, [], None, {"n": 3}])
def test_other_documents(document):
    with pytest.raises(ValueError, match="this is not the state of a window"):
        WindowState.from_dict(document)


def test_too_few_sums(fitted):
    state = WindowState.from_dict({**GOOD, "counts": [2, 1, 0, 0], "sums": [1.0]})
    with pytest.raises(ValueError, match="the state has 1 sums, not 4"):
        fitted["ac"].estimate_state(state)
