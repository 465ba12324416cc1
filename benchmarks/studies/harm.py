"""Find out how often a calibrator makes matters worse, on real models and with few labels.

    python benchmarks/studies/harm.py --data DIR    a quarter of an hour on one core; harm.csv

Every model is trained on a third of its data. Of the other rows, n are drawn to be the labels that
a method is fitted on, and up to 2,000 of what is left are the test; anew for each of 20 draws. A
draw is harmed if the test NLL is more than 0.5 % above that of no calibration. Probabilities of the
truth count as 1e-7 where they are less. Excess ECE is that beyond the ECE of a perfect model on as
many rows. What is done is kept in --work by the commit that did it, where another run goes on.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import csv
import json
import platform
import subprocess
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from harm_data import Pair, pairs
from harm_methods import METHODS, calibrated
from rich.console import Console
from rich.progress import Progress
from scipy.stats import t as student

from wildcal import __version__
from wildcal._old.metrics import excess_ece

HERE = Path(__file__).parent
SIZES = (50, 100, 500, 5000)
N_TEST, LEAST_TEST = 2000, 250
HARM, SMALLEST = 0.005, 1e-7


def commit() -> str:
    """Return the short hash of the code that runs."""
    words = ["git", "-C", str(HERE), "describe", "--always", "--dirty"]
    return subprocess.run(words, capture_output=True, text=True).stdout.strip() or "unknown"


def held_out(pair: Pair, work: Path) -> tuple[Any, Any]:
    """Return the scores and labels of a pair, made once."""
    path = work / f"{pair.name}.npz"
    if not path.exists():
        z, y = pair.make()
        new = path.with_suffix(f".{os.getpid()}.npz")
        np.savez(new, z=z, y=y)
        new.replace(path)
    with np.load(path) as arrays:
        return arrays["z"], arrays["y"]


def measure(pair: Pair, z: Any, y: Any, n: int, draws: int) -> dict[str, Any]:
    """Return nll and excess ECE of every method in every draw."""
    found: dict[str, Any] = {method: {"nll": [], "excess_ece": []} for method in METHODS}
    for draw in range(draws):
        order = np.random.default_rng([n, draw]).permutation(len(y))
        tune, test = order[:n], order[n : n + N_TEST]
        for method in METHODS:
            proba = np.asarray(calibrated(method, z[tune], y[tune], z[test], pair.raw), np.float64)
            truth = np.maximum(proba[np.arange(len(test)), y[test]], SMALLEST)
            found[method]["nll"].append(float(-np.log(truth).mean()))
            found[method]["excess_ece"].append(float(excess_ece(y[test], proba)))
    return found


def run(options: argparse.Namespace, code: str) -> list[tuple[Pair, int, dict[str, Any]]]:
    """Return all draws, those of an earlier run included."""
    done = options.work / code
    done.mkdir(parents=True, exist_ok=True)
    results = []
    with Progress(console=Console(stderr=True)) as progress:
        for pair in progress.track(list(pairs(options.models, options.data))):
            if options.half not in ("all", pair.half):
                continue
            z, y = held_out(pair, done)
            for n in SIZES:
                if len(y) - n < LEAST_TEST:
                    continue
                path = done / f"{pair.name}, {n}, {options.draws}.json"
                if not path.exists():
                    found = measure(pair, z, y, n, options.draws)
                    new = path.with_suffix(f".{os.getpid()}")
                    new.write_text(json.dumps(found))
                    new.replace(path)
                results.append((pair, n, json.loads(path.read_text())))
    return results


def interval(values: Any) -> tuple[str, str, str]:
    """Return the mean with the 95 % interval of it."""
    mean, error = np.mean(values), np.std(values, ddof=1) / np.sqrt(len(values))
    half = student.ppf(0.975, len(values) - 1) * error
    return f"{mean:.5f}", f"{mean - half:.5f}", f"{mean + half:.5f}"


def main() -> None:
    """Run the study and write its csv."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="where the text sets are; without, none")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--models", type=int, default=1, help="for each table")
    halves = ("all", "tuning", "confirming", "fresh", "known")
    parser.add_argument("--half", choices=halves, default="all")
    parser.add_argument("--work", type=Path, default=HERE.parents[1] / "runs" / "harm")
    parser.add_argument("-o", "--output", type=Path, default=HERE / "harm.csv")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    code, start = commit(), time.time()  # now, before the csv itself makes the checkout dirty
    results = run(options, code)
    versions = f"scikit-learn {sklearn.__version__}, python {platform.python_version()}"
    with options.output.open("w", newline="") as file:
        writer = csv.writer(file)
        ends = [f"{what}{end}" for what in ("nll", "change", "excess_ece")
                for end in ("", "_low", "_high")]  # fmt: skip
        writer.writerow(("data", "model", "half", "classes", "labels", "method", "draws", "harmed",
                         "worst", *ends, "wildcal", "commit", "versions"))  # fmt: skip
        for pair, n, found in results:
            classes = held_out(pair, options.work / code)[0].shape[1]
            before = np.array(found["identity"]["nll"])
            for method, values in found.items():
                change = np.array(values["nll"]) / before - 1
                numbers = [*interval(values["nll"]), *interval(change),
                           *interval(values["excess_ece"])]  # fmt: skip
                writer.writerow((pair.data, pair.model, pair.half, classes, n, method, len(change),
                                 int((change > HARM).sum()), f"{change.max():.5f}", *numbers,
                                 __version__, code, versions))  # fmt: skip
    print(f"wrote {options.output} in {time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
