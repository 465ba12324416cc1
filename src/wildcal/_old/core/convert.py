"""Between probabilities, scores and logits, said aloud: nothing here guesses what it was given."""

import numpy as np
from numpy.typing import ArrayLike

from wildcal._old.core.arrays import Logits, Proba, working_dtype
from wildcal._old.core.checks import (
    LIFTED_MASS,
    ROWS_TO_JUDGE,
    check_logits,
    check_proba,
    check_temperature,
)
from wildcal._old.core.softmax import softmax_at


def softmax(logits: ArrayLike, temperature: float = 1.0) -> Proba:
    """Return softmax(logits / temperature), rows summing to one.

    Examples
    --------
    >>> softmax([[0.0, 0.0], [2.0, 0.0]], temperature=2.0).round(3)
    array([[0.5  , 0.5  ],
           [0.731, 0.269]])
    """
    check_temperature("temperature", temperature)
    return softmax_at(check_logits(logits), lambda _: np.array([temperature]))


def proba_floor(proba: ArrayLike) -> float:
    """Return what a probability of zero stands for: half of the smallest step a model can take.

    A forest of 100 trees answers in hundredths. Its 0 means "less than one tree", not "never", and
    read as the logarithm of zero it would decide a fit alone. So zeros are read as

        floor = min(m / 2, 0.1 / K),    m the smallest positive probability in `proba`,

    and never below the smallest normal number of the precision. A network, which resolves 1e-30,
    keeps all it said; a forest's zeros weigh as half a tree. The second bound keeps the lifted
    zeros of a row under a tenth of its mass.

    The floor belongs to the model, so take it once, from the tuning rows, and give it to
    `logits_from_proba` for all later ones: then a row means the same in every batch.

    Examples
    --------
    >>> proba_floor([[0.75, 0.25], [1.0, 0.0], [0.99, 0.01]])
    0.005
    """
    array = check_proba(proba)
    positive = array > 0
    smallest = float(np.min(array, where=positive, initial=1.0))
    tiny = float(np.finfo(working_dtype(array.dtype)).tiny)
    return float(max(min(smallest / 2, LIFTED_MASS / array.shape[1]), tiny))


def logits_from_proba(proba: ArrayLike, *, floor: float | None = None) -> Logits:
    """Return log(max(proba, floor)), which serves as logits for shift-invariant methods.

    The energy of the row is lost for good (it is zero in every row, but for what zeros were lifted
    by): energy scaling needs the scores from before the softmax, and falls back to temperature
    scaling on these.

    Parameters
    ----------
    proba
        Shape (n_samples, n_classes), in [0, 1].
    floor
        What a probability of zero is read as. Without one it is `proba_floor(proba)`, half of the
        smallest positive entry of this array, which only zeros lie below; fewer than 8 rows with a
        zero among them are refused, as they cannot tell.

    Examples
    --------
    >>> logits_from_proba([[0.5, 0.5], [0.9, 0.1]]).round(3)
    array([[-0.693, -0.693],
           [-0.105, -2.303]])
    >>> logits_from_proba([[1.0, 0.0]], floor=0.005).round(3)
    array([[ 0.   , -5.298]])
    """
    array = check_proba(proba)
    if floor is None:
        if len(array) < ROWS_TO_JUDGE and not array.all():
            row = int(np.flatnonzero(~array.all(axis=1))[0])
            raise ValueError(
                f"proba has a zero in row {row}, and {len(array)} rows are too few to tell how"
                " finely the model resolves. Pass floor=proba_floor(proba of the tuning rows)."
            )
        floor = proba_floor(array)
    check_floor(floor)
    dtype = working_dtype(array.dtype)
    out = np.maximum(array, max(floor, float(np.finfo(dtype).tiny)), dtype=dtype)
    return np.asarray(np.log(out, out=out))


def check_floor(floor: float) -> None:
    """Raise unless the floor of probabilities is a small positive number."""
    if isinstance(floor, bool) or not isinstance(floor, int | float) or not 0 < floor <= 0.1:
        raise ValueError(f"floor must be a number above 0 and at most 0.1, got {floor!r}.")


def logits_from_score(score: ArrayLike) -> Logits:
    """Return two columns, -s / 2 and s / 2, for a binary model with one score, log-odds of class 1.

    softmax([-s / 2, s / 2]) = [1 - sigmoid(s), sigmoid(s)]. Both classes are treated alike: with
    their names swapped, methods that read the energy say the same. It is the one convention of the
    package for one-score models.

    Parameters
    ----------
    score
        Shape (n_samples,) or (n_samples, 1): log-odds, a margin, a decision function. For the
        probability of class 1 use `logits_from_proba` on the columns 1 - p and p.

    Examples
    --------
    >>> logits_from_score([-1.5, 2.0])
    array([[ 0.75, -0.75],
           [-1.  ,  1.  ]])
    """
    array = np.asarray(score)
    if array.dtype.kind in "iub" or array.dtype == np.longdouble:
        array = array.astype(np.float64)
    if array.dtype.kind != "f":
        raise ValueError(f"score must be real numbers, got dtype {array.dtype}.")
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or not array.size:
        raise ValueError(
            f"score must have shape (n_samples,) or (n_samples, 1), got {array.shape}."
            " With a column for each class they are logits."
        )
    wrong = np.flatnonzero(~np.isfinite(array))
    if len(wrong):
        raise ValueError(f"score must be finite, but row {wrong[0]} is {array[wrong[0]]}.")
    return np.stack([-array / 2, array / 2], axis=1)
