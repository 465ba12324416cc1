"""Isotonic regressions over all classes, a range of the probability at a time."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wildcal.calibrators import make_calibrator, ones, pairs, pava
from wildcal.calibrators.ones import SmallestOnes
from wildcal.calibrators.pava import Pooling
from wildcal.core import blocks, room
from wildcal.core.columns import map_columns
from wildcal.core.errors import TooLargeError
from wildcal.core.parallel import use_threads

pytestmark = pytest.mark.filterwarnings("ignore::wildcal.core.errors.CalibrationWarning")

METHODS = ["irm", "irova", "irovats"]
N, K = 2000, 5


class Read:
    """A column, or logits, that can be read piece by piece and no other way."""

    portable = False

    def __init__(self, values):
        self.values = values
        self.shape, self.dtype = values.shape, values.dtype

    def __len__(self):
        return len(self.values)

    def __getitem__(self, rows):
        assert isinstance(rows, slice)
        return self.values[rows].copy()


def made(dtype, *, ties, weighted):
    """Logits with classes that are ruled out, labels of rather unequal classes, weights."""
    rng = np.random.default_rng(0)
    y = rng.choice(K, N, p=[0.6, 0.2, 0.1, 0.1, 0.0])
    logits = rng.standard_normal((N, K))
    logits[np.arange(N), y] += 1.5
    logits = (logits.round(1) if ties else logits).astype(dtype)
    logits[::3, 4] = logits[::50, 2] = -np.inf
    return logits, y, rng.random(N) * (rng.random(N) < 0.9) if weighted else None


def curves(fitted):
    x, f = fitted.thresholds_, fitted.values_
    x, f = (x, f) if isinstance(x, list) else ([x], [f])
    return [(a.dtype, a.tobytes(), b.tobytes()) for a, b in zip(x, f, strict=True)]


def take_in_turns(monkeypatch, most, piece):
    """Hold this many rows at a time, and read pieces of so many."""
    monkeypatch.setattr(room, "_SHARE", 0.0)
    monkeypatch.setattr(room, "_LEAST_ROWS", most)
    monkeypatch.setattr(pairs, "PIECE_ROWS", piece)
    monkeypatch.setattr(ones, "_FEW", 16)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", METHODS)
def test_turns_change_no_bit(name, dtype, ties, weighted, monkeypatch):
    logits, y, weight = made(dtype, ties=ties, weighted=weighted)
    monkeypatch.setattr(pairs, "CHUNK_ELEMENTS", 3000)
    monkeypatch.setattr(pairs, "MOST_ELEMENTS", 4000)  # three chunks
    monkeypatch.setattr(pava, "PIECE_CELLS", 64)
    with use_threads(2):
        here = curves(make_calibrator(name).fit(logits, y, sample_weight=weight))
    given = None if weight is None else Read(weight)
    for most, piece in ((60, 170), (500, N), (N, 999)):
        take_in_turns(monkeypatch, most, piece)
        fitted = make_calibrator(name).fit(Read(logits), Read(y), sample_weight=given)
        assert curves(fitted) == here


@pytest.mark.parametrize("name", METHODS)
def test_what_does_not_fit_at_once_is_done_in_turns(name, monkeypatch):
    logits, y, _ = made(np.float32, ties=False, weighted=False)
    here = curves(make_calibrator(name).fit(logits, y))
    monkeypatch.setattr(room, "_LEAST_ROWS", 100)
    most = []
    for module in ("irm", "irova"):
        path = f"wildcal.calibrators.{module}.ones_at_once"
        monkeypatch.setattr(path, lambda rows: most.append(room.ones_at_once(rows)) or most[-1])
    with use_threads(1):
        size = room._PAIR_BYTES * N * K + room._ROW_BYTES * 100
        monkeypatch.setattr(room, "free_bytes", lambda: float(size))
        assert curves(make_calibrator(name).fit(Read(logits), Read(y))) == here
        monkeypatch.setattr(room, "free_bytes", lambda: 4.0 * size)
        assert curves(make_calibrator(name).fit(Read(logits), Read(y))) == here
        monkeypatch.setattr(room, "free_bytes", lambda: size - 1.0)
        with pytest.raises(TooLargeError, match="works on 0.000256 GB at a time"):
            make_calibrator(name).fit(Read(logits), Read(y))
    assert most == [100, 1700]


@given(
    values=st.lists(st.tuples(st.integers(0, 9), st.sampled_from([0.1, 0.7, 3.0])), max_size=40),
    most=st.integers(1, 12),
    pieces=st.integers(1, 5),
    few=st.integers(1, 20),
)
def test_ranges_of_ones_are_all_of_them(values, most, pieces, few):
    x = np.array([value for value, _ in values], np.float32)
    weight = np.array([w for _, w in values])
    unique, index = np.unique(x, return_inverse=True)
    low, found = -np.inf, [(x[:0], weight[:0])]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ones, "_FEW", few)
        while low < np.inf:
            smallest = SmallestOnes(low, most)
            for piece in np.array_split(np.arange(len(x)), pieces):
                smallest.add(x[piece], weight[piece])
            found.append(smallest.distinct())
            assert len(found[-1][0]) <= most
            low = smallest.high
    assert np.concatenate([a for a, _ in found]).tolist() == unique.tolist()
    sums = np.bincount(index, weight, len(unique))
    assert np.concatenate([b for _, b in found]).tobytes() == sums.astype(float).tobytes()


CELLS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(1, 4), st.sampled_from([1.0, 0.3])), max_size=40
)


@given(cells=CELLS, cut=st.integers(0, 40), piece=st.integers(1, 9))
def test_pieces_are_pooled_like_all_cells(cells, cut, piece):
    from scipy.optimize import isotonic_regression

    x = np.arange(len(cells)) / 64
    total = np.array([t * w for _, t, w in cells])
    positive = np.array([min(p, t) * w for p, t, w in cells])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pava, "PIECE_CELLS", piece)
        at_once, in_turns = Pooling(), Pooling()
        at_once.add(x, x, positive, total)
        for part in (slice(0, cut), slice(cut, None)):
            in_turns.add(x[part], x[part], positive[part], total[part])
        thresholds, values = at_once.thresholds()
        for a, b in zip((thresholds, values), in_turns.thresholds(), strict=True):
            assert a.tobytes() == b.tobytes()
    if not len(x):
        assert not len(thresholds)
        return
    expected = isotonic_regression(positive / total, weights=total).x
    np.testing.assert_allclose(np.interp(x, thresholds, values), expected, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", METHODS)
def test_memory_does_not_grow_with_the_rows(name, weighted, monkeypatch):
    take_in_turns(monkeypatch, 1000, 4000)
    monkeypatch.setattr(pairs, "CHUNK_ELEMENTS", 1 << 14)
    monkeypatch.setattr(pairs, "MOST_ELEMENTS", 1 << 14)
    monkeypatch.setattr(pava, "PIECE_CELLS", 1000)
    monkeypatch.setattr(blocks, "CLASSES_FIRST_ELEMENTS", 1 << 14)
    monkeypatch.setitem(map_columns.__kwdefaults__, "rows", 4000)
    rng, few, many = np.random.default_rng(0), 10_000, 40_000
    logits, y, weight = rng.standard_normal((many, 4)), rng.integers(0, 4, many), rng.random(many)
    peaks = []
    with use_threads(1):
        make_calibrator(name).fit(Read(logits[:9]), Read(y[:9]))  # imports what there is to import
        for n in (few, many):
            method = make_calibrator(name)
            given = Read(weight[:n]) if weighted else None
            tracemalloc.start()
            method.fit(Read(logits[:n]), Read(y[:n]), sample_weight=given)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    # Peaks differ by up to 65 kB, 5 %, with no trend from 5,000 to 100,000 rows, which we did not
    # explain; one number of float64 for each row more would be 240 kB.
    assert peaks[1] - peaks[0] < 4 * (many - few)
