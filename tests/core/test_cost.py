"""What the hot paths cost, counted and not timed: passes over the logits, calls, peak memory."""

import sys
import tracemalloc

import numpy as np
import pytest

from wildcal import CALIBRATORS, metrics
from wildcal.core import blocks
from wildcal.core.block import Block
from wildcal.core.parallel import use_threads

N, K = 20_000, 20


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = rng.integers(0, K, N)
    z = (2 * rng.standard_normal((N, K))).astype(np.float32)
    z[np.arange(N), y] += rng.normal(3, 2, N).astype(np.float32)
    return z, y


@pytest.fixture
def passes(monkeypatch):
    """How often all rows of the data were read, counted where every pass begins."""
    rows = [0]

    class Counting(Block):
        def __init__(self, source, start, stop, scratch):
            rows[0] += stop - start
            super().__init__(source, start, stop, scratch)

    monkeypatch.setattr(blocks, "Block", Counting)
    return lambda: rows[0] / N


@pytest.mark.parametrize(("name", "most"), [("ts", 7), ("energy", 16), ("irm", 4), ("beta", 3)])
def test_a_fit_takes_few_passes(data, passes, name, most):
    """Energy scaling reads its rows anew for each sum, which keeps its memory flat."""
    CALIBRATORS[name]().fit(*data)
    assert 1 <= passes() <= most


@pytest.mark.parametrize("name", ["ts", "energy", "irm", "irova", "beta"])
@pytest.mark.parametrize("question", ["predict_proba", "confidence", "apply"])
def test_an_answer_takes_one_pass(data, passes, name, question):
    method = CALIBRATORS[name]().fit(*data)
    before = passes()
    getattr(method, question)(data[0])
    assert passes() - before == pytest.approx(1)


def calls_of(function):
    """The number of functions called, of Python and of C."""
    count = [0]

    def seen(frame, event, argument):
        count[0] += event in ("call", "c_call")

    function()
    sys.setprofile(seen)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count[0]


@pytest.mark.parametrize(
    ("name", "most"), [("ts", 30), ("identity", 30), ("energy", 42), ("irm", 52), ("irova", 46)]
)
def test_one_row_takes_few_calls(data, name, most):
    """A block of one row would take about a hundred, a loop over classes as many as there are."""
    method = CALIBRATORS[name]().fit(*data)
    assert calls_of(lambda: method.predict_proba(data[0][:1])) <= most


def peak_of(function):
    function()
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_is_that_of_blocks_and_of_the_answer(data):
    z, y = data
    method = CALIBRATORS["ts"]().fit(z, y)
    proba = method.predict_proba(z)
    with use_threads(1):
        block = 4 * blocks.CLASSES_FIRST_ELEMENTS
        assert peak_of(lambda: method.confidence(z)) < 4 * block
        assert peak_of(lambda: method.predict_proba(z)) < z.nbytes + 4 * block
        assert peak_of(lambda: metrics.ece(y, proba)) < 8 * block
        assert peak_of(lambda: metrics.nll(y, proba)) < 8 * block
        # Of a fit: a few numbers for each row, beside the blocks.
        assert peak_of(lambda: CALIBRATORS["ts"]().fit(z, y)) < 40 * N + 6 * block
        assert peak_of(lambda: CALIBRATORS["energy"]().fit(z, y)) < 120 * N + 6 * block
