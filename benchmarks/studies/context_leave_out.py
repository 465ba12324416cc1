"""Leave types of shift out of the fit of a context method, and test it on them: tuning splits only.

    python benchmarks/studies/context_leave_out.py                     about a minute
    python benchmarks/studies/context_leave_out.py context context-1   both forms

The method is fitted on the validation corruptions but one, or but two for streams that mix both
with clean rows, and tested on what was left out; and fitted on all of them, and tested on the
transforms. Windows: a whole split, smaller ones down to one row, 200 rows of another class mix, and
the same of clean rows.
Printed: ECE beyond its noise floor / how far mean confidence is from accuracy, both in percent.
"""

import argparse
import itertools
from collections.abc import Iterator

import numpy as np

from wildcal import suites
from wildcal.calibrators import make_calibrator
from wildcal.calibrators.more import WINDOW_METHODS, make_window_method
from wildcal.core.calibrator import Calibrator
from wildcal.core.rows import Rows
from wildcal.io.suite import Suite
from wildcal.metrics import ece, noise_floor

LEFT_OUT = ("speckle_noise", "gaussian_blur", "spatter", "saturate")
METHODS = ("context", "context-1", "match+atc-ne")
SIZES = (512, 128, 32)
MIXES = {"Dirichlet(1)": 1.0, "Dirichlet(0.3)": 0.3, "three classes": None}
MIXED_WINDOW, MIX_WINDOW, MIX_WINDOWS, CLEAN_ROWS, SINGLE_ROWS = 512, 200, 8, 1000, 300
CLEAN_MIX, CLEAN_MIX_WINDOWS = 0.5, 20
OF_TRANSFORMS = ("whole", "128 rows", "32 rows", "Dirichlet(0.3)")


class Tuning:
    """The tuning rows of one network, with the split and the type of each row."""

    def __init__(self, suite: Suite) -> None:
        splits = [*suite.tune("none"), *suite.tune("covariate")]
        self.logits = np.concatenate([split.logits for split in splits])
        self.y = np.concatenate([split.y for split in splits])
        self.split = np.repeat(np.arange(len(splits)), [len(split.y) for split in splits])
        self.types = [split.corruption for split in splits]
        self.correct = self.logits.argmax(axis=1) == self.y

    def of_types(self, types: tuple[str, ...]) -> list[int]:
        """Return the numbers of the splits of some types."""
        return [i for i, kind in enumerate(self.types) if kind in types]

    def fit(self, method: str, left: tuple[str, ...]) -> Calibrator:
        """Return the method fitted without some types."""
        teach = tuple(kind for kind in LEFT_OUT if kind not in left)
        keep = np.isin(self.split, [0, *self.of_types(teach)])
        number = np.unique(self.split[keep], return_inverse=True)[1]
        calibrator = make(method)
        if "environment" in calibrator.reads:
            return calibrator.fit(self.logits[keep], self.y[keep], environment=number)
        clean = self.split == 0
        return calibrator.fit(self.logits[clean], self.y[clean])

    def score(self, fitted: Calibrator, windows: list[np.ndarray]) -> tuple[float, float]:
        """Return the excess ECE over all windows, and the mean distance from accuracy."""
        rows = np.concatenate(windows)
        number = np.repeat(np.arange(len(windows)), [len(window) for window in windows])
        found = fitted.bind(Rows(self.logits[rows], window=number)).confidences()
        confidence, correct = np.minimum(found.astype(float), 1.0), self.correct[rows]
        off = np.bincount(number, confidence - correct) / np.bincount(number)
        return ece(correct, confidence) - noise_floor(confidence), float(np.abs(off).mean())


def cut(rows: np.ndarray, size: int) -> list[np.ndarray]:
    """Return whole windows of some size."""
    return list(rows[: len(rows) // size * size].reshape(-1, size))


def other_mix(rng: np.random.Generator, y: np.ndarray, strength: float | None) -> np.ndarray:
    """Return the positions of rows drawn with another class mix."""
    k = int(y.max()) + 1
    if strength is None:
        prior = np.isin(np.arange(k), rng.choice(np.unique(y), 3, replace=False)).astype(float)
    else:
        prior = rng.dirichlet(np.full(k, strength))
    weight = (prior / np.maximum(np.bincount(y, minlength=k), 1))[y]
    return rng.choice(len(y), MIX_WINDOW, p=weight / weight.sum())


def windows_of(
    tuning: Tuning, split: int, rng: np.random.Generator
) -> Iterator[tuple[str, list[np.ndarray]]]:
    """Yield each regime with its windows of one split."""
    rows = np.flatnonzero(tuning.split == split)
    yield "whole", [rows]
    for size in SIZES:
        yield f"{size} rows", cut(rng.permutation(rows), size)
    yield "1 row", cut(rng.permutation(rows)[:SINGLE_ROWS], 1)
    for name, strength in MIXES.items():
        drawn = [other_mix(rng, tuning.y[rows], strength) for _ in range(MIX_WINDOWS)]
        yield name, [rows[some] for some in drawn]


def clean_windows(
    tuning: Tuning, rng: np.random.Generator
) -> Iterator[tuple[str, list[np.ndarray]]]:
    """Yield each regime with its windows of clean rows."""
    rows = np.flatnonzero(tuning.split == 0)
    for size in SIZES:
        yield f"clean, {size} rows", cut(rng.permutation(rows), size)
    drawn = [other_mix(rng, tuning.y[rows], CLEAN_MIX) for _ in range(CLEAN_MIX_WINDOWS)]
    yield "clean, Dirichlet(0.5)", [rows[some] for some in drawn]


def stream(
    tuning: Tuning, splits: list[int], rng: np.random.Generator, few: bool
) -> list[np.ndarray]:
    """Return windows of a stream that mixes splits with clean rows, of which a sixth if few."""
    parts = [rng.permutation(np.flatnonzero(tuning.split == i)) for i in splits]
    clean = rng.permutation(np.flatnonzero(tuning.split == 0))[:CLEAN_ROWS]
    parts = [part[: 5 * CLEAN_ROWS // len(splits)] for part in parts] if few else parts
    return cut(rng.permutation(np.concatenate([clean, *parts])), MIXED_WINDOW)


def measure(method: str, suite: Suite) -> dict[str, np.ndarray]:
    """Return the mean over types and cells of each regime: excess ECE, and accuracy off by."""
    found: dict[str, list[tuple[float, float]]] = {}
    tuning, rng = Tuning(suite), np.random.default_rng(0)
    streams = (("mixed", False), ("mixed, 1/6 clean", True))

    def test(fitted: Calibrator, regime: str, windows: list[np.ndarray]) -> None:
        if windows:  # splits of few rows have none of the larger ones
            found.setdefault(regime, []).append(tuning.score(fitted, windows))

    for left in LEFT_OUT:
        fitted = tuning.fit(method, (left,))
        for split in tuning.of_types((left,)):
            for regime, windows in windows_of(tuning, split, rng):
                test(fitted, regime, windows)
    for pair in itertools.combinations(LEFT_OUT, 2):
        fitted = tuning.fit(method, pair)
        for regime, few in streams:
            test(fitted, regime, stream(tuning, tuning.of_types(pair), rng, few))
    fitted = tuning.fit(method, ())
    for regime, windows in clean_windows(tuning, rng):
        test(fitted, regime, windows)
    others = [i for i, kind in enumerate(tuning.types) if i and kind not in LEFT_OUT]
    for split in others:
        for regime, windows in windows_of(tuning, split, rng):
            if regime in OF_TRANSFORMS:
                test(fitted, f"transforms, {regime}", windows)
    if others:
        for regime, few in streams:
            test(fitted, f"transforms, {regime}", stream(tuning, others, rng, few))
    return {regime: np.mean(values, axis=0) for regime, values in found.items()}


def make(method: str) -> Calibrator:
    """Return an unfitted method, of the registry or one that reads a window."""
    return make_window_method(method) if method in WINDOW_METHODS else make_calibrator(method)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("methods", nargs="*", default=["context"])
    for method in parser.parse_args().methods:
        found = [measure(method, suites.load(name)) for name in suites.names("cifar10")]
        for regime in found[0]:
            excess, off = 100 * np.mean([values[regime] for values in found], axis=0)
            print(f"{method:12} {regime:28} {excess:5.2f} / {off:4.1f}", flush=True)


if __name__ == "__main__":
    main()
