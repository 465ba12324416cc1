"""The stream: the same output however rows come, and numbers that mean what they say."""

import pkgutil
import sys
import threading
import tracemalloc
from dataclasses import fields

import numpy as np
import pytest

import wildcal
from wildcal import Stream
from wildcal._old.calibrators.context import ContextScaling


def same(a, b):
    """Every array of two StreamRows, bit for bit."""
    for field in fields(a):
        np.testing.assert_array_equal(getattr(a, field.name), getattr(b, field.name))


def joined(parts):
    kind = type(parts[0])
    arrays = {
        f.name: np.concatenate([getattr(p, f.name) for p in parts])
        for f in fields(kind)
        if f.name != "first"
    }
    return kind(first=parts[0].first, **arrays)


def mixed_rows(clean, foggy, n):
    return np.concatenate([clean.logits[: n // 2], foggy.logits[: n - n // 2]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("window", [1, 40, 256, 5000])
def test_splitting_changes_nothing(calibrator, clean, foggy, window, dtype):
    z = mixed_rows(clean, foggy, 1000).astype(dtype)
    whole = Stream(calibrator, window).read(z)
    single = Stream(calibrator, window)
    same(whole, joined([single.read(row[None]) for row in z]))
    rng = np.random.default_rng(0)
    cuts = np.sort(rng.integers(0, 1000, 30))
    pieces = [part for part in np.split(z, cuts) if len(part)]
    random, proba = Stream(calibrator, window), Stream(calibrator, window)
    same(whole, joined([random.read(part) for part in pieces]))
    one_call = Stream(calibrator, window)(z)
    np.testing.assert_array_equal(np.concatenate([proba(part) for part in pieces]), one_call)
    assert one_call.dtype == dtype


def test_many_classes_and_long_calls():
    """More rows than the window takes at once, more classes than a block lays classes-first."""
    rng = np.random.default_rng(0)
    z = 3 * rng.standard_normal((6000, 100))
    y = np.where(rng.uniform(size=6000) < 0.7, z.argmax(1), rng.integers(0, 100, 6000))
    environment = np.repeat([0, 1], 3000)
    z[3000:] *= 0.5
    calibrator = ContextScaling().fit(z, y, environment=environment)
    whole = Stream(calibrator, 100).read(z)
    other = Stream(calibrator, 100)
    same(whole, joined([other.read(part) for part in np.split(z, [1, 99, 100, 4097, 5000])]))


def test_a_row_is_calibrated_in_the_context_of_its_window(calibrator, clean, foggy):
    z = mixed_rows(clean, foggy, 600).astype(np.float64)
    stream = Stream(calibrator, 100)
    got, proba = stream.read(z), Stream(calibrator, 100)(z)
    for row in (0, 1, 50, 99, 100, 350, 599):
        context = calibrator.context(z[max(0, row - 99) : row + 1])
        mine = z[row : row + 1]
        expected = calibrator.temperature(mine, context=context)[0]
        assert got.temperature[row] == pytest.approx(expected, rel=1e-10)
        assert got.confidence[row] == pytest.approx(calibrator.confidence(mine, context=context)[0])
        np.testing.assert_allclose(proba[row], calibrator.predict_proba(mine, context=context)[0])
    assert stream.context.counts == calibrator.context(z[-100:]).counts
    assert stream.context.sums == pytest.approx(calibrator.context(z[-100:]).sums)
    assert stream.context.by_class == pytest.approx(calibrator.context(z[-100:]).by_class)


def test_the_properties_are_the_last_row(calibrator, clean):
    stream = Stream(calibrator, 64)
    assert np.isnan(stream.estimated_accuracy.value)
    assert (stream.seen, stream.drift.score, stream.drift.alarm) == (0, 0.0, False)
    assert stream.context.n == 0
    for n in (1, 30, 33, 200):
        rows = stream.read(clean.logits[:n])
        estimate, drift = stream.estimated_accuracy, stream.drift
        assert estimate.to_dict() == {
            "value": rows.accuracy[-1],
            "low": rows.accuracy_low[-1],
            "high": rows.accuracy_high[-1],
            "n": min(64, stream.seen),
        }
        assert (drift.score, drift.alarm) == (rows.drift[-1], rows.alarm[-1])
        assert (drift.p_value < 0.01) == (drift.score > drift.threshold)
    assert stream.seen == 264


def test_the_interval_by_hand(calibrator, clean):
    rows = Stream(calibrator, 10).read(clean.logits[:25])
    p = rows.confidence[15:]
    offset = calibrator.offset(calibrator.context(clean.logits[15:25]))
    error = calibrator.accuracy_error_**2 + (1.4 * calibrator.accuracy_error_slope_ * offset) ** 2
    reach = 1.96 * np.sqrt((p * (1 - p)).sum() / 100 + error)
    assert rows.accuracy[-1] == pytest.approx(p.mean())
    assert rows.accuracy_low[-1] == pytest.approx(p.mean() - reach, abs=1e-4)
    assert rows.accuracy_high[-1] == pytest.approx(min(1, p.mean() + reach), abs=1e-4)


def test_estimated_accuracy_follows_accuracy_on_corruptions_never_tuned_on(calibrator, suite):
    """No label is read. Uncalibrated, mean confidence is 20 points too high on these."""
    errors, raw = [], []
    for name in ("fog", "gaussian_noise", "jpeg_compression", "motion_blur", "contrast"):
        for severity in (1, 3, 5):
            split = suite.split(f"{name}-{severity}")
            rows = Stream(calibrator).read(split.logits)
            accuracy = (rows.pred == split.y).mean()
            errors.append(abs(rows.confidence.mean() - accuracy))
            raw.append(
                wildcal.Identity().fit(split.logits, split.y).confidence(split.logits).mean()
                - accuracy
            )
    assert np.mean(errors) < 0.04 < 0.15 < np.mean(raw)


def test_an_alarm_rises_under_corruption_and_ends_after_it(calibrator, clean, foggy):
    z = np.concatenate([clean.logits[:512], foggy.logits[:512], clean.logits[512:1024]])
    alarm = Stream(calibrator, alarm="window").read(z).alarm
    np.testing.assert_array_equal(np.flatnonzero(np.diff(alarm.astype(int))), [766, 1278])


@pytest.mark.parametrize(("window", "rate"), [(32, 0.05), (256, 0.01), (256, 0.05)])
def test_false_alarms_stay_at_the_rate(calibrator, clean, window, rate):
    """200 seeds x 20 windows of clean test rows: within the binomial limits, 1 in 1000."""
    from scipy.stats import binom

    alarms = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        z = clean.logits[rng.integers(0, len(clean.logits), 20 * window)]
        stream = Stream(calibrator, window, false_alarms=rate, alarm="window")
        alarms += int(stream.read(z).alarm[window - 1 :: window].sum())
    assert alarms <= binom.ppf(0.999, 4000, rate)
    assert alarms >= binom.ppf(0.001, 4000, rate / 3)  # a test that never alarms is of no use


def test_threads_take_turns(calibrator, clean, foggy):
    """Replaying the calls in the order of their first rows gives the same bits."""
    z = mixed_rows(clean, foggy, 2000)
    stream, done, errors = Stream(calibrator, 50), [], []

    def work(seed):
        rng = np.random.default_rng(seed)
        try:
            for _ in range(60):
                rows = z[rng.integers(0, len(z), rng.integers(1, 90))]
                done.append((stream.read(rows), rows))
                assert 0 <= stream.estimated_accuracy.low <= stream.estimated_accuracy.high <= 1
                now = stream.context  # once: others let rows in meanwhile
                assert sum(now.counts) == now.n
        except BaseException as error:
            errors.append(error)

    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(switch)
    assert errors == []
    replay = Stream(calibrator, 50)
    for result, rows in sorted(done, key=lambda item: item[0].first):
        same(replay.read(rows), result)
    assert replay.context == stream.context
    assert replay.seen == stream.seen


def test_memory_is_constant(calibrator, clean):
    stream = Stream(calibrator)
    rng = np.random.default_rng(0)
    stream.read(clean.logits)
    tracemalloc.start()
    try:
        for _ in range(100):
            stream.read(clean.logits[rng.integers(0, 10_000, 10_000)])
            if stream.seen == 20_000:
                held = tracemalloc.get_traced_memory()[0]
                tracemalloc.reset_peak()
        now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert stream.seen == 1_010_000
    assert now - held < 100_000
    assert peak < 10_000_000


def test_bad_rows_change_nothing(calibrator, clean):
    stream = Stream(calibrator)
    stream.read(clean.logits[:300])
    before = stream.context
    bad = clean.logits[:20].copy()
    bad[7, 3] = np.nan
    with pytest.raises(ValueError, match="row 7 holds NaN"):
        stream(bad)
    with pytest.raises(ValueError, match="must have 10 columns"):
        stream(np.zeros((5, 4)))
    with pytest.raises(ValueError, match="these are probabilities"):
        stream(np.full((9, 10), 0.1))
    assert (stream.context, stream.seen) == (before, 300)


@pytest.mark.parametrize(("n", "after"), [(1, 0), (5, 3), (7, 0), (9000, 1), (20_000, 3)])
@pytest.mark.parametrize("where", ["commit", "alarm"])
def test_an_interrupt_leaves_no_trace(where, n, after, calibrator, clean, foggy, monkeypatch):
    """Of a row or a few, of one piece of rows and of several; the window and the alarm agree."""
    z = mixed_rows(clean, foggy, 600)
    stream, other = Stream(calibrator, 100), Stream(calibrator, 100)
    for one in (stream, other):
        one.read(z[:301])
    few = n < 7
    place, name = {
        ("commit", True): ("wildcal._old.stream.window.Window", "commit_row"),
        ("commit", False): ("wildcal._old.stream.window.Window", "commit"),
        ("alarm", True): ("wildcal._old.stream.one_row", "follow_row"),
        ("alarm", False): ("wildcal._old.stream.stream", "follow"),
    }[where, few]
    real, calls = getattr(pkgutil.resolve_name(place), name), []

    def interrupted(*args):
        found = real(*args)
        calls.append(name)
        if len(calls) > after:
            raise KeyboardInterrupt
        return found

    with monkeypatch.context() as patch:
        patch.setattr(f"{place}.{name}", interrupted)
        with pytest.raises(KeyboardInterrupt):
            stream.read(np.resize(foggy.logits, (n, 10)))
    assert (stream.seen, stream.context, stream.drift) == (301, other.context, other.drift)
    assert stream.estimated_accuracy == other.estimated_accuracy
    same(stream.read(z[301:]), other.read(z[301:]))
    assert stream.drift.alarm == other.drift.alarm


def test_options_are_checked(calibrator, clean):
    for window in (0, -1, 2.5, True, 100_001, "256"):
        with pytest.raises(ValueError, match="window must be a whole number from 1 to 100000"):
            Stream(calibrator, window)
    for rate in (0.0, 1.0, 1, float("nan"), "0.1"):
        with pytest.raises(ValueError, match="false_alarms must be a number"):
            Stream(calibrator, false_alarms=rate)
    with pytest.raises(wildcal._old.core.errors.NotFittedError):
        Stream(ContextScaling())
    scaled = wildcal.TemperatureScaling().fit(clean.logits, clean.y)
    with pytest.raises(ValueError, match="must be a ContextScaling, got TemperatureScaling"):
        Stream(scaled)


def test_without_environments_the_accuracy_is_unknown(clean):
    """Nothing tells how far mean confidence and accuracy are apart under shift."""
    calibrator = ContextScaling().fit(clean.logits, clean.y)
    stream = Stream(calibrator)
    rows = stream.read(clean.logits[:500])
    assert (rows.accuracy_low == 0).all()
    assert (rows.accuracy_high == 1).all()
    estimate = stream.estimated_accuracy
    assert (estimate.low, estimate.high) == (0, 1)
    assert 0 < estimate.value < 1


def test_an_estimate_is_of_one_moment(calibrator, clean, foggy):
    """Rows that another thread lets in meanwhile are in all of it, or in none."""
    stream, later = Stream(calibrator, 100), Stream(calibrator, 100)
    stream.read(clean.logits[:100])
    later.read(foggy.logits[:100])
    expected = stream.estimated_accuracy
    moments = iter([stream._window.totals] + [later._window.totals] * 9)

    class Moving:
        totals = property(lambda self: next(moments))
        context = property(lambda self: self.totals.context)

    stream._window = Moving()
    assert stream.estimated_accuracy == expected
