"""Predictions of a model with their labels, kept in a folder that git ignores."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Predictions:
    """Scores (n_samples, n_classes) of a model that never saw the samples, with labels.

    `input` is "logits" or "proba". `domain` numbers the domain of each sample, if there are any;
    `domain_names` has their names, the source domain first.
    """

    X: Any
    y: Any
    input: str = "logits"
    domain: Any = None
    domain_names: Sequence[str] = field(default_factory=tuple)


@dataclass(frozen=True)
class Source:
    """A model of some data, and how to get its predictions."""

    data: str
    model: str
    kind: str
    make: Callable[[], Predictions]

    @property
    def name(self) -> str:
        return f"{self.data}, {self.model}"

    @property
    def file_name(self) -> str:
        return self.name.replace("/", "-").replace(", ", "--").replace(" ", "-")

    def load(self, folder: Path) -> Predictions:
        """Return the predictions, made once and kept in a folder."""
        path = folder / f"{self.file_name}.npz"
        if not path.exists():
            save(self.make(), path)
        with np.load(path) as a:
            domain = a["domain"] if "domain" in a else None
            head = json.loads(str(a["head"]))
            return Predictions(a["X"], a["y"], head["input"], domain, head["domain_names"])


def save(predictions: Predictions, path: Path) -> None:
    """Write predictions in single precision."""
    arrays = {"X": np.asarray(predictions.X, np.float32), "y": np.asarray(predictions.y, np.int64)}
    if predictions.domain is not None:
        arrays["domain"] = np.asarray(predictions.domain, np.int16)
    head = {"input": predictions.input, "domain_names": list(predictions.domain_names)}
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new.npz")
    np.savez_compressed(new, head=json.dumps(head), **arrays)
    new.replace(path)
