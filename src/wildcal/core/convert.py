"""Between probabilities and logits, said aloud: nothing here guesses which one it was given."""

import numpy as np
from numpy.typing import ArrayLike

from wildcal.core.arrays import Logits, Proba, working_dtype
from wildcal.core.checks import check_logits, check_proba, check_temperature
from wildcal.core.softmax import softmax_at


def softmax(logits: ArrayLike, temperature: float = 1.0) -> Proba:
    """Return softmax(logits / temperature), rows summing to one.

    Examples
    --------
    >>> softmax([[0.0, 0.0], [2.0, 0.0]], temperature=2.0).round(3)
    array([[0.5  , 0.5  ],
           [0.731, 0.269]])
    """
    check_temperature("temperature", temperature)
    return softmax_at(check_logits(logits), lambda block: np.full(block.n, temperature))


def logits_from_proba(proba: ArrayLike) -> Logits:
    """Return log probabilities, which serve as logits for shift-invariant methods.

    Probabilities of exactly zero become the log of the smallest normal number of their precision.
    The energy of the row is lost for good (it is zero in every row): energy scaling needs the
    scores from before the softmax, and falls back to temperature scaling on these.

    Examples
    --------
    >>> logits_from_proba([[0.5, 0.5], [0.9, 0.1]]).round(3)
    array([[-0.693, -0.693],
           [-0.105, -2.303]])
    """
    array = check_proba(proba)
    dtype = working_dtype(array.dtype)
    out = np.maximum(array, np.finfo(dtype).tiny, dtype=dtype)
    return np.asarray(np.log(out, out=out))
