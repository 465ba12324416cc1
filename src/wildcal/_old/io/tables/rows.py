"""One reader for all: files, streams, frames and arrays become logits, labels and their company."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wildcal._old.core.arrays import FloatArray, Labels, Logits, Proba
from wildcal._old.core.checks import check_choice
from wildcal._old.core.kinds import KINDS, Kind
from wildcal._old.core.labels import ClassNames
from wildcal._old.core.labels import read_labels as read_classes
from wildcal._old.core.plain_labels import plain_labels
from wildcal._old.core.rows import Rows
from wildcal._old.io.tables.choose import Chosen, choose
from wildcal._old.io.tables.company import (
    check_length,
    read_distances,
    read_environment,
    read_ids,
    read_weight,
)
from wildcal._old.io.tables.frames import label_array, source_of
from wildcal._old.io.tables.interpret import given_classes, interpret
from wildcal._old.io.tables.naming import PREDICTED, ROLE_NAMES
from wildcal._old.io.tables.opening import open_source
from wildcal._old.io.tables.source import Source, named_after

Columns = Sequence[str | int] | str | None
Classes = Sequence[str | Sequence[str]] | ClassNames | None


@dataclass(frozen=True, slots=True)
class InputRows:
    """Rows as they were declared: logits, and what came with them."""

    logits: Logits
    """Shape (n, K); converted where the kind says so."""
    y: Labels | None = None
    """Class numbers 0..K-1, or -1 for rows of other classes."""
    weight: FloatArray | None = None
    environment: Labels | None = None
    """Which rows belong together; 0 for the clean ones."""
    distances: FloatArray | None = None
    """To training rows, a column for each layer."""
    classes: ClassNames | None = None
    ids: NDArray[Any] | None = None
    kind: str = "logits"
    proba: Proba | None = None
    """With kind="proba", the probabilities themselves, rows summing to one, zeros kept."""
    floor: float | None = None
    """With kind="proba", what a zero was read as; give it to the reader of later rows."""
    pred: Labels | None = None
    """With kind="proba", the class that was predicted, where an array `pred` says so: of equal
    probabilities, the numbers alone do not tell which."""
    notes: tuple[str, ...] = ()
    """What was converted, shared out or left aside."""

    @property
    def rows(self) -> Rows:
        """What calibrators are fitted on and asked about."""
        return Rows(self.logits, self.y, self.weight, self.environment, self.distances)


def read_rows(
    path: str | Path | IO[bytes],
    *,
    kind: Kind = "logits",
    columns: Columns = None,
    label_column: str | int | None = None,
    id_column: str | int | None = None,
    arrays: Mapping[str, str] | None = None,
    labels: str | Path | None = None,
    classes: Classes = None,
    pos_label: Any = None,
    floor: float | None = None,
    judge: bool = True,
    with_labels: bool = True,
    file_format: str | None = None,
) -> InputRows:
    """Return the rows of a file, a binary stream, or "-" for standard input.

    Parameters
    ----------
    path
        .npz .npy .csv .tsv .jsonl .parquet .arrow .feather .safetensors .pt; text also as .gz.
    kind
        What the numbers are: "logits", "proba" (one column: of class 1), "logprobs" (gaps allowed)
        or "score" (log-odds of class 1).
    columns
        The columns of the classes, in their order; `*` stands for anything. Without it they are
        all that have no other name, and a column that looks like an id or a label is refused.
    label_column, id_column
        By name, or by number where the columns have no names.
    arrays
        Names by role, such as {"logits": "predictions", "y": "label_ids"}; also "weight",
        "environment", "distances", "ids".
    labels
        A file of labels alone.
    classes
        The names of the classes in column order; for lists of tokens the label tokens.
    pos_label
        With two classes, the label that column 1, or the one score, stands for.
    floor
        What probabilities of zero are read as; without it `proba_floor` of these rows.
    judge
        False takes the declared kind at its word, without a look at whether the values can be that.
    with_labels
        False leaves the labels aside, unread, whatever they are.
    file_format
        An ending such as "csv", where the path has none.

    Examples
    --------
    >>> import io
    >>> rows = read_rows(io.BytesIO(b'{"cat": 2.5, "dog": 0.1, "label": "cat"}'))
    >>> rows.logits, rows.y, rows.classes.names
    (array([[2.5, 0.1]]), array([0]), ('cat', 'dog'))
    """
    roles = _roles(arrays, label_column, id_column)
    with open_source(path, file_format) as source:
        if not with_labels and roles.get("y") not in source.names:
            roles.pop("y", None)  # a column that is not read need not be there
        with named_after(source.title):
            chosen = _choose(source, kind, columns, roles, classes)
        y = None if labels is None else read_label_file(labels)
        with named_after(source.title):
            if not with_labels:
                chosen = chosen.without("y")
            return _assemble(source, chosen, y, kind, classes, pos_label, floor, judge)


def as_rows(
    values: Any,
    y: ArrayLike | None = None,
    *,
    kind: Kind = "logits",
    columns: Columns = None,
    label_column: str | int | None = None,
    id_column: str | int | None = None,
    arrays: Mapping[str, str] | None = None,
    classes: Classes = None,
    pos_label: Any = None,
    floor: float | None = None,
    judge: bool = True,
) -> InputRows:
    """Return the rows of a frame (pandas, polars, pyarrow), a dict of arrays, a tensor or an array.

    The options are those of `read_rows`. The names of a frame's columns become the class names.

    Examples
    --------
    >>> rows = as_rows([0.4, -1.2, 2.0], ["spam", "ham", "spam"], kind="score", pos_label="spam")
    >>> rows.logits.tolist(), rows.y, rows.classes.names
    ([[-0.2, 0.2], [0.6, -0.6], [-1.0, 1.0]], array([1, 0, 1]), ('ham', 'spam'))
    """
    source = source_of(values)
    roles = _roles(arrays, label_column, id_column)
    chosen = _choose(source, kind, columns, roles, classes)
    given = None if y is None else label_array(y)
    return _assemble(source, chosen, given, kind, classes, pos_label, floor, judge)


def read_label_file(path: str | Path, file_format: str | None = None) -> NDArray[Any]:
    """Return the labels in a file of their own: its one array, or the one named like labels."""
    with open_source(path, file_format) as source, named_after(source.title):
        named = [name for name in source.names if name.lower() in ROLE_NAMES["y"]]
        if len(named) != 1 and len(source.names) != 1:
            raise ValueError(
                f"{source.title} must have one column of labels, or one named y or label, got"
                f" {', '.join(source.names)}."
            )
        name = named[0] if len(named) == 1 else source.names[0]
        return plain_labels(source.load([name])[name])


def _roles(
    arrays: Mapping[str, str] | None, label_column: str | int | None, id_column: str | int | None
) -> dict[str, str | int]:
    roles: dict[str, str | int] = dict(arrays or {})
    for role, name in (("y", label_column), ("ids", id_column)):
        if name is not None:
            if role in roles and roles[role] != name:
                raise ValueError(f"{role} is named twice: {roles[role]!r} and {name!r}.")
            roles[role] = name
    return roles


def _choose(
    source: Source, kind: str, columns: Columns, roles: Mapping[str, str | int], classes: Classes
) -> Chosen:
    check_choice("kind", kind, KINDS)
    given = given_classes(classes)
    return choose(source, kind, columns, roles, () if given is None else given.names)


def _assemble(
    source: Source,
    chosen: Chosen,
    y: NDArray[Any] | None,
    kind: str,
    classes: Classes,
    pos_label: Any,
    floor: float | None,
    judge: bool,
) -> InputRows:
    if classes is None and pos_label is None:
        _check_classes_are_there(chosen.roles.get("y") if y is None else y, chosen)
    read = interpret(chosen.scores, chosen.names, kind, classes, floor=floor, judge=judge)
    notes = [*source.notes, *chosen.notes, *read.notes]
    n, n_classes = read.logits.shape
    if y is None:
        y = chosen.roles.get("y")
    elif "y" in chosen.roles:
        notes.append("labels beside the scores were not used: others were given")
    names = read.classes
    labels = None
    if y is not None:
        check_length("labels", y, n)
        labels, names = read_classes(y, n_classes, names, pos_label)
        if names is not None and pos_label is not None and read.classes not in (None, names):
            raise ValueError(
                f"pos_label={pos_label!r} is column 1, but the columns are"
                f" {', '.join(read.classes.names)}. Order them with columns=."
            )
    pred = None
    if kind == "proba" and PREDICTED in source.names:
        pred = _predicted(source, n, n_classes)
        word = "left out: it holds no class numbers" if pred is None else "read as predicted class"
        notes.append(f"{PREDICTED} was {word}")
    return InputRows(
        read.logits,
        labels,
        read_weight(chosen.roles.get("weight"), n),
        read_environment(chosen.roles.get("environment"), n),
        read_distances(chosen.roles.get("distances"), n),
        names,
        read_ids(chosen.roles.get("ids"), n),
        kind,
        read.proba,
        read.floor,
        pred,
        tuple(notes),
    )


def _check_classes_are_there(y: NDArray[Any] | None, chosen: Chosen) -> None:
    """Raise where a label is the name of a column that was taken for something else."""
    if y is None or not chosen.taken or y.dtype.kind in "iufb":
        return
    lost = sorted(set(map(str, y)) & (chosen.taken.keys() - set(chosen.names or ())))
    if lost:
        role = chosen.taken[lost[0]]
        raise ValueError(
            f"label {lost[0]!r} is a class, but the column of that name was taken for the"
            f" {'label' if role == 'y' else role} of each row. Name the columns of all classes, in"
            " order, with columns=."
        )


def _predicted(source: Source, n: int, n_classes: int) -> Labels | None:
    """Return the array `pred` that `wildcal apply` writes, if it can be that."""
    found = source.load([PREDICTED])[PREDICTED]
    if found.shape != (n,) or found.dtype.kind not in "iuf" or (found != np.round(found)).any():
        return None
    whole = found.astype(np.int64)
    return whole if whole.min() >= 0 and whole.max() < n_classes else None
