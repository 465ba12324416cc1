"""Noise strengths that take a network from its clean accuracy to chance, in equal steps.

Tuning on validation rows under such noise is the idea of Tomani et al., 2021: a calibrator that has
seen accuracy fall is less sure where it falls for other reasons.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

N_LEVELS: Final = 5
"""Strengths besides none."""
TOLERANCE: Final = 0.03
LAST_TOLERANCE: Final = 0.05
"""How far from its target an accuracy may be, as a share of the clean accuracy."""
FIRST: Final = 0.125
LARGEST: Final = 32.0
"""Where to begin, and where to give up: 32 times the spread of the input leaves nothing to see.

Powers of two, so that sigmas doubled and halved are short numbers.
"""
NARROW: Final = 0.01
"""A bracket is not halved further below this share of itself: accuracy moves by a few rows only."""
MOST_PASSES: Final = 20
PASSES: Final = 3
"""Passes over the rows that a level usually takes, for whoever shows progress."""

Accuracy = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Level:
    """One strength: the accuracy that was wanted of it and that it has; `met` if near enough."""

    severity: int
    target: float
    sigma: float
    accuracy: float
    met: bool


@dataclass(frozen=True, slots=True)
class Trials:
    """Accuracy by sigma, as far as it was measured; of sigma 0, it is the clean accuracy."""

    seen: dict[float, float]

    def nearest(self, target: float) -> float | None:
        """Return the sigma above 0 whose accuracy is nearest, of several the smallest."""
        noisy = [(abs(found - target), sigma) for sigma, found in self.seen.items() if sigma > 0]
        return min(noisy)[1] if noisy else None

    def next(self, target: float) -> float | None:
        """Return the sigma to try next: twice the largest, or the middle of the bracket.

        None if there is no use in another: the noise is overwhelming, or the bracket narrow.
        """
        below = [sigma for sigma, found in self.seen.items() if found < target]
        if not below:
            largest = max(self.seen)
            return None if largest >= LARGEST else max(FIRST, 2 * largest)
        high = min(below)
        low = max(sigma for sigma in self.seen if sigma < high)
        return None if high - low <= NARROW * high else (low + high) / 2


def find_levels(
    accuracy: Accuracy,
    n_classes: int,
    *,
    on_expected: Callable[[int], None] = lambda passes: None,
) -> tuple[Level, ...]:
    r"""Return the sigmas at which accuracy has fallen to targets in equal steps.

    With the clean accuracy :math:`A_0` and K classes, the targets are
    :math:`A_0 - (A_0 - 1/K)\, j / 5` for j = 1 to 5. Sigma is doubled until accuracy is below the
    target, then its bracket is halved until accuracy is within :math:`0.03 A_0` of it, at the last
    level :math:`0.05 A_0`. A level that cannot be met gets the best sigma seen.

    Parameters
    ----------
    accuracy
        Accuracy under noise of a sigma, the same whenever it is called. It should use the same
        random numbers for every sigma; then it falls with sigma but for little jumps.
    on_expected
        Told how many passes are still expected, the one about to begin among them.

    Examples
    --------
    >>> levels = find_levels(lambda sigma: 0.1 + 0.8 / (1 + sigma), 10)
    >>> [round(level.target, 2) for level in levels]
    [0.74, 0.58, 0.42, 0.26, 0.1]
    >>> [(level.sigma, round(level.accuracy, 2), level.met) for level in levels[1:3]]
    [(0.75, 0.56, True), (1.5, 0.42, True)]
    """
    on_expected(1 + PASSES * N_LEVELS)
    clean = accuracy(0.0)
    if not clean > 1 / n_classes:
        raise ValueError(
            f"perturbation needs a network that is better than chance: it is right on {clean:.1%}"
            f" of the clean tuning rows, of {n_classes} classes. Leave out the perturbation, or"
            " look whether the network and its normalization fit the data."
        )
    trials = Trials({0.0: clean})
    levels = []
    for severity in range(1, N_LEVELS + 1):
        target = clean - (clean - 1 / n_classes) * severity / N_LEVELS
        tolerance = (LAST_TOLERANCE if severity == N_LEVELS else TOLERANCE) * clean
        for n in range(MOST_PASSES):
            best = trials.nearest(target)
            if best is not None and abs(trials.seen[best] - target) <= tolerance:
                break
            sigma = trials.next(target)
            if sigma is None:
                break
            on_expected(max(1, PASSES - n) + PASSES * (N_LEVELS - severity))
            trials.seen[sigma] = accuracy(sigma)
        best = trials.nearest(target)
        # The first level begins with no noise tried, and so has tried some by now.
        assert best is not None
        found = trials.seen[best]
        met = abs(found - target) <= tolerance
        levels.append(Level(severity, target, best, found, met))
    on_expected(0)
    return tuple(levels)
