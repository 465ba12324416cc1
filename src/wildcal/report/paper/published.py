"""Numbers published in the paper, by data set and family of networks."""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from wildcal.report.paper.names import family


@dataclass(frozen=True)
class Published:
    """A row of the paper, in per cent."""

    table: str
    labels: tuple[str, ...]
    """Data set, network and, in some tables, metric or OOD set."""
    values: dict[str, float]
    """By the title of the method; energy scaling is "Energy", in the paper "Ours"."""
    error: str | None = None
    """A known error of the row."""


def published_row(table: str, labels: tuple[str, ...]) -> Published | None:
    """Return the paper's row for a data set, a network of the same family, and other labels."""
    data, network, *more = labels
    for row in _rows():
        is_same = row.table == table and (row.labels[0], *row.labels[2:]) == (data, *more)
        if is_same and family(network) is not None and family(row.labels[1]) == family(network):
            return row
    return None


@cache
def _rows() -> list[Published]:
    text = (files("wildcal.report.paper") / "paper_tables.json").read_text("utf-8")
    return [Published(**{**row, "labels": tuple(row["labels"])}) for row in json.loads(text)]
