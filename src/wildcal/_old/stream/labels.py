"""Labels that come late: true accuracy and calibration error of the last rows that have them."""

from collections import deque
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from wildcal._old.metrics.noise import noise_floor
from wildcal._old.metrics.registry import METRICS
from wildcal._old.metrics.seen import Seen
from wildcal._old.metrics.top_label import TopLabelAccumulator
from wildcal._old.stream.verdict import REFIT, Belief, from_dict, learn, to_dict

LAST: Final = 1_000
"""How many rows accuracy and error are of."""
SHOWN: Final = ("accuracy", "ece", "noise_floor")
"""What is said of them: metrics by their names."""


class LateLabels:
    """What labels say of a stream, beside what was estimated without them.

    Examples
    --------
    >>> labels = LateLabels()
    >>> labels.add([0.9, 0.8, 0.7], [True, True, False])
    >>> labels.summary()["accuracy"]
    0.6666666666666666
    """

    def __init__(self) -> None:
        self._rows: deque[tuple[float, bool]] = deque(maxlen=LAST)
        self._belief = Belief.none()

    @property
    def n(self) -> int:
        """How many labels have come."""
        return self._belief.n

    def add(self, confidence: ArrayLike, right: ArrayLike) -> None:
        """Take in rows: their confidence, and whether the predicted class was right."""
        p, y = np.asarray(confidence, np.float64), np.asarray(right, np.bool_)
        self._belief = learn(self._belief, p, y)
        self._rows.extend(zip(p.tolist(), y.tolist(), strict=True))

    def summary(self) -> dict[str, Any]:
        """Return the numbers of the last rows, and the verdict over all of them."""
        if not self.n:
            return {}
        p, y = map(np.array, zip(*self._rows, strict=True))
        seen = Seen(y, p, TopLabelAccumulator().update(y, p), noise_floor(p))
        low, high = self._belief.interval
        return {
            "labels": self.n,
            **{name: METRICS[name].value(seen) for name in SHOWN},
            "gap_low": low,
            "gap_high": high,
            "refit": self._belief.verdict == REFIT,
            "verdict": self._belief.verdict,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, to go on from."""
        return {**to_dict(self._belief), "last": [list(row) for row in self._rows]}

    @classmethod
    def from_dict(cls, document: Any) -> "LateLabels":
        """Return the labels that `to_dict` described; raise a ValueError if it cannot be."""
        found = cls()
        found._belief = from_dict(document)
        for p, y in document["last"][-LAST:]:
            if not isinstance(p, float) or not 0 <= p <= 1 or not isinstance(y, bool):
                raise ValueError("the last labels must be pairs of a confidence and true or false.")
            found._rows.append((p, y))
        return found
