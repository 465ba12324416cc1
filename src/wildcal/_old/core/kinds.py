"""What the numbers are is declared; here it is judged whether they can be that.

A kind is one of four words: raw scores of each class (`logits`), probabilities (`proba`), log
probabilities with gaps (`logprobs`), or the one score of a binary model (`score`). Nothing is
converted on suspicion: numbers that look like another kind are refused, with the word to use.
"""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.arrays import FloatArray
from wildcal._old.core.checks import PROBA_MAX, ROWS_TO_JUDGE, SUM_TOLERANCE

Kind: TypeAlias = Literal["logits", "proba", "logprobs", "score"]
KINDS: tuple[str, ...] = get_args(Kind)

Matrix: TypeAlias = NDArray[np.floating[Any]]
# Rows that were rounded entry by entry, or lack classes too rare to print, miss one by this much.
ROUNDED_SUM = 0.1
# Rows that sum to a hundred, give or take the rounding of whole percents.
PERCENT_SUM = 2.5
MOST_DECIMALS = 5
MULTI_LABEL = "calibrate each column as a binary problem of its own"


def column_words(k: int, names: Sequence[str] | None) -> str:
    """Return a column as a message calls it: by its name, or by its number."""
    return f"column {k}" if names is None else f"column {names[k]!r}"


def check_numbers(matrix: Matrix, names: Sequence[str] | None, *, lowest: bool = False) -> None:
    """Raise for the first entry that is NaN or infinite; -inf may pass as a class ruled out."""
    good = np.isfinite(matrix) | np.isneginf(matrix) if lowest else np.isfinite(matrix)
    if not good.all():
        row, k = map(int, np.argwhere(~good)[0])
        what = "empty (NaN)" if np.isnan(matrix[row, k]) else f"{matrix[row, k]}"
        raise ValueError(
            f"scores must be numbers, but row {row} is {what} in {column_words(k, names)}."
            " Drop that row or mend the model."
        )
    if lowest and np.isneginf(matrix).all(axis=1).any():
        row = int(np.flatnonzero(np.isneginf(matrix).all(axis=1))[0])
        raise ValueError(f"row {row} rules out every class (only -inf). Drop that row.")


def decimals_of(matrix: Matrix) -> int | None:
    """Return the number of decimals all entries were rounded to, or None if there is no such."""
    for decimals in range(1, MOST_DECIMALS + 1):
        # Genuine numbers leave with the first rows.
        if _rounded(matrix[:64], decimals) and _rounded(matrix, decimals):
            return decimals
    return None


def _rounded(matrix: Matrix, decimals: int) -> bool:
    scaled = matrix.astype(np.float64) * 10**decimals
    slack = min(4 * float(np.finfo(matrix.dtype).eps) * 10**decimals, 0.05) + 1e-9
    return bool((np.abs(scaled - np.round(scaled)) <= slack).all())


def sum_tolerance(matrix: Matrix) -> tuple[float, int | None]:
    """Return by how much a row of these probabilities may miss one, and their decimals if few."""
    decimals = decimals_of(matrix)
    if decimals is None:
        return SUM_TOLERANCE, None
    rounding = 0.5 * 10.0**-decimals * matrix.shape[1]
    return max(SUM_TOLERANCE, min(rounding, ROUNDED_SUM) + 1e-6), decimals


def check_is_logits(matrix: Matrix, names: Sequence[str] | None) -> None:
    """Raise if these are probabilities of some sort, or hold a column that is no score.

    Fewer than 8 rows are not judged: a lone row of logits may look like anything.
    """
    if len(matrix) < ROWS_TO_JUDGE:
        return
    low, high = float(matrix.min()), float(matrix.max())
    if low >= 0 and high <= PROBA_MAX:
        _refuse_probabilities(matrix)
    if low >= 0 and 1 < high <= 100 and _are_percent(matrix):
        raise ValueError(
            f"{_percent_words(matrix)}: these are percent. Divide by 100 and pass kind='proba'."
        )
    _refuse_odd_column(matrix, names)


def _refuse_probabilities(matrix: Matrix) -> None:
    if ((matrix == 0) | (matrix == 1)).all():
        if (matrix == matrix[0]).all():
            return  # all rows alike: nothing to judge
        raise ValueError(
            "every entry is 0 or 1: these are decisions or labels, not scores. Pass what the model"
            " returns before it decides."
        )
    sums = matrix.sum(axis=1, dtype=np.float64)
    tolerance, decimals = sum_tolerance(matrix)
    off = np.abs(sums - 1) > tolerance
    if not off.any():
        rounded = "" if decimals is None else f", rounded to {decimals} decimals"
        raise ValueError(
            f"every row lies in [0, 1] and sums to 1{rounded}: these are probabilities. Pass"
            " kind='proba', or better the scores before the softmax."
        )
    if off.mean() <= 0.5:
        row = int(np.flatnonzero(off)[0])
        raise ValueError(
            f"every row lies in [0, 1] and {len(off) - off.sum()} of {len(off)} sum to 1: these are"
            f" probabilities, but row {row} sums to {sums[row]:.4g}. Mend it and pass kind='proba'."
        )
    if matrix.min() < 0.05 and matrix.max() > 0.95:
        raise ValueError(
            f"every entry lies in [0, 1], but rows sum to {_range(sums)}: a sigmoid for each class?"
            " If one class is true, pass the scores before the sigmoid; if several may be,"
            f" {MULTI_LABEL}: kind='proba' and that one column."
        )


def check_is_proba(matrix: Matrix, names: Sequence[str] | None) -> int | None:
    """Return the decimals of probabilities if they were rounded; raise if they are something else.

    Every entry lies in [0, 1] and every row sums to one, up to the rounding of its entries.
    """
    low, high = float(matrix.min()), float(matrix.max())
    if low >= 0 and 1 < high <= 100 and _are_percent(matrix):
        raise ValueError(f"{_percent_words(matrix)}: these are percent. Divide by 100.")
    if low < 0 or high > PROBA_MAX:
        row, k = map(int, np.argwhere((matrix < 0) | (matrix > PROBA_MAX))[0])
        raise ValueError(
            f"probabilities must lie in [0, 1], but row {row} is {matrix[row, k]:.4g} in"
            f" {column_words(k, names)}. Raw scores? Pass kind='logits'. Another column? Name the"
            " classes with columns=."
        )
    sums = matrix.sum(axis=1, dtype=np.float64)
    tolerance, decimals = sum_tolerance(matrix)
    off = np.abs(sums - 1) > tolerance
    if off.any():
        row = int(np.flatnonzero(off)[0])
        if off.mean() <= 0.5:
            raise ValueError(
                f"probabilities must sum to 1 in each row, but row {row} sums to {sums[row]:.4g}"
                f" ({off.sum()} of {len(off)} rows do not). Drop or mend it."
            )
        raise ValueError(
            f"probabilities must sum to 1 in each row, but row {row} sums to {sums[row]:.4g}, all"
            f" rows to {_range(sums)}: a sigmoid for each class, or a class left out? If several"
            f" classes may be true, {MULTI_LABEL} (one column); else give all classes."
        )
    return decimals


def _are_percent(matrix: Matrix) -> bool:
    sums = matrix.sum(axis=1, dtype=np.float64)
    return bool((np.abs(sums - 100) <= PERCENT_SUM).mean() > 0.5)


def _percent_words(matrix: Matrix) -> str:
    return f"rows sum to {_range(matrix.sum(axis=1, dtype=np.float64))}"


def _range(values: FloatArray) -> str:
    low, high = f"{values.min():.4g}", f"{values.max():.4g}"
    return low if low == high else f"between {low} and {high}"


def _refuse_odd_column(matrix: Matrix, names: Sequence[str] | None) -> None:
    """Raise for a column of whole numbers beside columns of real ones: a label, or a row number."""
    head = _whole(matrix[:64])
    if not head.any() or head.all():
        return
    whole = head & _whole(matrix)
    vary = (matrix != matrix[0]).any(axis=0)  # a class that was masked, or a reference class at 0
    odd = np.flatnonzero(whole & vary)
    if not len(odd) or len(odd) > (~whole).sum():
        return
    k = int(odd[0])
    values, word = matrix[:, k], column_words(k, names)
    rest = "columns= to name the classes" if names is not None else "columns=[...] to number them"
    if len(np.unique(values)) == len(values):
        raise ValueError(
            f"{word} counts the rows ({values[0]:g}, {values[1]:g}, ...), beside real-valued"
            f" scores: an id? Leave it out, or pass id_column= to keep it, or {rest}."
        )
    raise ValueError(
        f"{word} holds whole numbers from {values.min():g} to {values.max():g}, beside real-valued"
        f" scores: the labels? Leave it out, or pass label_column= to read it, or {rest}."
    )


def _whole(matrix: Matrix) -> NDArray[np.bool_]:
    finite = np.isfinite(matrix)
    same = np.round(matrix) == matrix
    return np.asarray((same | ~finite).all(axis=0) & finite.all(axis=0))
