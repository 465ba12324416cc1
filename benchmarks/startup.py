"""How long it takes to start: imports and small commands, each in fresh interpreters.

    python benchmarks/startup.py --output benchmarks/startup.csv

Processor time, the least of several turns in which all take part. The file that is fitted has 500
rows of 10 classes, so a command is all start-up. Modules are compiled in the first turn and read as
bytecode in the others, as after `pip install`, whatever the environment says of bytecode.
"""

import argparse
import csv
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

WORDS = {
    "python": ["-c", "pass"],
    "import numpy": ["-c", "import numpy"],
    "import wildcal": ["-c", "import wildcal"],
    "wildcal --help": ["-m", "wildcal", "--help"],
    "wildcal fit --method ts": ["-m", "wildcal", "fit", "{rows}", "-q", "--method", "ts"],
    "wildcal fit": ["-m", "wildcal", "fit", "{rows}", "-q"],
}
"""What is started, by the words it has on the page."""


def seconds(words: list[str], rows: str, folder: str) -> float:
    """Return the processor time of a fresh interpreter."""
    command = [sys.executable, *(word.format(rows=rows) for word in words)]
    if rows in command:
        command += ["--output", f"{folder}/made.json"]
    installed = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": f"{folder}/bytecode"}
    environment = {**os.environ, **ONE_THREAD, **installed}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "WILDCAL_THREADS"), "1")


def main() -> None:
    """Measure, print, and write a csv."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, 500)
    z = 2 * rng.standard_normal((500, 10)) + 4 * np.eye(10)[y]
    with tempfile.TemporaryDirectory() as folder:
        rows = f"{folder}/rows.npz"
        np.savez(rows, logits=z.astype(np.float32), labels=y)
        least = dict.fromkeys(WORDS, np.inf)
        for _ in range(options.turns):
            for what, words in WORDS.items():
                least[what] = min(least[what], seconds(words, rows, folder))
    for what, used in least.items():
        print(f"{what:26s}{used:7.3f} s")
    if options.output:
        with options.output.open("w", newline="") as file:
            table = csv.writer(file)
            table.writerows([("what", "seconds"), *((a, f"{b:.3f}") for a, b in least.items())])


if __name__ == "__main__":
    main()
