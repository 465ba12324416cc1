"""Confidence optimal transport: the accuracy if the classes were as frequent as on clean rows."""

from dataclasses import dataclass, field
from typing import final

import numpy as np

from wildcal._old.accuracy.estimator import AccuracyEstimator, Reading, check_arrays
from wildcal._old.accuracy.means import Scaled
from wildcal._old.accuracy.rows import Rows, proba
from wildcal._old.accuracy.state import WindowState
from wildcal._old.accuracy.threshold import clean_threshold
from wildcal._old.accuracy.transport import Transport, transport
from wildcal._old.core.arrays import FloatArray, Logits
from wildcal._old.core.stored import ARRAY, REAL, stored


@dataclass(kw_only=True, eq=False)
class _Transported(Scaled, AccuracyEstimator):
    assumes_clean_class_mix = True
    mergeable = False
    reference = "Lu et al., NeurIPS 2023"
    smallest_window = 512
    usual_error = 0.2

    prior_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))
    """Shares of the labels of the clean rows."""

    def _learn(self, rows: Rows) -> None:
        counts = np.bincount(rows.of(0).y, minlength=self.n_classes_)
        self.prior_ = counts / counts.sum()

    def _plan(self, logits: Logits) -> Transport:
        return transport(proba(logits, self._unit(self.temperature_)), self.prior_)

    def _net(self, logits: Logits, plan: Transport) -> FloatArray:
        """Return what each row gets at the prices of the plan, which makes the value a mean.

        To first order, drawing rows anew changes the value as it changes the mean of this (the
        prices are a minimum of the dual), so the bootstrap has its variance.
        """
        p = proba(logits, self._unit(self.temperature_))
        return np.asarray((p - plan.price)[:, self.prior_ > 0].max(axis=1))

    def _read(self, logits: Logits, second: Logits | None) -> Reading:
        plan = self._plan(logits)
        return Reading(plan.value, float(self._net(logits, plan).var()) / len(logits))

    def _chance_cost(self, state: WindowState) -> float:
        """Return the confidence that is lost where classes differ by chance alone, at most.

        The classes of clean labels, and of a window like them, are those of a draw. Moving the
        rows by which they differ costs what these rows lead by, and never gains.
        """
        q, clean_rows = self.prior_, float(self.clean_counts_.sum())
        spread = np.sqrt(q * (1 - q) * (1 / state.n + 1 / clean_rows))
        differ = float(spread.sum()) / np.sqrt(2 * np.pi)  # E|normal| / 2, the total variation
        return float(differ * max(2 * state.sums[0] / state.n - 1, 0.0))

    def _check_fitted(self) -> None:
        super()._check_fitted()
        check_arrays((self.prior_, np.float64, self.n_classes_))
        if (self.prior_ < 0).any() or not abs(self.prior_.sum() - 1) < 1e-9:
            raise ValueError("prior must be shares that sum to 1")


@final
@dataclass(kw_only=True, eq=False)
class ConfidenceTransport(_Transported):
    """COT: the largest mean of p[i, y_i] over all labels y whose class shares are the clean ones.

    This is one minus the cost of moving the window's probabilities to one-hot vectors with the
    clean class shares, half the L1 distance from p to the one-hot vector of y being 1 - p_y. Labels
    may be divided where m times a share is not whole. The optimum is exact (`transport`).

    The authors' script rounds class counts and draws the remainder at random, and takes at most
    10,000 rows with replacement; a copy elsewhere also subtracts clean confidence minus clean
    accuracy. Neither is in the paper, nor here.

    Examples
    --------
    >>> logits, y = np.array([[2.0, 0.0], [0.0, 2.0]] * 2), np.array([0, 1, 0, 0])
    >>> estimator = ConfidenceTransport().fit(logits, y)
    >>> estimator.prior_
    array([0.75, 0.25])
    >>> round(estimator.estimate(logits).value, 6)  # (2 x 0.75 + 0.75 + 0.25) / 4
    0.625
    """

    name = "cot"
    title = "confidence optimal transport"


@final
@dataclass(kw_only=True, eq=False)
class ThresholdedTransport(_Transported):
    """COTT: the share of rows whose cost of transport is below a threshold of the clean rows.

    The cost of a row is 1 - p[i, y_i] for the class (or classes, in parts) that the plan of COT
    gives it. The threshold is the cost of the n-th most costly of the clean rows, n of which are
    wrong, under the plan to their own labels; rows that cost as much or more count as wrong, so the
    estimate for the clean rows is their accuracy. (Counting only those that cost more, as the
    authors' script does, is one row off.)
    """

    name = "cott"
    title = "thresholded confidence optimal transport"

    threshold_: float = field(init=False, repr=False, metadata=stored(REAL))
    """Rows that get at least this much, one minus their cost, count as right."""

    def _learn(self, rows: Rows) -> None:
        super()._learn(rows)
        clean = rows.of(0)
        n_errors = int((clean.logits.argmax(axis=1) != clean.y).sum())
        self.threshold_ = clean_threshold(self._got(clean.logits), n_errors)

    def _got(self, logits: Logits) -> FloatArray:
        # A dozen digits, so that what is equal but for rounding ties.
        return np.round(self._plan(logits).per_row, 12)

    def _read(self, logits: Logits, second: Logits | None) -> Reading:
        share = float((self._got(logits) >= self.threshold_).mean())
        return Reading(share, share * (1 - share) / len(logits))

    def _describe(self) -> list[str]:
        return [
            f"A row counts as right where its transport costs at most {1 - self.threshold_:.4g}."
        ]
