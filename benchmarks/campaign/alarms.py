"""Clean rows by the thousand: alarms at no more than the set rate, and a month with restores."""

import functools
import tempfile
from pathlib import Path

import numpy as np
from benchmarks.campaign.attack import Attack, FindingError
from scipy.stats import binom, poisson

from wildcal import ContextScaling, Stream

Rng = np.random.Generator
_SURE = 1 - 1e-9  # a chance finding in a thousand million trials
_CLASSES, _WINDOW, _RATE = 4, 64, 0.01


def _rows(rng: Rng, n: int) -> np.ndarray:
    return 3 * rng.normal(size=(n, _CLASSES))


def _calibrator(rng: Rng) -> ContextScaling:
    clean = _rows(rng, 4000)
    hard = _rows(rng, 2000) / 2
    logits = np.concatenate([clean, hard])
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return ContextScaling().fit(logits, y, environment=np.repeat([0, 1], [4000, 2000]))


def _by_window(seeds: int, rng: Rng) -> None:
    """Each seed is a stream of twenty windows, each of which is one decision."""
    calibrator, decisions, alarms = _calibrator(rng), 0, 0
    for _ in range(seeds):
        stream = Stream(calibrator, _WINDOW, false_alarms=_RATE)
        said = stream.read(_rows(rng, 20 * _WINDOW)).alarm
        alarms += int(said[_WINDOW - 1 :: _WINDOW].sum())
        decisions += 20
    # The clean rows are known from 4,000, so that decisions share an error: up to twice the rate.
    most = binom.ppf(_SURE, decisions, 2 * _RATE)
    if alarms > most:
        raise FindingError(f"{alarms} alarms in {decisions} decisions at a rate of {_RATE}")


def _at_any_row(seeds: int, rng: Rng) -> None:
    calibrator, raised, rows = _calibrator(rng), 0, 5000
    for _ in range(seeds):
        stream = Stream(calibrator, _WINDOW, alarm="sequential", false_alarms_per_100k=2)
        alarm = stream.read(_rows(rng, rows)).alarm.astype(int)
        raised += int((np.diff(alarm, prepend=0) > 0).sum())
    if raised > poisson.ppf(_SURE, 2 * seeds * rows / 100_000):
        raise FindingError(f"{raised} alarms in {seeds * rows:,} clean rows, 2 in 100,000 allowed")


def _month(days: int, rng: Rng) -> None:
    """Stream a row each second; every night the state is saved, and another goes on from it."""
    calibrator = _calibrator(rng)
    whole, kept = Stream(calibrator, 256), Stream(calibrator, 256)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.json"
        for _ in range(days):
            day = _rows(rng, 86_400).astype(np.float32)
            pieces = np.split(day, np.sort(rng.integers(0, len(day), 40)))
            parts = [kept(piece) for piece in pieces if len(piece)]
            if np.concatenate(parts).tobytes() != whole(day).tobytes():
                raise FindingError(f"other bits after {whole.seen:,} rows")
            kept.save(path)
            kept = Stream.load(path, calibrator)
    if kept.seen != whole.seen or kept.drift != whole.drift:
        raise FindingError("the month ends in another state")


ATTACKS = [
    Attack("streams/alarm-window", functools.partial(_by_window, 10), batch=1),
    Attack("streams/alarm-any-row", functools.partial(_at_any_row, 2), batch=1, seconds=60),
    Attack(
        "streams/alarm-1000-seeds",
        functools.partial(_by_window, 1000),
        batch=1,
        seconds=3600,
        long=True,
    ),
    Attack("streams/month", functools.partial(_month, 30), batch=1, seconds=3600, long=True),
]
