"""An attack: one numbered trial after another, each of which can be repeated by its number."""

import functools
import os
import resource
import signal
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from benchmarks.campaign.mutants import broken_bytes

MEMORY = 6 << 30
"""Bytes of address space that a trial may use beyond what the process had."""

FILE_MEMORY = 2 << 30
"""The same for one that reads a small file, which may claim 4 GB in a field of 32 bits."""

Trial = Callable[[np.random.Generator], None]


class FindingError(AssertionError):
    """A promise that a trial saw broken."""


class _HangError(BaseException):
    """Not an Exception, so that no code under attack swallows it."""


@dataclass(frozen=True)
class Target:
    """What reads bytes, and the bytes of a right file; also what a guided fuzzer is given."""

    whole: Callable[[], bytes]
    read: Callable[[bytes], None]


@dataclass(frozen=True)
class Attack:
    """Trials of one kind."""

    name: str
    trial: Trial
    expected: tuple[type[Exception], ...] = ()
    """What a trial may raise: the clear refusals."""
    batch: int = 10
    """Trials in a turn."""
    seconds: int = 20
    """A trial that works longer hangs, and so does one that waits fifteen times as long."""
    long: bool = False
    """Minutes a trial: left out of short runs."""
    target: Target | None = None
    """Where a trial is nothing but the reading of bytes."""

    @classmethod
    def on_bytes(cls, name: str, target: Target, expected: tuple[type[Exception], ...]) -> "Attack":
        """Return the attack that breaks the bytes of a right file and reads them."""
        whole = functools.cache(target.whole)

        def trial(rng: np.random.Generator) -> None:
            target.read(broken_bytes(whole(), rng))

        return cls(name, trial, expected, target=target)


@dataclass
class Tally:
    """How an attack went so far; what a campaign keeps between two runs."""

    trials: int = 0
    refused: int = 0
    findings: list[str] = field(default_factory=list)
    seconds: float = field(default=0.0, compare=False)
    """Of processor time, with that of commands that were started."""


def run_trial(attack: Attack, seed: int, number: int, tally: Tally) -> None:
    """Run one trial and count it."""
    rng = np.random.default_rng([seed, zlib.crc32(attack.name.encode()), number])
    tally.trials += 1
    start = sum(os.times()[:4])
    try:
        with _time_limit(attack.seconds), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            attack.trial(rng)
    except attack.expected:
        tally.refused += 1
    except _HangError as error:
        tally.findings.append(f"{attack.name}#{number}: no answer within {error}")
    except Exception as error:
        said = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        tally.findings.append(f"{attack.name}#{number}: {said}")
    tally.seconds += sum(os.times()[:4]) - start


def limit_memory(attack: Attack) -> None:
    """Make an allocation beyond the limit fail instead of the machine; to be called before a turn.

    Allocators keep addresses of what they gave back, which is not held against the next trials. If
    so much is really held, something leaks, and the limit stays where it was.
    """
    pages = Path("/proc/self/statm").read_text().split()[:2]
    used, held = (int(n) * resource.getpagesize() for n in pages)
    if held < MEMORY:
        most = FILE_MEMORY if attack.name.startswith("files/") else MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (used + most, resource.RLIM_INFINITY))


def _queued() -> float:
    """Return for how many seconds this thread was ready and not run, 0 where Linux does not say."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


@contextmanager
def _time_limit(seconds: int) -> Iterator[None]:
    queued = _queued()

    def stop(number: int, _frame: FrameType | None) -> Any:
        nonlocal queued
        of_work = number == signal.SIGPROF
        if not of_work and (now := _queued()) - queued > 7.5 * seconds:
            # It was ready to work for half of the time, and the processor was given to others.
            queued = now
            signal.setitimer(signal.ITIMER_REAL, 15 * seconds)
            return
        raise _HangError(f"{seconds} s of work" if of_work else f"{15 * seconds} s of waiting")

    # By the processor's clock first: on a busy machine an idle trial waits without being at fault.
    clocks = {
        signal.SIGPROF: (signal.ITIMER_PROF, seconds),
        signal.SIGALRM: (signal.ITIMER_REAL, 15 * seconds),
    }
    before = {number: signal.signal(number, stop) for number in clocks}
    for timer, limit in clocks.values():
        signal.setitimer(timer, limit)
    try:
        yield
    finally:
        for number, (timer, _) in clocks.items():
            signal.setitimer(timer, 0)
            signal.signal(number, before[number])
