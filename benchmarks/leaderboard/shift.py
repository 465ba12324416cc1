"""Shifted data: calibrate on some domains, test on a domain that was left out.

By time, the calibration set is the source domain and the domains before the one left out; by place
and by topic it is all others; networks have domains of their own to calibrate and to test on.
The labelled samples are N_SOURCE of the source and N_DOMAIN of each other domain. The window of a
method that adapts is the domain left out, without labels.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from benchmarks.leaderboard import domains, networks, published
from benchmarks.leaderboard.contestants import BASELINE, NotForThisData, Scores, quietly
from benchmarks.leaderboard.predictions import Predictions, Source
from benchmarks.leaderboard.run import is_usable, read, score, uncalibrated, write

from wildcal import CALIBRATORS, Calibrator, WindowCalibrator, WindowScaling, get_calibrator

N_SOURCE: Final = 2_000
N_DOMAIN: Final = 500
MAX_TEST: Final = 2_000
REFERENCE: Final = "ts, pooled"
TEST: Final = "test "

POOLED: Final = ("ts", "ets", "energy", "energy-linear", "hts", "vector", "sms", "auto")
SOURCE_ONLY: Final = ("ts", "energy-linear", "auto")
WINDOW_BASES: Final = ("ts", "vector", "auto")
OTHER_WINDOWS: Final = ("match", "label-shift")


def sources(folder: Path | None) -> Iterator[Source]:
    """Yield predictions with domains."""
    yield from domains.sources()
    yield from published.employment_by_year(folder)
    yield from published.mmlu_pro_sources(folder)
    yield from networks.shifted_sources()


def contestants() -> list[str]:
    """Return the names of the contestants; the data of their fit stands after the comma."""
    names = [BASELINE, *(f"{m}, source" for m in SOURCE_ONLY), *(f"{m}, pooled" for m in POOLED)]
    names += [f"window on {base}" for base in WINDOW_BASES]
    return names + [name for name in OTHER_WINDOWS if name in CALIBRATORS]


def folds(source: Source, predictions: Predictions) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield a domain that is left out, and the domains to calibrate on, the source first."""
    names = predictions.domain_names
    test = [d for d, name in enumerate(names) if name.startswith(TEST)]
    known = [d for d in range(len(names)) if d not in test]
    if test and len(known) > 1:
        yield from ((d, tuple(known)) for d in test)
    elif source.kind.endswith("time"):
        yield from ((d, tuple(range(d))) for d in range(2, len(names)))
    else:
        everything = range(len(names))
        yield from ((d, tuple(e for e in everything if e != d)) for d in everything[1:])


def run(sources: list[Source], folder: Path, *, progress: Any = None) -> None:
    """Write the scores of all sources; what was computed before is not computed again."""
    for source in sources:
        path = folder / "shift" / f"{source.file_name}.csv"
        done = read(path)
        keys = {(row["n"], row["method"]) for row in done}
        predictions = source.load(folder / "domains")
        scores = uncalibrated(predictions)
        for left_out, known in folds(source, predictions) if is_usable(predictions) else ():
            name = predictions.domain_names[left_out].removeprefix(TEST)
            methods = [m for m in contestants() if (name, m) not in keys]
            head = {"data": source.data, "model": source.model, "kind": source.kind,
                    "n_classes": predictions.X.shape[1], "n": name, "draw": 0}  # fmt: skip
            if methods:
                rows = measure(predictions, scores, left_out, known, methods)
                done += [head | row for row in rows]
                write(done, path)
        fit.cache_clear()
        if progress:
            progress(source)


def measure(
    predictions: Predictions,
    scores: Scores,
    left_out: int,
    known: tuple[int, ...],
    methods: list[str],
) -> Iterator[dict[str, Any]]:
    """Yield the scores of each contestant on the domain that is left out."""
    test = np.flatnonzero(predictions.domain == left_out)[:MAX_TEST]
    for method in methods:
        row: dict[str, Any] = {"method": method}
        try:
            if method == BASELINE:
                proba = scores.proba[test]
            else:
                with quietly():
                    calibrator = fit(method, Known(predictions, scores, known))
                    if isinstance(calibrator, WindowCalibrator):
                        calibrator = calibrator.adapt(scores.X[test])
                    proba = calibrator.predict_proba(scores.X[test])
        except NotForThisData:
            continue
        except Exception as error:  # a failure is a result
            row["error"] = f"{type(error).__name__}: {error}".replace("\n", " ")[:80]
        else:
            row |= score(predictions.y[test], proba)
        yield row


class Known(NamedTuple):
    """The domains to calibrate on; equal if they are the same domains of the same model."""

    predictions: Predictions
    scores: Scores
    domains: tuple[int, ...]

    def __hash__(self) -> int:
        return hash((id(self.predictions), self.domains))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Known) and hash(self) == hash(other)


@cache
def fit(method: str, known: Known) -> Calibrator:
    """Return a contestant, fitted on labelled samples of the known domains."""
    domain, source = known.predictions.domain, known.domains[0]
    limits = [N_SOURCE, *[N_DOMAIN] * (len(known.domains) - 1)]
    parts = [np.flatnonzero(domain == d)[:m] for d, m in zip(known.domains, limits, strict=True)]
    name, _, data = method.partition(", ")
    rows = parts[0] if data == "source" else np.concatenate(parts)
    options: dict[str, Any] = {}
    if name.startswith("window on "):
        base = get_calibrator(name.removeprefix("window on "))
        calibrator: Calibrator = WindowScaling(base=base)
    else:
        calibrator = get_calibrator(name)
    if not data:
        options = {"domain": domain[rows], "source_domain": source}
    scores = known.scores
    if calibrator.requires_raw_logits and not scores.has_energy:
        raise NotForThisData
    return calibrator.fit(scores.X[rows], known.predictions.y[rows], input=scores.input, **options)
