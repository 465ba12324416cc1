"""Maps of the top-label confidence: one number per row in, one number per row out."""

from abc import abstractmethod
from dataclasses import replace
from typing import final

import numpy as np

from wildcal.calibrators.distinct_scores import DistinctScores, Runs, merged, whole
from wildcal.calibrators.soft_rows import soft_weight
from wildcal.core.arrays import BoolArray, FloatArray, Proba
from wildcal.core.block import Block
from wildcal.core.blocks import map_blocks
from wildcal.core.bound import Bound
from wildcal.core.calibrator import Calibrator, FitSummary
from wildcal.core.rows import Rows


class TopLabelMap(Calibrator):
    """A calibrator that replaces the confidence of the predicted class by q = f(confidence).

    A method supplies `_fit_map` and `_map`, functions of the softmax confidence alone. In the
    probability matrix the predicted class gets q, and the other classes share 1 - q in the
    proportions of the softmax (equally, where it gave them nothing).

    `predict` and `confidence` always speak of the class with the largest logit. Yet a small q may
    leave another class with more than q, so the largest entry of a row of the matrix can be
    another one: `preserves_accuracy` is False.

    The confidence is one minus the mass of the other classes, rounded as `Block.steady_others`
    says. In float32, where all confidences above 1 - 3e-8 would be the same number, this tells
    them apart as float64 does.
    """

    preserves_accuracy = False
    shift_invariant = True
    state = "scores"
    prior: float = 0.0
    """Strength of soft rows: each row once more, right with the probability that it has now."""

    @abstractmethod
    def _fit_map(
        self, confidence: FloatArray, correct: BoolArray, weight: FloatArray | None
    ) -> FitSummary:
        """Learn f from confidences and whether the predicted class was right; weights > 0.

        Equal confidences come as one or two rows, of the ones that were right and of the others.
        """

    @abstractmethod
    def _map(self, confidence: FloatArray) -> FloatArray:
        """Return f(confidence), within [0, 1]."""

    def _drops_rest(self) -> bool:
        """Whether the other classes get zero instead of their share of 1 - q."""
        return False

    @final
    def _fit(self, rows: Rows) -> FitSummary:
        logits, y, weight = rows.tuning()

        def look(block: Block) -> Runs:
            mine = None if weight is None else weight[block.rows]
            correct = block.pred() == y[block.rows]
            return (DistinctScores.of_rows(1.0 - block.steady_others()[0], correct, mine),)

        confidence, correct, count = whole(map_blocks(logits, look, merged)).rows()
        summary = self._fit_map(*self._with_soft_rows(confidence, correct, count))
        if correct.all() or not correct.any():
            what = "right" if correct.all() else "wrong"
            note = f"every held-out row is {what}, so there is little to learn from them."
            summary = replace(summary, notes=(*summary.notes, note))
        if summary.loss != "none":
            return summary
        before = np.average(np.square(confidence - correct), weights=count)
        after = np.average(np.square(self._map(confidence) - correct), weights=count)
        return replace(summary, loss="mse", loss_before=float(before), loss_after=float(after))

    def _with_soft_rows(
        self, confidence: FloatArray, correct: BoolArray, w: FloatArray
    ) -> tuple[FloatArray, BoolArray, FloatArray]:
        """Return the rows with soft ones, which pull the curve towards the confidence itself.

        A row that is right with some probability is a row that is right and one that is wrong.
        """
        if not self.prior:
            return confidence, correct, w
        lam = soft_weight(float(w @ ~correct), float(w @ (1 - confidence)), self.prior)
        right = w * (correct + lam * confidence) / (1 + lam)
        both = np.concatenate([right, w - right])
        known = both > 0
        target = np.repeat([True, False], len(w))
        return np.tile(confidence, 2)[known], target[known], both[known]

    @final
    def _bind(self, rows: Rows) -> Bound:
        return Bound(
            rows.logits, self._fill, lambda block: self._map(1.0 - block.steady_others()[0])
        )

    def _fill(self, block: Block, out: Proba) -> None:
        rest, others, sums = block.steady_others()
        q = self._map(1.0 - rest)
        if self._drops_rest():
            out[:] = 0
        else:
            # Dividing by it could overflow in float32; the same rows in float64 say the same.
            nothing = rest <= np.finfo(np.float32).tiny
            sums[nothing] = out.shape[1] - 1
            others[nothing] = 1
            np.multiply(others, ((1.0 - q) / sums)[:, None], out=out, casting="same_kind")
        out[np.arange(block.n), block.pred()] = q
