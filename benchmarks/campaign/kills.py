"""Commands that write, killed on their way: nothing half written, and a rerun has the same bytes.

A kill must land. Half of them watch the folder that is written to and strike when something has
appeared there; the others strike after a random share of the time that the whole run took.
"""

import functools
import hashlib
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from benchmarks.campaign.attack import Attack, FindingError
from benchmarks.campaign.calibrator_files import labeled

Rng = np.random.Generator

COMMANDS = {
    "fit": "fit {data}/val.npz --method ts -o {out}/cal.json",
    "fit-auto": "fit {data}/val.npz -o {out}/cal.json",
    "apply": "apply {data}/cal.json {data}/val.npz -o {out}/out.npz",
    "apply-csv": "apply {data}/cal.json {data}/val.npz -o {out}/out.csv",
    "accuracy-fit": "accuracy fit {data}/val.npz -o {out}/acc.json",
    "suite-make": "suite make --tune {data}/val.npz --test {data}/val.npz -o {out}/mine.suite",
}


@functools.cache
def rows_and_calibrator() -> Path:
    """Return a folder with rows and a calibrator for the commands."""
    folder = Path(tempfile.mkdtemp(prefix="wildcal-campaign-"))
    logits, y, _ = labeled(3000)
    np.savez(folder / "val.npz", logits=logits.astype(np.float32), y=y)
    run("fit {data}/val.npz --method ts -o {data}/cal.json", folder, folder).wait()
    return folder


def run(words: str, data: Path, out: Path) -> subprocess.Popen[bytes]:
    """Start a command that nobody listens to."""
    arguments = words.format(data=data, out=out).split()
    return subprocess.Popen(
        [sys.executable, "-m", "wildcal", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@functools.cache
def whole(name: str) -> tuple[float, dict[str, str]]:
    """Return how long the command takes, and the hashes of what it writes."""
    data = rows_and_calibrator()
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        if run(COMMANDS[name], data, Path(folder)).wait() != 0:
            raise FindingError(f"{name} failed by itself")
        return time.monotonic() - start, hashes(Path(folder))


def hashes(folder: Path) -> dict[str, str]:
    """Return the hashes of the files below a folder, hidden ones aside."""
    files = (f for f in folder.rglob("*") if f.is_file() and not f.name.startswith("."))
    return {str(f.relative_to(folder)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


def _killed(rng: Rng) -> None:
    name = str(rng.choice(list(COMMANDS)))
    how = signal.Signals(int(rng.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT])))
    took, wanted = whole(name)
    watch, share = bool(rng.integers(2)), float(rng.random())
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        process = run(COMMANDS[name], rows_and_calibrator(), out)
        end = time.monotonic() + (10 * took if watch else share * took)
        while process.poll() is None and time.monotonic() < end:
            if watch and any(out.iterdir()):
                break
            time.sleep(0.0005)
        process.send_signal(how)
        process.wait()
        found = hashes(out)
        single = {file: seal for file, seal in found.items() if ".suite" not in file}
        if any(wanted.get(file) != seal for file, seal in single.items()):
            raise FindingError(f"{name} and {how.name}: half a file, {sorted(found)}")
        if found == wanted:
            return  # it was done already
        if run(COMMANDS[name], rows_and_calibrator(), out).wait() != 0 or hashes(out) != wanted:
            raise FindingError(f"{name} after {how.name}: the rerun is not the same")


ATTACKS = [Attack("kills/commands", _killed, batch=1, seconds=300)]
