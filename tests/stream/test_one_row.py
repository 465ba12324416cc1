"""Rows that come one by one take a path of their own, with the bits of the general one."""

import numpy as np
import pytest

from wildcal._old.calibrators.context import ContextScaling
from wildcal._old.stream import Stream

COLUMNS = ("pred", "confidence", "temperature", "accuracy", "accuracy_low", "accuracy_high")


def fitted(k: int, shifted: bool = True) -> ContextScaling:
    rng = np.random.default_rng(k)
    n = 600
    y, environment = rng.integers(0, k, n), rng.integers(0, 4, n) * shifted
    z = rng.normal(size=(n, k)) * (2 + environment[:, None])
    z[np.arange(n), y] += 6 * rng.random(n)
    return ContextScaling().fit(z, y, environment=environment if shifted else None)


def odd_rows(k: int, n: int, dtype: type, seed: int = 0) -> np.ndarray:
    """Rows from unsure to very sure, with ties, classes ruled out and huge logits."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, k)) * rng.choice([0.1, 1, 4, 30], n)[:, None]
    z[rng.integers(0, n, n // 8), rng.integers(0, k, n // 8)] = -np.inf
    z[~np.isfinite(z.max(axis=1))] = 1.0
    z[n // 2] = np.finfo(dtype).max * np.where(np.arange(k) % 2, 1, -1)
    z[n // 3, 1:] = -np.inf
    return z.astype(dtype)


def same(whole, parts) -> None:
    for name in (*COLUMNS, "drift", "alarm"):
        found = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_array_equal(found, getattr(whole, name), err_msg=name, strict=True)
    assert parts[-1].first == len(whole) - len(parts[-1])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("alarm", ["window", "sequential"])
@pytest.mark.parametrize("k", [2, 70])
def test_one_by_one_gives_the_same_bits(k, alarm, dtype):
    calibrator, z = fitted(k), odd_rows(k, 130, dtype)
    for window in (1, 5, 64):
        options = {"alarm": alarm, "false_alarms_per_100k": 1000.0}
        whole, single = (Stream(calibrator, window, **options) for _ in range(2))
        parts = [single.read(row[None]) for row in z[:50]]
        parts += [single.read(z[i : i + 5]) for i in range(50, 70, 5)]  # a few at once
        parts.append(single.read(z[70:90]))
        parts += [single.read(row[None]) for row in z[90:]]
        same(whole.read(z), parts)
        assert single.context == whole.context
        assert single.drift == whole.drift
        assert single.estimated_accuracy == whole.estimated_accuracy


def test_without_shifted_environments_nothing_is_known_of_the_accuracy():
    stream = Stream(fitted(3, shifted=False))
    found = stream.read([[3.0, 1.0, 0.0]])
    assert (found.accuracy_low.tolist(), found.accuracy_high.tolist()) == ([0.0], [1.0])


@pytest.mark.parametrize("row", [[np.nan, 1, 2], [np.inf, 0, 1], [-np.inf] * 3])
def test_a_bad_row_changes_nothing(row):
    stream = Stream(fitted(3))
    stream.read([[3.0, 1.0, 0.0]])
    before = stream.context
    for i in (0, 2):
        with pytest.raises(ValueError, match=f"row {i} holds"):
            stream.read([[1.0, 2.0, 3.0]] * i + [row])
    assert stream.context == before


def test_a_state_goes_on_one_by_one(tmp_path):
    calibrator, z = fitted(10), odd_rows(10, 120, np.float32)
    whole, single = (Stream(calibrator, 32, alarm="sequential") for _ in range(2))
    parts = [single.read(row[None]) for row in z[:77]]
    single.save(tmp_path / "state.json")
    again = Stream.load(tmp_path / "state.json", calibrator)
    parts += [again.read(row[None]) for row in z[77:]]
    same(whole.read(z), parts)
