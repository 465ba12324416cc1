"""Predictions of the networks in the shipped suites."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from benchmarks.leaderboard.predictions import Predictions, Source

from wildcal import suites

MAX_SAMPLES, MAX_VALUES = 10_000, 4_000_000
SEVERITIES = (None, 1, 3, 5)


def sources() -> Iterator[Source]:
    """Yield the in-distribution predictions of every shipped network."""
    for name in suites.list():
        data = name.partition("-")[0]
        yield Source(data, name, "networks", lambda n=name: _in_distribution(n))


def shifted_sources() -> Iterator[Source]:
    """Yield the predictions of every shipped network by domain."""
    for name in suites.list():
        data = name.partition("-")[0]
        yield Source(data, name, "networks", lambda n=name: _by_domain(n))


def read_splits(name: str) -> Iterator[tuple[str, str, bool, int | None, Any, Any]]:
    """Yield name, role, whether it is shifted, severity, logits and labels of each split."""
    for split in suites.load(name).splits:
        if not split.is_ood:
            severity = None if split.severity is None else int(split.severity)
            yield split.name, split.role, split.is_shifted, severity, split.logits, split.y


def _in_distribution(name: str) -> Predictions:
    parts = [(X, y) for _, _, is_shifted, _, X, y in read_splits(name) if not is_shifted]
    X, y = (np.concatenate(column) for column in zip(*parts, strict=True))
    n = min(len(y), MAX_SAMPLES)
    order = np.random.default_rng(0).permutation(len(y))[:n]
    return Predictions(X[order], y[order])


def _by_domain(name: str) -> Predictions:
    """Return the calibration domains, then test domains whose names begin with "test "."""
    domains, names = [], []
    for split, role, is_shifted, severity, X, y in read_splits(name):
        if severity not in SEVERITIES or (role == "test" and not is_shifted):
            continue
        n = min(len(y), MAX_VALUES // X.shape[1] // 8)
        if role == "test":
            domains.append((X[:n], y[:n]))
            names.append(f"test {split}")
        else:
            domains.append((X, y))
            names.append(split)
    order = sorted(range(len(names)), key=lambda i: names[i].startswith("test "))
    X, y = (np.concatenate([domains[i][j] for i in order]) for j in (0, 1))
    domain = np.repeat(np.arange(len(order)), [len(domains[i][1]) for i in order])
    return Predictions(X, y, domain=domain, domain_names=[names[i] for i in order])
