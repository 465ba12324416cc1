"""Models that are trained on the tables, and their scores of held-out samples."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from benchmarks.leaderboard import tables
from benchmarks.leaderboard.predictions import Predictions, Source
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier

from wildcal import logits_from_score
from wildcal.interop.sklearn import mlp_logits

MAX_TRAINING: Final = 3_000
MODELS_PER_TABLE: Final = 4
KINDS: Final = {
    "logistic": lambda: LogisticRegression(max_iter=300),
    "forest": lambda: RandomForestClassifier(100, random_state=0),
    "boosting": lambda: HistGradientBoostingClassifier(random_state=0),
    "mlp": lambda: MLPClassifier(64, max_iter=100, random_state=0),
    "bayes": lambda: GaussianNB(),
    "neighbors": lambda: KNeighborsClassifier(15),
    "logistic-balanced": lambda: LogisticRegression(max_iter=300, class_weight="balanced"),
    "forest-balanced": lambda: RandomForestClassifier(100, class_weight="balanced", random_state=0),
    "boosting-balanced": lambda: HistGradientBoostingClassifier(
        class_weight="balanced", random_state=0
    ),
}
BUNDLED: Final = ("digits",)


def sources() -> Iterator[Source]:
    """Yield four models for each table; all kinds of models come equally often."""
    names = list(KINDS)
    makers = [(f"sklearn/{name}", lambda n=name: _bundled(n)) for name in BUNDLED]
    makers += [(t.name, lambda t=t: tables.load(t)) for t in tables.choose()]
    for i, (data, make) in enumerate(makers):
        for j in range(MODELS_PER_TABLE):
            kind = names[(MODELS_PER_TABLE * i + j) % len(names)]
            yield Source(data, kind, "tables", lambda m=make, k=kind: _held_out(*m(), k))


def _bundled(name: str) -> tuple[Any, Any]:
    import sklearn.datasets

    X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return ((X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9))[order], y[order]


def _held_out(X: Any, y: Any, kind: str) -> Predictions:
    """Train on a third of the samples, and return the scores of the others."""
    n = min(len(y) // 3, MAX_TRAINING)
    return train(kind, X[:n], y[:n])(X[n:], y[n:])


def train(kind: str, X: Any, y: Any) -> Any:
    """Return a function of features and labels that returns predictions of the trained model."""
    model: Any = KINDS[kind]().fit(X, y)

    def predict(X: Any, y: Any) -> Predictions:
        is_known = np.isin(y, model.classes_)
        X, y = X[is_known], np.searchsorted(model.classes_, y[is_known])
        if isinstance(model, MLPClassifier):
            found, is_proba = mlp_logits(model, X), False
        elif hasattr(model, "decision_function"):
            found, is_proba = model.decision_function(X), False
        else:
            found, is_proba = model.predict_proba(X), True
        if found.ndim == 1:
            found = logits_from_score(found)
        return Predictions(found, y, "proba" if is_proba else "logits")

    return predict
