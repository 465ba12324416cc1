"""What the protocol of benchmarks/protocol.py takes at least in NumPy: its bare calls, no more.

    python benchmarks/protocol_floor.py --output benchmarks/protocol-floor.csv

Unpacking and hashing of the rows that are read; softmax, tables and bins of eight methods on blocks
as `map_blocks` cuts them. No fit, no check, no choice of what to do: whatever stands around these
calls comes on top. Processor time, the least of several turns.
"""

import hashlib
import zipfile
import zlib

from turns import keep, least, options_of  # before NumPy: it sets its threads

# ruff: isort: split
import numpy as np

from wildcal import suites
from wildcal.core.blocks import block_rows

SUITE = "cifar10-resnet20"
METHODS, TABLES, N_BINS = 8, 3, 15
# Exponentials: of float32 those of ts, energy, and the raw softmax; of float64, whose bits do not
# depend on the program, those of the isotonic methods and the spline at two temperatures.
NARROW, WIDE = 3, 2


def packed(suite: suites.Suite, splits: list[str]) -> list[tuple[bytes, int]]:
    """Return the packed bytes of logits and labels of some splits, with their true length."""
    found = []
    with zipfile.ZipFile(suite.path) as archive, suite.path.open("rb") as file:
        for info in archive.infolist():
            if info.filename.rsplit(".", 2)[0] in splits and "distances" not in info.filename:
                file.seek(info.header_offset + 26)
                lengths = np.frombuffer(file.read(4), "<u2")
                file.seek(int(lengths.sum()), 1)
                found.append((file.read(info.compress_size), info.file_size))
    return found


def main() -> None:
    """Measure, print, and write a csv."""
    options = options_of(__doc__, turns=20).parse_args()
    suite = suites.load(SUITE)
    tests = [*suite.tests("none"), *suite.tests("covariate")]
    members = packed(suite, [split.name for split in tests])
    unpacked = [zlib.decompress(data, -15, size) for data, size in members]
    rows = sum(split.rows for split in tests)
    k = suite.n_classes
    z = np.concatenate([split.logits for split in tests[:5]])[: block_rows(k)]
    blocks = rows / len(z)
    e = np.ascontiguousarray(z.T)
    top, out, wide, p = e.max(axis=0), np.empty_like(e), e.astype(np.float64), np.empty_like(e)
    shifted = e - top
    cell = (e.view(np.int32) >> 13) & 0xFFFF
    values, table = np.empty(e.shape), np.random.default_rng(0).random(1 << 16)
    confidence = np.random.default_rng(0).random(len(z)) ** 0.2
    index = (confidence * N_BINS).astype(np.intp)

    def narrow() -> None:
        np.exp(shifted, out=out)
        np.add.reduce(out, 0)

    def steady() -> None:
        np.copyto(wide, shifted)
        np.exp(wide, out=wide)
        np.multiply(wide, 1 / np.add.reduce(wide, 0), out=p, casting="same_kind")

    def look_up() -> None:
        for row, to in zip(cell, values, strict=True):
            table.take(row, out=to, mode="clip")
        np.add.reduce(values, 0)

    def bins() -> None:
        for weight in (None, confidence):
            np.bincount((confidence * N_BINS).astype(np.intp), weight, N_BINS)

    calls = {
        "unpack": (lambda: [zlib.decompress(data, -15, size) for data, size in members], 1),
        "SHA-256": (lambda: [hashlib.sha256(data).digest() for data in unpacked], 1),
        "turn, largest": (lambda: (np.copyto(out, z.T), out.max(axis=0)), blocks),
        "exponentials, float32": (narrow, NARROW * blocks),
        "exponentials, float64": (steady, WIDE * blocks),
        "tables of the isotonic methods": (look_up, TABLES * blocks),
        "bins": (bins, METHODS * blocks),
        "noise floors": (lambda: [np.bincount(index, confidence) for _ in "234"], METHODS * blocks),
    }
    seconds = least({what: call for what, (call, _) in calls.items()}, options.turns)
    lines = [("step", "ms")]
    lines += [(what, f"{1e3 * seconds[what] * times:.1f}") for what, (_, times) in calls.items()]
    for line in lines[1:]:
        print(*line)
    keep(lines, options.output)


if __name__ == "__main__":
    main()
