"""Shifted data: calibrate on some domains, test on a domain that was left out.

By time, the calibration set is the source domain and the domains before the one left out; by place
and by topic it is all others; networks have domains of their own to calibrate and to test on.
The labelled samples are N_SOURCE of the source and N_DOMAIN of each other domain. The window of a
method that adapts is the domain left out, without labels.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.leaderboard import domains, networks, published
from benchmarks.leaderboard.contestants import BASELINE, quietly
from benchmarks.leaderboard.predictions import Predictions, Source
from benchmarks.leaderboard.run import is_usable, read, score, uncalibrated, write
from wildcal import CALIBRATORS, WindowScaling, get_calibrator

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


def folds(source: Source, predictions: Predictions) -> Iterator[tuple[int, list[int]]]:
    """Yield a domain that is left out, and the domains to calibrate on, the source first."""
    names = predictions.domain_names
    test = [d for d, name in enumerate(names) if name.startswith(TEST)]
    known = [d for d in range(len(names)) if d not in test]
    if test and len(known) > 1:
        yield from ((d, known) for d in test)
    elif source.kind.endswith("time"):
        yield from ((d, list(range(d))) for d in range(2, len(names)))
    else:
        everything = range(len(names))
        yield from ((d, [e for e in everything if e != d]) for d in everything[1:])


def run(sources: list[Source], folder: Path, *, progress: Any = None) -> None:
    """Write the scores of all sources; what was computed before is not computed again."""
    for source in sources:
        path = folder / "shift" / f"{source.file_name}.csv"
        done = read(path)
        keys = {(row["n"], row["method"]) for row in done}
        predictions = source.load(folder / "domains")
        if is_usable(predictions):
            scores, y, domain = uncalibrated(predictions), predictions.y, predictions.domain
            head = {"data": source.data, "model": source.model, "kind": source.kind,
                    "n_classes": scores.proba.shape[1]}  # fmt: skip
            rows = [np.flatnonzero(domain == d) for d in range(len(predictions.domain_names))]
            for left_out, known in folds(source, predictions):
                name = predictions.domain_names[left_out].removeprefix(TEST)
                methods = [m for m in contestants() if (name, m) not in keys]
                if not methods:
                    continue
                parts = [rows[d][: N_DOMAIN if i else N_SOURCE] for i, d in enumerate(known)]
                fit, is_in = np.concatenate(parts), np.repeat(known, [len(p) for p in parts])
                test = rows[left_out][:MAX_TEST]
                X = scores.X
                for method in methods:
                    row = head | {"n": name, "draw": 0, "method": method}
                    try:
                        if method == BASELINE:
                            proba = scores.proba[test]
                        else:
                            proba = calibrate(
                                method, X[fit], y[fit], is_in, known[0], X[test], scores.input
                            )
                    except NotImplementedError:
                        continue
                    except Exception as error:
                        row["error"] = f"{type(error).__name__}: {error}".replace("\n", " ")[:80]
                    else:
                        row |= score(y[test], proba)
                    done.append(row)
                write(done, path)
        if progress:
            progress(source)


def calibrate(
    method: str, X: Any, y: Any, domain: Any, source: int, window: Any, input: str
) -> Any:
    """Return probabilities of a window, or raise."""
    name, _, data = method.partition(", ")
    is_source = domain == source
    with quietly():
        if data:
            calibrator = get_calibrator(name)
            if calibrator.requires_raw_logits and input != "logits":
                raise NotImplementedError
            rows = is_source if data == "source" else slice(None)
            return calibrator.fit(X[rows], y[rows], input=input).predict_proba(window)
        if name.startswith("window on "):
            base = get_calibrator(name.removeprefix("window on "))
            calibrator = WindowScaling(base=base)
        else:
            calibrator = get_calibrator(name)
        calibrator.fit(X, y, input=input, domain=domain, source_domain=source)
        return calibrator.adapt(window).predict_proba(window)
