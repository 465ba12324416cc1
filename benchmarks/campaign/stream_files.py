"""States of streams that nobody saved, streams cut in pieces, suites with flipped bytes."""

import functools
import json
import shutil
import tempfile
from pathlib import Path

import numpy as np
from benchmarks.campaign.attack import Attack, FindingError
from benchmarks.campaign.calibrator_files import labeled
from benchmarks.campaign.mutants import broken_bytes, sealed_mutant

from wildcal import ContextScaling, Stream, Suite
from wildcal.core.errors import FileFormatError
from wildcal.io import as_rows
from wildcal.io.suite.compose import Shifted, write_suite

Rng = np.random.Generator


@functools.cache
def _calibrator() -> ContextScaling:
    logits, y, environment = labeled()
    return ContextScaling().fit(logits, y, environment=environment)


@functools.cache
def _state() -> str:
    stream = Stream(_calibrator(), 16)
    stream(labeled(40)[0])
    with tempfile.TemporaryDirectory() as folder:
        stream.save(Path(folder) / "s.json")
        return (Path(folder) / "s.json").read_text()


def _sealed_state(rng: Rng) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.json"
        path.write_text(sealed_mutant(json.loads(_state()), rng))
        stream = Stream.load(path, _calibrator())
    said = stream.read(labeled(50)[0])
    if not (np.isfinite(said.temperature).all() and (said.temperature > 0).all()):
        raise FindingError("a loaded window gives temperatures that are not positive and finite")
    found = stream.estimated_accuracy
    if not 0 <= found.low <= found.value <= found.high <= 1:
        raise FindingError(f"an accuracy of {found}")


def _split_stream(rng: Rng) -> None:
    """Rows in any pieces, saved and loaded in between, are the rows at once."""
    n, window = int(rng.integers(2, 200)), int(rng.integers(1, 60))
    logits = 4 * rng.normal(size=(n, 4)).astype(rng.choice([np.float32, np.float64]))
    whole = Stream(_calibrator(), window)(logits)
    stream, parts = Stream(_calibrator(), window), []
    cuts = np.sort(rng.integers(0, n + 1, size=int(rng.integers(1, 6))))
    with tempfile.TemporaryDirectory() as folder:
        for part in np.split(logits, cuts):
            parts.append(stream(part)) if len(part) else None
            if rng.integers(2):
                stream.save(Path(folder) / "s.json")
                stream = Stream.load(Path(folder) / "s.json", _calibrator())
    if np.concatenate(parts).tobytes() != whole.tobytes():
        raise FindingError(f"cuts at {cuts.tolist()} of window {window} change bits")


@functools.cache
def _suite() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="wildcal-campaign-"))
    logits, y, _ = labeled(60)
    rows = as_rows(logits.astype(np.float32), y)
    suite = write_suite(folder / "suite", rows, rows, shifted=[("fog", Shifted(rows))])
    suite.pack(folder / "packed.npz")
    return folder


def _contents(path: Path) -> list[tuple[str, bytes, bytes]]:
    suite = Suite.open(path, verify=True)  # as comparisons do; else only headers are looked at
    return [(s.name, s.logits.tobytes(), np.asarray(s.y).tobytes()) for s in suite.splits]


@functools.cache
def _original(packed: bool) -> list[tuple[str, bytes, bytes]]:
    return _contents(_suite() / ("packed.npz" if packed else "suite"))


def _flipped_suite(rng: Rng) -> None:
    packed = bool(rng.integers(2))
    with tempfile.TemporaryDirectory() as folder:
        if packed:
            path = Path(folder) / "packed.npz"
            path.write_bytes(broken_bytes((_suite() / "packed.npz").read_bytes(), rng))
        else:
            path = Path(folder) / "suite"
            shutil.copytree(_suite() / "suite", path)
            files = sorted(f for f in path.rglob("*") if f.is_file())
            chosen = files[int(rng.integers(len(files)))]
            chosen.write_bytes(broken_bytes(chosen.read_bytes(), rng))
        found = _contents(path)
    if found != _original(packed):
        raise FindingError("a damaged suite opens with other names or numbers")


ATTACKS = [
    Attack("files/stream-sealed", _sealed_state, (FileFormatError,)),
    Attack("files/suite-bytes", _flipped_suite, (FileFormatError,)),
    Attack("streams/split", _split_stream),
]
