"""A linear head on given features; its logits as files for `wildcal suite create`."""

import pathlib

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

Features = NDArray[np.float32]
# Weak: what is learnt fits the training samples nearly perfectly, as a fine-tuned network does.
STRENGTH = 1.0


def train(features: Features, y: NDArray[np.int64], seed: int = 0) -> object:
    """Return a multinomial logistic regression on standardized features."""
    head = LogisticRegression(C=STRENGTH, max_iter=2000, random_state=seed)
    return make_pipeline(StandardScaler(), head).fit(features, y)


def write(
    folder: pathlib.Path, head: object, parts: dict[str, tuple[Features, NDArray[np.int64] | None]]
) -> None:
    """Write the logits of every part, with labels if there are any, and say how good they are."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (features, y) in parts.items():
        scores = head.decision_function(features)
        if scores.ndim == 1:  # of two classes there is one score, their difference
            scores = np.stack([-scores / 2, scores / 2], axis=1)
        logits = scores.astype(np.float32)
        labels = {} if y is None else {"y": y}
        np.savez(folder / f"{name}.npz", logits=logits, **labels)
        shifted = logits - logits.max(1, keepdims=True)
        confidence = (1 / np.exp(shifted).sum(1)).mean()
        accuracy = "" if y is None else f"accuracy {100 * (logits.argmax(1) == y).mean():.1f} %, "
        print(f"{name}: {len(logits)} samples, {accuracy}confidence {100 * confidence:.1f} %")


def halves_and_quarters(y: NDArray[np.int64], seed: int) -> tuple[NDArray[np.int64], ...]:
    """Return half the samples to train on, a quarter to tune and a quarter to test on, by class."""
    rng = np.random.default_rng(seed)
    parts: tuple[list[int], ...] = ([], [], [])
    for k in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == k))
        half, rest = len(rows) // 2, len(rows) * 3 // 4
        for part, some in zip(parts, np.split(rows, [half, rest]), strict=True):
            part.extend(some.tolist())
    return tuple(np.sort(part) for part in parts)
