"""One calibrator and one stream, asked by eight threads at once: nothing lost, mixed or changed."""

import functools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from benchmarks.campaign.attack import Attack, FindingError
from benchmarks.campaign.calibrator_files import labeled

from wildcal import Calibrator, ContextScaling, Stream, make_calibrator
from wildcal.calibrators import CALIBRATORS

Rng = np.random.Generator
THREADS, CALLS = 8, 10_000


def _fitted(name: str) -> Calibrator:
    logits, y, environment = labeled()
    calibrator = make_calibrator(name)
    beside = {"environment": environment} if "environment" in calibrator.reads else {}
    return calibrator.fit(logits, y, **beside)


def _one_calibrator(calls: int, rng: Rng) -> None:
    names = list(CALIBRATORS)
    calibrator = _fitted(names[int(rng.integers(len(names)))])
    logits = 4 * rng.normal(size=(997, 4)).astype(np.float32)
    alone = calibrator.predict_proba(logits)

    def ask(number: int) -> None:
        for i in range(calls):
            at = (number * 113 + 7 * i) % 990
            rows = slice(at, at + 1 + i % 3)
            if calibrator.predict_proba(logits[rows]).tobytes() != alone[rows].tobytes():
                raise FindingError(f"{calibrator.name}: other bits for rows {rows}")

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(ask, range(THREADS)))


def _one_stream(calls: int, rng: Rng) -> None:
    calibrator = _fitted("context")
    assert isinstance(calibrator, ContextScaling)
    window = int(rng.integers(1, 100))
    stream = Stream(calibrator, window)
    logits = 4 * rng.normal(size=(1000, 4))

    def ask(number: int) -> int:
        rows = 0
        for i in range(calls):
            part = logits[(number * 113 + i) % 990 :][: 1 + i % 3]
            said = stream.read(part)
            if len(said.confidence) != len(part) or not (said.temperature > 0).all():
                raise FindingError("an answer that does not fit its rows")
            rows += len(part)
        return rows

    with ThreadPoolExecutor(THREADS) as pool:
        total = sum(pool.map(ask, range(THREADS)))
    if stream.seen != total:
        raise FindingError(f"{total} rows were given, and {stream.seen} seen")
    # What was there before has left the window: only these rows count.
    last = 2 * rng.normal(size=(window + 50, 4))
    fresh = Stream(calibrator, window)
    if stream(last)[window:].tobytes() != fresh(last)[window:].tobytes():
        raise FindingError(f"a window of {window} rows remembers more")


def _attacks(ending: str, calls: int, long: bool) -> list[Attack]:
    more = {"batch": 1, "seconds": 3600 if long else 60, "long": long}
    return [
        Attack(f"threads/calibrator{ending}", functools.partial(_one_calibrator, calls), **more),
        Attack(f"threads/stream{ending}", functools.partial(_one_stream, calls), **more),
    ]


ATTACKS = [*_attacks("", 50, False), *_attacks("-10k", CALLS, True)]
