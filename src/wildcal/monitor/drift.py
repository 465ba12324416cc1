"""A sequential test for drift of confidence and predicted classes.

Each sample gives indicators: its confidence lies in one of the lowest b bins, and its predicted
class is c. Of each indicator the calibration samples give an exact confidence interval of its
probability. A bet on "more often" multiplies its wealth by the likelihood ratio of a larger
probability q to the upper end p of the interval, q / p or (1 - q) / (1 - p); one on "less often"
uses the lower end. As long as the true probability lies in the interval this is a fair game or
worse, so by Ville's inequality the weighted mean of the wealth, the e-value, ever reaches L with a
probability of at most 1 / L (Waudby-Smith & Ramdas, 2024). A change may begin at any time, so a
part 1 / (t (t + 1)) of the initial wealth is bet from block t on.

Half of the false-alert rate is spent on the intervals, half on the bets.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from scipy.special import betaincinv

from wildcal.core.arrays import N_CONFIDENCE_BINS as N_BINS
from wildcal.core.arrays import FloatArray, IntArray
from wildcal.core.profile import Profile

BLOCK: Final = 8
"""Samples between two evaluations of the test."""
# Log-odds between the two probabilities of a bet.
_CONFIDENCE_STEPS: Final = np.array([0.2, 0.5, 1.2, 3.0])
_CLASS_STEPS: Final = np.array([1.0, 3.0])
# Upper limit of the wealth, against overflow.
_MAX_WEALTH: Final = 1e100
# An alert ends after so many windows without a new one.
_QUIET_WINDOWS: Final = 2


class DriftTest:
    """Sequential test of samples against a profile; see the description of the module.

    Parameters
    ----------
    profile
        Statistics of the calibration samples.
    false_alert_rate
        Probability that a stream of samples like those of calibration, independent of each other,
        ever raises an alert. It holds over calibration sets and streams, for any distribution.
    """

    def __init__(self, profile: Profile, false_alert_rate: float) -> None:
        n, k = profile.n_samples, len(profile.class_counts)
        below = np.cumsum(profile.histogram)[:-1]
        level = false_alert_rate / 2 / (2 * (len(below) + k))
        # Shape (2, n_bets): the factor where the indicator is 0, and where it is 1.
        bins = _factors(below, n, level, _CONFIDENCE_STEPS)
        inside = np.arange(N_BINS)[:, None] <= np.arange(N_BINS - 1)
        # Logarithm of the factor of each bet on confidence for a sample in each bin.
        self._by_bin = np.log(np.where(inside[:, :, None], bins[1], bins[0])).reshape(N_BINS, -1)
        classes = _factors(profile.class_counts, n, level, _CLASS_STEPS)
        self._missed = classes[0] ** BLOCK
        self._hit = classes[1] / classes[0]
        self.limit = 2 / false_alert_rate
        """The e-value that raises an alert."""

    def start(self) -> "DriftState":
        """Return the state before the first sample."""
        return DriftState(np.zeros(self._by_bin.shape[1]), np.zeros(self._missed.shape))

    def update(
        self, state: "DriftState", bins: IntArray, classes: IntArray, window: int
    ) -> list[int]:
        """Add samples, given as bins of confidence and predicted classes, to a state.

        Returns the numbers of the samples, from 1, at which an alert begins.
        """
        now = state.n_samples - len(state.pending)
        state.n_samples += len(bins)
        before = np.array(state.pending, dtype=np.int64).reshape(-1, 2)
        samples = np.concatenate([before, np.column_stack([bins, classes])])
        n_whole = len(samples) // BLOCK * BLOCK
        state.pending = samples[n_whole:].tolist()
        blocks = samples[:n_whole].reshape(-1, BLOCK, 2)
        factors = np.exp(self._by_bin[blocks[..., 0]].sum(axis=1))
        began = []
        for factor, hit in zip(factors, blocks[..., 1].tolist(), strict=True):
            self._take_block(state, factor, hit)
            now += BLOCK
            if state.e_value >= self.limit:
                if not state.is_alert(now, window):
                    began.append(now)
                    state.since = now
                state.last = now
                # The test restarts, so an alert lasts as long as it is repeated.
                state.n_blocks, state.e_value = 0, 1.0
                state.confidence[:] = state.classes[:] = 0.0
        state.n_alerts += len(began)
        return began

    def _take_block(self, state: "DriftState", factor: FloatArray, hit: list[int]) -> None:
        state.n_blocks += 1
        fresh = 1 / (state.n_blocks * (state.n_blocks + 1))
        state.confidence += fresh
        state.confidence *= factor
        state.classes += fresh
        state.classes *= self._missed
        for c in hit:
            state.classes[c] *= self._hit[c]
        np.minimum(state.confidence, _MAX_WEALTH, out=state.confidence)
        np.minimum(state.classes, _MAX_WEALTH, out=state.classes)
        wealth = (float(state.confidence.mean()) + float(state.classes.mean())) / 2
        state.e_value = wealth + 1 / (state.n_blocks + 1)


@dataclass
class DriftState:
    """State of the test: the wealth of the bets, and the alert."""

    confidence: FloatArray
    classes: FloatArray
    pending: list[list[int]] = field(default_factory=list)
    """Bin and class of the samples since the last whole block."""
    n_blocks: int = 0
    n_samples: int = 0
    e_value: float = 1.0
    since: int = 0
    """The sample at which the last alert began, 0 without any."""
    last: int = 0
    """The sample at which the limit was last passed."""
    n_alerts: int = 0

    def is_alert(self, now: int, window: int) -> bool:
        """Return whether there is an alert at a sample."""
        return self.last > 0 and now - self.last <= _QUIET_WINDOWS * window

    def merged(self, other: "DriftState") -> "DriftState":
        """Return the state of two streams together: the mean of their wealth.

        Samples that wait for a whole block are left out. The number of blocks is the larger one, so
        at most the remaining wealth is bet later.
        """
        total = self.n_samples + other.n_samples
        alerts = [state for state in (self, other) if state.last]
        return DriftState(
            confidence=(self.confidence + other.confidence) / 2,
            classes=(self.classes + other.classes) / 2,
            n_blocks=max(self.n_blocks, other.n_blocks),
            n_samples=total,
            e_value=(self.e_value + other.e_value) / 2,
            since=max((total - state.n_samples + state.since for state in alerts), default=0),
            last=max((total - state.n_samples + state.last for state in alerts), default=0),
            n_alerts=self.n_alerts + other.n_alerts,
        )


def _factors(k: FloatArray, n: int, level: float, steps: FloatArray) -> FloatArray:
    """Return likelihood ratios of x = 0 and x = 1, shape (2, len(k), 2 len(steps)).

    They are for larger probabilities than the upper end of the Clopper-Pearson interval, then for
    smaller ones than its lower end. Where an end is 0 or 1 they are 1: nothing is bet.
    """
    with np.errstate(invalid="ignore"):
        high = np.where(k < n, betaincinv(k + 1, np.where(k < n, n - k, 1), 1 - level), 1.0)
        low = np.where(k > 0, betaincinv(np.where(k > 0, k, 1), n - k + 1, level), 0.0)
    found = []
    for end, sign in ((high, 1.0), (low, -1.0)):
        bet = (end > 0) & (end < 1)
        p = np.where(bet, end, 0.5)[:, None]
        q = 1 / (1 + (1 - p) / p * np.exp(-sign * steps))
        ratios = np.stack([(1 - q) / (1 - p), q / p])
        found.append(np.where(bet[:, None], ratios, 1.0))
    return np.concatenate(found, axis=2)
