"""From declared numbers to logits: judged first, then converted, and every conversion is noted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.arrays import Logits, Proba, working_dtype
from wildcal._old.core.convert import logits_from_proba, logits_from_score, proba_floor
from wildcal._old.core.kinds import check_is_logits, check_is_proba, check_numbers, column_words
from wildcal._old.core.labels import ClassNames
from wildcal._old.core.logprobs import LEAST_LOG_PROBA, logits_from_logprobs

# Who gives names that nobody told.
_BEFORE = "the calibrator, or the file before this one,"
# Rows that miss one by less are whole.
SUM_NOTED = 1e-6


@dataclass(frozen=True, slots=True)
class Interpreted:
    """Logits, the probabilities they came from if they did, and what was done."""

    logits: Logits
    classes: ClassNames | None
    proba: Proba | None = None
    floor: float | None = None
    notes: tuple[str, ...] = ()


def interpret(
    scores: NDArray[Any],
    names: tuple[str, ...] | None,
    kind: str,
    classes: Sequence[str | Sequence[str]] | ClassNames | None,
    *,
    floor: float | None,
    judge: bool,
) -> Interpreted:
    """Return the logits that scores of a declared kind stand for."""
    given = given_classes(classes)
    if scores.dtype == object and kind == "logprobs":
        return _tokens(scores, classes)
    matrix = as_matrix(scores, kind)
    if kind == "score":
        return _score(matrix, given)
    if kind == "proba" and matrix.shape[1] == 1:
        return _one_probability(matrix[:, 0], given, floor)
    named = agree(names, given, matrix.shape[1], told=not isinstance(classes, ClassNames))
    if kind == "logprobs":
        return _logprobs(matrix, named)
    if kind == "proba":
        return _proba(matrix, names, named, floor, judge)
    check_numbers(matrix, names, lowest=True)
    if judge:
        check_is_logits(matrix, names)
    return Interpreted(matrix, named)


def as_matrix(scores: NDArray[Any], kind: str) -> NDArray[np.floating[Any]]:
    """Return scores as floating-point numbers of shape (n, K); one score a row has K = 1."""
    if scores.dtype.kind in "iu" or scores.dtype == np.longdouble:
        scores = scores.astype(np.float64)
    elif scores.dtype.name == "bfloat16":
        scores = scores.astype(np.float32)
    if scores.dtype.kind != "f":
        what = f"dtype {scores.dtype}"
        if scores.dtype == object and scores.size:
            first = scores.reshape(-1)[0]
            what = f"{type(first).__name__} {first!r:.40}"
        raise ValueError(f"scores must be real numbers, got {what}. Convert them to float first.")
    if not scores.dtype.isnative:
        scores = scores.astype(scores.dtype.newbyteorder("="))
    if scores.ndim == 1:
        scores = scores[:, None]
    if scores.ndim == 3:
        raise ValueError(
            f"scores must have shape (n_samples, n_classes), got {scores.shape}: one row for each"
            " token? Keep those with a label: logits[labels != -100]."
        )
    if scores.ndim != 2:
        raise ValueError(f"scores must have shape (n_samples, n_classes), got {scores.shape}.")
    if not len(scores):
        raise ValueError(f"scores must have at least one row, got shape {scores.shape}.")
    k = scores.shape[1]
    if kind == "score" and k != 1:
        raise ValueError(
            f"kind='score' reads one score a row, got {k} columns. Choose one with columns=, or"
            " pass kind='logits'."
        )
    if k < 1 or (k == 1 and kind in ("logits", "logprobs")):
        raise ValueError(
            f"{kind} must have a column for each class, got shape {scores.shape}. For a binary"
            " model with one score, pass kind='score'; with one probability, kind='proba'."
        )
    return scores


def agree(
    names: tuple[str, ...] | None, given: ClassNames | None, n_classes: int, *, told: bool
) -> ClassNames | None:
    """Return the class names that columns and the caller agree on.

    They are not matched by name: numbers beside them, such as labels, are those of the columns.
    Names that nobody `told` are those of a calibrator, or of the rows that came first.
    """
    if given is None:
        return None if names is None else ClassNames(names)
    if len(given) != n_classes:
        whose = "classes= has" if told else f"{_BEFORE} has"
        raise ValueError(f"{whose} {len(given)} names for {n_classes} columns of scores.")
    if names is not None and names != given.names and set(names) == set(given.names):
        whose = "classes= says" if told else f"{_BEFORE} has"
        remedy = ", and leave classes= out." if told else " as there."
        raise ValueError(
            f"the columns are {', '.join(names[:5])}, {whose} {', '.join(given.names[:5])}."
            f" Order the columns with columns={remedy}"
        )
    return given


def given_classes(
    classes: Sequence[str | Sequence[str]] | ClassNames | None,
) -> ClassNames | None:
    """Return the names that a caller gives the classes; of several tokens, the first."""
    if classes is None or isinstance(classes, ClassNames):
        return classes
    if isinstance(classes, str):
        raise ValueError(f"classes must be a list of names, got the text {classes!r}.")
    words = [c if isinstance(c, str) or not isinstance(c, Sequence) else c[0] for c in classes]
    return ClassNames(tuple(str(w).strip() if isinstance(w, str) else str(w) for w in words))


def _tokens(scores: NDArray[Any], classes: Any) -> Interpreted:
    if classes is None:
        raise ValueError("rows of tokens need their labels: classes=['yes', 'no'].")
    words = list(classes.names) if isinstance(classes, ClassNames) else classes
    logits = logits_from_logprobs([row if row is not None else {} for row in scores], words)
    return Interpreted(
        logits, given_classes(classes), notes=("tokens outside a list got its missing mass",)
    )


def _logprobs(matrix: NDArray[np.floating[Any]], named: ClassNames | None) -> Interpreted:
    gaps = ~(matrix >= LEAST_LOG_PROBA)  # also NaN
    rows = int(gaps.any(axis=1).sum())
    note = f"{int(gaps.sum())} gaps in {rows} rows got the missing mass of their row"
    return Interpreted(logits_from_logprobs(matrix), named, notes=(note,) if rows else ())


def _score(matrix: NDArray[np.floating[Any]], given: ClassNames | None) -> Interpreted:
    if given is not None and len(given) != 2:
        raise ValueError(f"one score a row means two classes, classes= has {len(given)}.")
    return Interpreted(logits_from_score(matrix), given)


def _one_probability(
    p: NDArray[np.floating[Any]], given: ClassNames | None, floor: float | None
) -> Interpreted:
    if given is not None and len(given) != 2:
        raise ValueError(f"one probability a row means two classes, classes= has {len(given)}.")
    wrong = np.flatnonzero(~((p >= 0) & (p <= 1 + 1e-6)))
    if len(wrong):
        percent = p.max() <= 100 and p.min() >= 0
        raise ValueError(
            f"probabilities must lie in [0, 1], but row {wrong[0]} is {p[wrong[0]]:.4g}."
            + (" Percent? Divide by 100." if percent else " Log-odds? Pass kind='score'.")
        )
    p = np.minimum(p, 1).astype(working_dtype(p.dtype))
    return _clipped(np.column_stack([1 - p, p]), given, floor, [])


def _proba(
    matrix: NDArray[np.floating[Any]],
    names: tuple[str, ...] | None,
    named: ClassNames | None,
    floor: float | None,
    judge: bool,
) -> Interpreted:
    check_numbers(matrix, names)
    notes = []
    if judge:
        decimals = check_is_proba(matrix, names)
        sums = matrix.sum(axis=1, keepdims=True, dtype=np.float64)
        if decimals is not None and (np.abs(sums - 1) > SUM_NOTED).any():
            matrix = (matrix / sums).astype(working_dtype(matrix.dtype))
            word = f"{decimals} decimal{'s' if decimals > 1 else ''}"
            notes.append(f"probabilities were rounded to {word}: rows were divided by their sum")
    elif ((matrix < 0) | (matrix > 1)).any():
        row, k = map(int, np.argwhere((matrix < 0) | (matrix > 1))[0])
        raise ValueError(
            f"probabilities must lie in [0, 1], but row {row} is {matrix[row, k]:.4g} in"
            f" {column_words(k, names)}."
        )
    return _clipped(matrix, named, floor, notes)


def _clipped(
    proba: NDArray[np.floating[Any]],
    named: ClassNames | None,
    floor: float | None,
    notes: list[str],
) -> Interpreted:
    zeros = proba == 0
    floor = proba_floor(proba) if floor is None else floor
    low = int((proba < floor).sum())
    if low:
        rows = int((proba < floor).any(axis=1).sum())
        word = "probabilities of zero" if low == zeros.sum() else "probabilities below the floor"
        notes.append(f"{low} {word} in {rows} rows were read as {floor:.3g}")
    return Interpreted(logits_from_proba(proba, floor=floor), named, proba, floor, tuple(notes))
