"""Commands while the disk is full, another writes to the same place, or the pipe is shut."""

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from benchmarks.campaign.attack import Attack, FindingError
from benchmarks.campaign.kills import COMMANDS, hashes, rows_and_calibrator, run, whole

Rng = np.random.Generator


def _limited(words: list[str], out: Path, limit: Callable[[], None]) -> tuple[int, str]:
    """Return exit code and stderr of a command that was limited before it began."""
    done = subprocess.run(
        [sys.executable, "-m", "wildcal", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        preexec_fn=limit,  # the child is single-threaded then
    )
    left = [path.name for path in out.rglob(".*")]
    if left:
        raise FindingError(f"{words[0]} left {left}")
    if "Traceback" in done.stderr:
        raise FindingError(f"{words[0]}: {done.stderr.splitlines()[-1]}")
    return done.returncode, done.stderr


def _full_disk(rng: Rng) -> None:
    """Write up to a limit on the size of each file, which stands for the end of the disk."""
    name = str(rng.choice(list(COMMANDS)))
    wanted = whole(name)[1]
    most = int(10 ** rng.uniform(1, 5.5))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        words = COMMANDS[name].format(data=rows_and_calibrator(), out=out).split()
        limit = (resource.RLIMIT_FSIZE, (most, most))
        code, said = _limited(words, out, lambda: resource.setrlimit(*limit))
        found = {file: seal for file, seal in hashes(out).items() if ".suite" not in file}
        if any(wanted.get(file) != seal for file, seal in found.items()):
            raise FindingError(f"{name}: half a file, within {most} bytes")
        if code != 0:
            if "no space is left there" not in said:
                raise FindingError(f"{name}, within {most} bytes: {said.strip()[:150]}")
            raise OSError(said)


def _two_writers(rng: Rng) -> None:
    """Run a command twice at once, into one place."""
    name = str(rng.choice([n for n in COMMANDS if "suite" not in n]))
    wanted = whole(name)[1]
    with tempfile.TemporaryDirectory() as folder:
        both = [run(COMMANDS[name], rows_and_calibrator(), Path(folder)) for _ in range(2)]
        codes = [process.wait() for process in both]
        if codes != [0, 0] or hashes(Path(folder)) != wanted:
            raise FindingError(f"{name} twice at once: exit codes {codes}")


def _shut_pipe(rng: Rng) -> None:
    """Shut the pipe that a command speaks into, after a few bytes."""
    words = str(rng.choice(["methods", "methods --json", "--help", "evaluate {data}/val.npz"]))
    process = subprocess.Popen(
        [sys.executable, "-m", "wildcal", *words.format(data=rows_and_calibrator()).split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    os.read(process.stdout.fileno(), int(rng.integers(1, 500)))
    process.stdout.close()
    said = process.stderr.read().decode()
    process.wait()
    process.stderr.close()
    if "Traceback" in said or "Exception ignored" in said:
        raise FindingError(f"{words} into a shut pipe: {said.splitlines()[-1]}")


ATTACKS = [
    Attack("kills/full-disk", _full_disk, (OSError,), batch=1, seconds=300),
    Attack("kills/two-writers", _two_writers, batch=1, seconds=300),
    Attack("kills/shut-pipe", _shut_pipe, batch=1, seconds=300),
]
