"""Labeled rows and rows of other classes as one set, the latter with label -1."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from wildcal._old.core.arrays import OOD_LABEL, FloatArray
from wildcal._old.core.checks import check_environment, check_labels, check_logits
from wildcal._old.core.errors import FileFormatError
from wildcal._old.io.tables.rows import InputRows


def with_others(rows: InputRows, others: InputRows, title: str | Path) -> InputRows:
    """Return labeled rows followed by rows of other classes, which are one more environment.

    Parameters
    ----------
    title
        What messages call the other rows.

    Examples
    --------
    >>> from wildcal._old.io import as_rows
    >>> known = as_rows([[2.0, -1.0], [0.5, 3.0]], [0, 1])
    >>> with_others(known, as_rows([[0.1, 0.2]]), "others").y
    array([ 0,  1, -1])
    """
    z = check_logits(rows.logits, fitting=True)
    # Also makes integers of labels that could not hold -1, such as uint8.
    y = check_labels(rows.y, *z.shape, accepts_ood=True)  # type: ignore[arg-type]
    more = others.logits
    if more.shape[1:] != z.shape[1:]:
        raise FileFormatError(
            f"{title} must have scores of {z.shape[-1]} classes, as the other file,"
            f" got shape {more.shape}."
        )
    environment = None
    if rows.environment is not None:
        numbers = check_environment(rows.environment, y, None)
        environment = np.concatenate([numbers, np.full(len(more), numbers.max() + 1)])
    weight = None if rows.weight is None else np.concatenate([rows.weight, np.ones(len(more))])
    proba = None
    if rows.proba is not None and others.proba is not None:
        proba = np.concatenate([rows.proba, others.proba])
    pred = rows.pred
    if pred is not None:
        theirs = more.argmax(axis=1) if others.pred is None else others.pred
        pred = np.concatenate([pred, theirs])
    return replace(
        rows,
        logits=np.concatenate([z, more]),
        y=np.concatenate([y, np.full(len(more), OOD_LABEL)]),
        weight=weight,
        environment=environment,
        distances=_joined(rows, others, title),
        ids=None,
        proba=proba,
        pred=pred,
    )


def _joined(rows: InputRows, others: InputRows, title: str | Path) -> FloatArray | None:
    if rows.distances is None:
        return None
    if others.distances is None:
        raise FileFormatError(
            f"{title} has no distances to training rows; give arrays `logits` and `distances`."
        )
    if rows.distances.shape[1:] != others.distances.shape[1:]:
        raise FileFormatError(
            f"{title} must have distances of as many layers as the other file, got shapes"
            f" {others.distances.shape} and {rows.distances.shape}."
        )
    return np.concatenate([rows.distances, others.distances])
