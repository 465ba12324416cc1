"""Scores of rows that the estimator was not trained on, by cross-validation."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold, check_cv
from sklearn.utils import _safe_indexing as take_rows
from sklearn.utils import get_tags
from sklearn.utils.parallel import Parallel, delayed

from wildcal.core.arrays import OOD_LABEL, FloatArray, Labels, Logits
from wildcal.interop.sklearn.labels import encode
from wildcal.interop.sklearn.scores import ScoreSource

Rows = NDArray[np.integer[Any]]


class Held(NamedTuple):
    """Scores of held-out rows: their logits, classes (-1 for other classes) and row numbers."""

    logits: Logits
    y: Labels
    rows: Rows
    """Numbers in X; -1 for rows of X_ood."""

    def weights(self, given: FloatArray | None) -> FloatArray | None:
        """Return the weight of each of these rows; those of X_ood have weight 1."""
        return None if given is None else np.where(self.rows < 0, 1.0, given[self.rows])


def make_splitter(cv: Any, y: NDArray[Any]) -> Any:
    """Return the splitter that `cv` stands for, sure that every class is in every fold."""
    if isinstance(cv, str) or isinstance(cv, bool):
        raise ValueError(
            f"cv must be 'prefit', a number of folds, a splitter or a list of splits, got {cv!r}."
        )
    if isinstance(cv, int | np.integer) and cv < 2:
        raise ValueError(
            f"cv must be at least 2 folds, got {cv}. For a fitted estimator: 'prefit'."
        )
    splitter = check_cv(cv, y, classifier=True)
    if isinstance(splitter, StratifiedKFold):
        names, counts = np.unique(y, return_counts=True)
        folds = splitter.get_n_splits()
        if counts.min() < folds:
            raise ValueError(
                f"cv={folds} needs {folds} rows of each class, but class {names[counts.argmin()]!s}"
                f" has {counts.min()}. Use fewer folds, or cv='prefit' and rows held out by hand."
            )
    return splitter


def out_of_fold(
    estimator: Any,
    source: ScoreSource,
    X: Any,
    y: NDArray[Any],
    classes: NDArray[Any],
    splits: Iterable[tuple[Any, Any]],
    *,
    X_ood: Any = None,
    fit_params: dict[str, Any],
    n_jobs: int | None = None,
) -> Held:
    """Return the scores of every test row by the clone that has not seen it.

    The rows of X_ood are dealt out to the folds in turn, so that their scores come from the same
    mixture of clones as those of the others.
    """
    pairs = [(_as_rows(train), _as_rows(test)) for train, test in splits]
    _check_splits(pairs)
    ood = _deal(X_ood, len(pairs))
    parts = Parallel(n_jobs=n_jobs)(
        delayed(_one_fold)(clone(estimator), source, X, y, classes, train, test, others, fit_params)
        for (train, test), others in zip(pairs, ood, strict=True)
    )
    return Held(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def held_out(
    estimator: Any,
    source: ScoreSource,
    X: Any,
    y: NDArray[Any],
    classes: NDArray[Any],
    X_ood: Any = None,
) -> Held:
    """Return the scores of rows that a fitted estimator has not seen."""
    found = getattr(estimator, "classes_", classes)
    if not np.array_equal(found, classes):
        raise ValueError(
            f"{type(estimator).__name__}.classes_ must be the sorted labels of y, got"
            f" {', '.join(map(str, found[:5]))}{', ...' if len(found) > 5 else ''}."
        )
    parts = [source.logits(estimator, X, len(classes))]
    if X_ood is not None and _n_rows(X_ood) != 0:
        parts.append(source.logits(estimator, X_ood, len(classes)))
    n_ood = sum(map(len, parts[1:]))
    return Held(
        np.concatenate(parts),
        np.r_[encode(y, classes), np.full(n_ood, OOD_LABEL)],
        np.r_[np.arange(len(y)), np.full(n_ood, -1)],
    )


def _one_fold(
    estimator: Any,
    source: ScoreSource,
    X: Any,
    y: NDArray[Any],
    classes: NDArray[Any],
    train: Rows,
    test: Rows,
    X_ood: Any,
    fit_params: dict[str, Any],
) -> Held:
    missing = np.setdiff1d(classes, y[train])
    if len(missing):
        raise ValueError(
            f"class {missing[0]!s} is in none of the {len(train)} training rows of a fold. Every"
            " training fold needs every class: try cv=StratifiedKFold(...)."
        )
    if is_pairwise(estimator):
        X_train, X_test = X[np.ix_(train, train)], X[np.ix_(test, train)]
        X_ood = None if X_ood is None else X_ood[:, train]
    else:
        X_train, X_test = take_rows(X, train), take_rows(X, test)
    estimator.fit(X_train, y[train], **rows_of(fit_params, train, len(y)))
    part = held_out(estimator, source, X_test, y[test], classes, X_ood)
    return part._replace(rows=np.r_[test, part.rows[len(test) :]])


def rows_of(params: dict[str, Any], rows: Rows, n_rows: int) -> dict[str, Any]:
    """Return the arguments of `fit`, those with a value per row cut down to some rows."""
    return {
        name: take_rows(value, rows) if _n_rows(value) == n_rows else value
        for name, value in params.items()
    }


def is_pairwise(estimator: Any) -> bool:
    """Return whether X is a square matrix of kernels or distances."""
    return hasattr(estimator, "__sklearn_tags__") and get_tags(estimator).input_tags.pairwise


def _check_splits(pairs: list[tuple[Rows, Rows]]) -> None:
    if not pairs:
        raise ValueError("cv must give at least one split, got none.")
    for train, test in pairs:
        both = np.intersect1d(train, test)
        if len(both):
            raise ValueError(
                f"cv must test on rows it has not trained on, but row {both[0]} is on both sides of"
                " a split."
            )
        if not len(test):
            raise ValueError("cv must test on some rows, but a split has none.")


def _as_rows(rows: Any) -> Rows:
    array = np.asarray(rows)
    return np.flatnonzero(array) if array.dtype == np.bool_ else array


def _n_rows(value: Any) -> int | None:
    shape: tuple[int, ...] = getattr(value, "shape", ())
    if shape:
        return int(shape[0])
    return len(value) if isinstance(value, list | tuple) else None


def _deal(X_ood: Any, n_folds: int) -> list[Any]:
    """Return one part of X_ood for each fold, None where there are no rows left for it."""
    if X_ood is None:
        return [None] * n_folds
    n_rows = _n_rows(X_ood) or 0
    turns = [np.arange(start, n_rows, n_folds) for start in range(n_folds)]
    return [take_rows(X_ood, rows) if len(rows) else None for rows in turns]
