"""Find out how well the accuracy of a network can be told without labels, and by which method.

    python benchmarks/studies/accuracy.py            some minutes on one core; writes accuracy.csv
    python benchmarks/studies/accuracy.py --parts environments    that part anew
    python benchmarks/studies/accuracy.py --quick    one network, whole windows, writes nothing

Tuning splits alone, the four validation corruptions at five severities: each type is estimated by
estimators that were fitted on the clean rows and on the other three types ("environments"), or on
the clean rows alone ("clean labels"); and so without temperature scaling ("unscaled"). Windows
are whole splits of 1,000 rows, smaller ones, and windows with other class mixes. The two networks
of `gde` differ in architecture, because each shipped network was trained once; they are two that
were shown the same images.
"""

import argparse
import csv
import os
import platform
import subprocess
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import scipy

from wildcal import __version__
from wildcal._old import suites
from wildcal._old.accuracy import ESTIMATORS, compare_estimators
from wildcal._old.accuracy.compare import SETTINGS, Cell, summarize
from wildcal._old.io.suite import Suite

HERE = Path(__file__).parent
CSV = HERE / "accuracy.csv"
TUNED_ON = ("speckle_noise", "gaussian_blur", "spatter", "saturate")
"""The corruptions that the ImageNet-C authors set aside for validation."""
ALL = "all networks"
DRAWS = 2
PARTS = {
    "environments": {},
    "clean labels": {"environments": False},
    "unscaled": {"scaled": False, "environments": False, "settings": ("whole",)},
}
NUMBERS = ("mae", "worst", "bias", "spearman", "coverage", "width", "warned")
FIELDS = ("part", "network", "setting", "estimator", "windows", *NUMBERS, "wildcal", "commit",
          "versions")  # fmt: skip


def commit() -> str:
    """Return the short hash of the code that runs."""
    words = ["git", "-C", str(HERE), "describe", "--always", "--dirty"]
    return subprocess.run(words, capture_output=True, text=True).stdout.strip() or "unknown"


def rows(part: str, network: str, cells: list[Cell]) -> list[dict[str, str]]:
    """Return the lines of the csv for some cells."""
    lines = []
    for record in summarize(cells):
        line = {"part": part, "network": network, **{k: str(v) for k, v in record.items()}}
        line |= {key: f"{record[key]:.5f}" for key in NUMBERS}
        lines.append(line)
    return lines


def second_network(loaded: dict[str, Suite], others: tuple[str, ...], name: str) -> Suite | None:
    """Return the first other network with the same rows."""
    splits = [s for s in loaded[name].tune("covariate") if s.corruption in TUNED_ON]
    for other in others:
        if all(np.array_equal(s.y, loaded[other].split(s.name).y) for s in splits):
            return loaded[other]
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one network, whole windows")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS),
                        help="measure these anew, and keep the rest of the csv")  # fmt: skip
    parser.add_argument("--output", type=Path, default=CSV)
    arguments = parser.parse_args()
    start = time.time()
    versions = f"numpy {np.__version__}, scipy {scipy.__version__}"
    company = {"wildcal": __version__, "commit": commit()}
    company["versions"] = f"{versions}, python {platform.python_version()}"
    names = suites.names("cifar10")
    loaded = {name: suites.load(name) for name in names}
    lines: list[dict[str, str]] = []
    for part, options in ((part, PARTS[part]) for part in arguments.parts):
        pooled: list[Cell] = []
        for i, name in enumerate(names[:1] if arguments.quick else names):
            chosen = {"settings": ("whole",)} if arguments.quick else {}
            cells = compare_estimators(
                loaded[name],
                second=second_network(loaded, (*names[i + 1 :], *names[:i]), name),
                types=TUNED_ON,
                draws=DRAWS,
                **(options | chosen),
            )
            pooled += cells
            lines += rows(part, name, cells)
            print(f"{part}, {name}: {time.time() - start:.0f} s", flush=True)
        lines += rows(part, ALL, pooled)
    for setting in SETTINGS:
        some = [r for r in lines if r["network"] == ALL and r["setting"] == setting]
        for line in sorted(some, key=lambda r: (r["part"], float(r["mae"]))):
            print(*(f"{line[key]:>24}" for key in ("part", "setting", "estimator", *NUMBERS)))
    if not arguments.quick:
        kept = []
        if set(arguments.parts) != set(PARTS):
            with arguments.output.open(newline="") as file:
                kept = [r for r in csv.DictReader(file) if r["part"] not in arguments.parts]
        with arguments.output.open("w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(kept)
            writer.writerows(line | company for line in lines)
        print(f"wrote {arguments.output} ({len(ESTIMATORS)} estimators)")


if __name__ == "__main__":
    main()
