"""Excess ECE of `ContextScaling` itself with the former, the shipped and the refitted numbers."""

from collections.abc import Iterator

import numpy as np
from context_belief_fit import FORMER, Fitted
from context_windows import CORRUPTIONS, OTHERS, Source, group, other_mix

from wildcal import ContextScaling
from wildcal.core.rows import Rows
from wildcal.metrics import ece, noise_floor

SIZES = (128, 32)
MIX, MIX_WINDOWS = 0.3, 3
STREAM = 512
MOST_IN_STREAM = 17 * STREAM
FORMERLY, NOW, LEFT_OUT, TAUGHT = (
    "former numbers",
    "shipped numbers",
    "kinds left out",
    "shipped numbers, environments",
)


def measure(
    source: Source, folds: dict[str, int], fitted: list[Fitted]
) -> Iterator[tuple[str, str, str, float, float]]:
    """Yield method, shifts, regime, excess ECE and accuracy off by, each a mean over cells.

    `fitted` are the numbers of each fold, to which its kinds are new. What was taught by
    environments has seen the labels of the validation corruptions.
    """
    former, now, new, taught = calibrators(source)
    by_method = {FORMERLY: [former] * len(fitted), NOW: [now] * len(fitted)}
    by_method[LEFT_OUT] = [with_model(new(), one, source.n_classes) for one in fitted]
    by_method[TAUGHT] = [taught] * len(fitted)
    found: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    for shifts, regime, fold, windows in draw(source, folds, np.random.default_rng(1)):
        for method, by_fold in by_method.items():
            pair = score(source, by_fold[fold], windows)
            found.setdefault((method, shifts, regime), []).append(pair)
    for names, pairs in found.items():
        excess, off = np.mean(pairs, axis=0)
        yield *names, float(excess), float(off)


def calibrators(source: Source):
    """Return the calibrator of before, the present one, its maker, and one with environments."""
    clean = source.cell == 0

    def new() -> ContextScaling:
        return ContextScaling().fit(source.logits[clean], source.y[clean])

    former, before = new(), FORMER[source.n_classes]
    former.belief_ = 1
    former.beta_p_, former.beta_2_, former.beta_g_, former.lam_ = before.numbers()[:4]
    cells = [i for i, kind in enumerate(source.kinds) if i == 0 or group(kind) == CORRUPTIONS]
    keep = np.isin(source.cell, cells)
    taught = ContextScaling().fit(
        source.logits[keep], source.y[keep], environment=source.cell[keep]
    )
    return former, new(), new, taught


def with_model(calibrator: ContextScaling, fitted: Fitted, n_classes: int) -> ContextScaling:
    """Return the calibrator with a belief that no file has: it is the same for all networks."""
    model = fitted.models[n_classes]
    calibrator.model = lambda: model  # type: ignore[method-assign]
    return calibrator


def draw(
    source: Source, folds: dict[str, int], rng: np.random.Generator
) -> Iterator[tuple[str, str, int, list[np.ndarray]]]:
    """Yield shifts, regime, fold and windows: of each cell, then of streams of each fold."""
    for cell, kind in list(enumerate(source.kinds))[1:]:
        rows, where = source.rows(cell), group(kind)
        yield where, "whole", folds[kind], [rows]
        for size in SIZES:
            if len(rows) >= size:
                yield where, f"{size} rows", folds[kind], cut(rng.permutation(rows), size)
        mixes = [
            rows[other_mix(rng, source.y[rows], source.n_classes, MIX)] for _ in range(MIX_WINDOWS)
        ]
        yield where, f"Dirichlet({MIX})", folds[kind], mixes
    for shifts in (CORRUPTIONS, OTHERS):
        for fold in sorted(set(folds.values())):
            mine = [
                cell
                for cell, kind in enumerate(source.kinds)
                if cell and group(kind) == shifts and folds[kind] == fold
            ]
            if mine:
                pool = rng.permutation(np.flatnonzero(np.isin(source.cell, mine)))[:MOST_IN_STREAM]
                clean = rng.permutation(source.rows(0))[: len(pool) // 5]
                windows = cut(rng.permutation(np.concatenate([pool, clean])), STREAM)
                if windows:  # the tuning splits of a hundred classes are small
                    yield shifts, "stream, 1/6 clean", fold, windows


def cut(rows: np.ndarray, size: int) -> list[np.ndarray]:
    """Return whole windows of some size."""
    return list(rows[: len(rows) // size * size].reshape(-1, size))


def score(source: Source, fitted: ContextScaling, windows: list[np.ndarray]) -> tuple[float, float]:
    """Return the excess ECE over all windows, and how far their confidence is from accuracy."""
    rows = np.concatenate(windows)
    number = np.repeat(np.arange(len(windows)), [len(window) for window in windows])
    found = fitted.bind(Rows(source.logits[rows], window=number)).confidences()
    confidence = np.minimum(found.astype(float), 1.0)
    correct = source.logits[rows].argmax(axis=1) == source.y[rows]
    off = abs(float((confidence - correct).mean()))
    return ece(correct, confidence) - noise_floor(confidence), off
