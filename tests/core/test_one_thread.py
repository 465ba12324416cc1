"""Numbers have the same bits for any number of threads of linear algebra."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from wildcal import EnergyScaling, VectorScaling
from wildcal.core import one_thread as module
from wildcal.core.block import row_dots
from wildcal.core.one_thread import one_thread

EVERYTHING = Path(__file__).with_name("every_number.py")


def numbers(threads):
    """Return a digest of every number there is, made by a process with so many threads."""
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    environment |= {"OPENBLAS_NUM_THREADS": str(threads), "WILDCAL_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(EVERYTHING)], env=environment, check=True, capture_output=True
    )
    return json.loads(done.stdout)


def test_every_method_estimator_and_metric():
    """Rows are many enough for sums over them to be split, had they been left to it."""
    one, many = numbers(1), numbers(4)
    assert {name for name in one if one[name] != many[name]} == set()
    assert set(many) == set(one)


@pytest.fixture
def library():
    """NumPy's linear algebra, with three threads for the time of a test."""
    found = module._library("numpy", module._loaded(dict(module._LINKED)["numpy"]))
    if found is None:
        pytest.skip("NumPy's linear algebra is no OpenBLAS")
    before = found.count()
    found.use(3)
    if found.count() != 3:
        pytest.skip("NumPy's linear algebra has no threads")
    yield found
    found.use(before)


def test_what_there_was_is_given_back(library):
    with one_thread():
        assert library.count() == 1
        with one_thread():
            assert library.count() == 1
        assert library.count() == 1
    assert library.count() == 3


def test_it_is_given_back_after_an_error(library):
    with pytest.raises(ZeroDivisionError), one_thread():
        raise ZeroDivisionError
    assert library.count() == 3


def test_the_last_thread_to_leave_gives_it_back(library):
    """A short stay that begins and ends within a long one changes nothing for it."""

    def stay(_):
        with one_thread():
            seen = [library.count()]
            np.ones(10).sum()
            return [*seen, library.count()]

    with ThreadPoolExecutor(4) as pool, one_thread():
        assert {n for seen in pool.map(stay, range(200)) for n in seen} == {1}
        assert library.count() == 1
    assert library.count() == 3


def test_scipy_that_comes_while_inside_is_limited_by_the_next_to_enter():
    """The solvers are imported when they are needed, in the middle of a fit."""
    program = """
import sys
from wildcal.core import one_thread as module
with module.one_thread():
    assert "scipy" not in sys.modules
    import scipy.optimize
    with module.one_thread():
        library = module._library("scipy", module._loaded(dict(module._LINKED)["scipy"]))
        assert library is None or library.count() == 1
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.filterwarnings("ignore::wildcal.core.errors.CalibrationWarning")
@pytest.mark.parametrize("method", [EnergyScaling, VectorScaling])
def test_a_fit_has_one_thread_and_leaves_three(library, method, monkeypatch):
    seen = []
    inner = method._fit
    monkeypatch.setattr(
        method, "_fit", lambda self, rows: (seen.append(library.count()), inner(self, rows))[1]
    )
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(200, 3))
    method().fit(logits, rng.integers(0, 3, 200))
    assert (seen, library.count()) == ([1], 3)


def test_long_rows_are_added_in_one_order(library):
    """From 10,000 entries on a dot product would be split."""
    a, b = np.random.default_rng(0).normal(size=(2, 3, 50_001))
    with one_thread():
        alone = row_dots(a, b)
    np.testing.assert_array_equal(row_dots(a, b), alone)
    np.testing.assert_allclose(alone, (a * b).sum(axis=1), rtol=1e-10)
