"""The one temperature at which the mean confidence of some rows is a given accuracy."""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from wildcal._old.core.arrays import Source
from wildcal._old.core.blocks import added, map_blocks

LOG_RANGE: Final = (-4.0, 5.0)
"""Of log T."""
LARGEST: Final = 0.9999
_ABOVE_CHANCE: Final = 1e-3
_LEAST, _MOST = (float(np.exp(end)) for end in LOG_RANGE)
TOO_LOW: Final = (
    f"no temperature down to {_LEAST:.2g} makes the mean confidence as large as the estimated"
    f" accuracy; logits are divided by {_LEAST:.2g}."
)
TOO_HIGH: Final = (
    f"no temperature up to {_MOST:.3g} makes the mean confidence as small as the estimated"
    f" accuracy; logits are divided by {_MOST:.3g}."
)
NO_SLOPE: Final = (
    f"the mean confidence is the same at every temperature from {_LEAST:.2g} to {_MOST:.3g}, so it"
    " was matched to nothing; logits are left as they are."
)
# Numbers that are copied rather than walked over in blocks, whose overhead would be most of it.
_SMALL: Final = 1 << 16


class Match(NamedTuple):
    """A temperature, and a sentence where it does not do what was asked for."""

    temperature: float
    note: str = ""


def mean_confidence_at(logits: Source, temperature: float) -> float:
    """Return the mean of max softmax(z / T) over rows."""
    total = map_blocks(
        logits, lambda b: float(b.confidence(np.array([1 / temperature])).sum()), added
    )
    return float(total) / len(logits)


def matchable(accuracy: float, n_classes: int) -> float:
    """Return the accuracy within [1/K + 0.001, 0.9999], what mean confidences can be."""
    return min(LARGEST, max(1 / n_classes + _ABOVE_CHANCE, accuracy))


def matched_temperature(logits: Source, accuracy: float) -> float:
    """Return T with mean max softmax(z / T) = `accuracy`, log T within [-4, 5].

    The confidence of a row falls as T grows unless all its logits are equal, so there is one such T
    at most. An accuracy that no T gives is answered by the end of the range; T is 1 where the
    confidence does not depend on it. No class changes.

    Examples
    --------
    >>> logits = np.array([[2.0, 0.0], [0.0, 2.0]])
    >>> round(matched_temperature(logits, 0.75), 6)  # 2 / log 3
    1.820478
    """
    return match_temperature(logits, accuracy).temperature


def match_temperature(logits: Source, accuracy: float) -> Match:
    """Return the same, and why it is no match where it is none."""
    from scipy.optimize import brentq  # slow to import

    wanted, mean = matchable(accuracy, logits.shape[1]), _mean_at(logits)

    def gap(log_t: float) -> float:
        return mean(float(np.exp(log_t))) - wanted

    low, high = (gap(end) for end in LOG_RANGE)
    if not low > high:
        return Match(1.0, NO_SLOPE if low else "")
    if low <= 0:
        return Match(_LEAST, TOO_LOW if low else "")
    if high >= 0:
        return Match(_MOST, TOO_HIGH if high else "")
    return Match(float(np.exp(brentq(gap, *LOG_RANGE, xtol=1e-10))))


def _mean_at(logits: Source) -> Callable[[float], float]:
    """Return the mean confidence as a function of T; small windows are looked at only once."""
    if logits.shape[0] * logits.shape[1] > _SMALL:
        return lambda temperature: mean_confidence_at(logits, temperature)
    z = logits[:].astype(np.float64)
    below = z - z.max(axis=1, keepdims=True)
    return lambda temperature: float((1 / np.exp(below / temperature).sum(axis=1)).mean())
