"""Multi-domain temperature scaling: a linear function of the row, fitted to one T per domain."""

from dataclasses import dataclass, field
from typing import Final, final

import numpy as np

from wildcal.calibrators.parameterized_temperature import FARTHEST, LARGEST_LOGIT
from wildcal.calibrators.temperature import DEFAULT_BOUNDS, bound_notes, fit_temperature
from wildcal.core.arrays import FloatArray
from wildcal.core.block import Block
from wildcal.core.blocks import joined, map_blocks
from wildcal.core.calibrator import FitSummary, TemperatureMap
from wildcal.core.objective import mean_loss
from wildcal.core.rows import Rows
from wildcal.core.stored import ARRAY, stored

SMALLEST: Final = 0.05
"""T is never below."""
# Sorted logits of many classes are nearly collinear; this much of their variance is added.
_RIDGE: Final = 1e-6
_ALONE: Final = (
    "there is no shifted environment to learn from; this is temperature scaling. Give fit the"
    " environment of each row."
)


@final
@dataclass(kw_only=True, eq=False)
class MultiDomainScaling(TemperatureMap):
    """p = softmax(z / T(x)), T = b + w · [sorted logits, logsumexp], by least squares on the T_e.

    One temperature T_e is fitted in each labeled environment, the clean one included; then T_e is
    regressed on the features of all rows of its environment. At a new row the line gives T, at
    least 0.05 and at most 100. It reads labeled environments, and no window.

    Notes
    -----
    Yu, Bates, Ma, Jordan, Robust calibration with multi-domain temperature scaling, NeurIPS 2022,
    whose features are penultimate activations. Here they are what logits have of them: the sorted
    logits and their logsumexp, standardized and cut at ten standard deviations. Every environment
    has the same weight.
    """

    name = "md-ts"
    title = "multi-domain temperature scaling, on logits"
    reference = "Yu et al., NeurIPS 2022"
    stores = "3 K + 4 numbers"
    shift_invariant = False
    needs_raw_logits = True
    reads = frozenset({"logits", "environment"})

    mean_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))
    std_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))
    coefficients_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))
    """b, then w."""

    def _check_fitted(self) -> None:
        n = self.n_classes_ + 1
        shapes = self.mean_.shape, self.std_.shape, self.coefficients_.shape
        if shapes != ((n,), (n,), (n + 1,)):
            raise ValueError(f"the fitted arrays must be of {n}, {n} and {n + 1} numbers")
        if not (self.std_ > 0).all():
            raise ValueError("std must be positive")

    def _reads_energy(self) -> bool:
        return bool(self.coefficients_[-1] != 0)

    def _fit(self, rows: Rows) -> FitSummary:
        if rows.weight is not None:  # an environment without weight has no temperature
            rows = rows[rows.weight > 0]
        logits, y, given = rows.tuning()
        groups = np.zeros(len(y), np.int64) if rows.environment is None else rows.environment
        numbers, which = np.unique(groups, return_inverse=True)
        weight = np.ones(len(y)) if given is None else given
        fits = [
            fit_temperature(logits[which == e], y[which == e], weight=weight[which == e])
            for e in range(len(numbers))
        ]
        found = np.array([fit.temperature for fit in fits])
        x = map_blocks(logits, _features, joined)
        share = weight / np.bincount(which, weight)[which] / len(numbers)
        self.mean_ = share @ x
        spread = np.sqrt(share @ np.square(x - self.mean_))
        varies = spread > 1e-6 * np.maximum(1.0, np.abs(self.mean_))
        self.std_ = np.where(varies, spread, 1.0)
        self.coefficients_ = np.zeros(x.shape[1] + 1)
        self.coefficients_[0] = found.mean()
        if len(numbers) > 1:
            inputs = self._inputs(x) * varies
            # The features are cut off, so their mean is only nearly zero.
            center = share @ inputs
            gram = (inputs * share[:, None]).T @ inputs - np.outer(center, center)
            gram += _RIDGE * np.eye(len(gram))
            slope = np.linalg.solve(gram, (share * (found[which] - found.mean())) @ inputs)
            self.coefficients_[1:] = slope * varies
            self.coefficients_[0] -= float(center @ slope)
        first = fits[0]
        clean = which == 0
        return FitSummary(
            loss="nll",
            loss_before=mean_loss(logits[clean], y[clean], weight[clean], 1.0, "nll"),
            loss_after=first.solution.value,
            iterations=sum(fit.solution.iterations for fit in fits),
            converged=all(fit.solution.converged for fit in fits),
            notes=(*bound_notes(first), *(() if len(numbers) > 1 else (_ALONE,))),
        )

    def _inputs(self, features: FloatArray) -> FloatArray:
        return np.asarray(np.clip((features - self.mean_) / self.std_, -FARTHEST, FARTHEST))

    def _temperature(self, block: Block) -> FloatArray:
        x = self._inputs(_features(block))
        # Not a matrix product, whose last bit may depend on how many rows there are.
        found = self.coefficients_[0] + (x * self.coefficients_[1:]).sum(axis=1)
        return np.asarray(np.clip(found, SMALLEST, DEFAULT_BOUNDS[1]))

    def _describe(self) -> list[str]:
        slope = np.abs(self.coefficients_[1:]).sum()
        return [
            f"Logits are divided by {self.coefficients_[0]:.4g} plus a linear function of the"
            f" sorted logits and their logsumexp, whose coefficients sum to {slope:.4g} in size."
        ]


def _features(block: Block) -> FloatArray:
    """Return the sorted logits of each row and their logsumexp, shape (n, K + 1)."""
    top = block.largest(block.original.shape[1])
    lowest = np.where(np.isneginf(top), np.inf, top).min(axis=1, keepdims=True)
    features = np.column_stack([np.maximum(top, lowest), -block.energy()])
    return np.asarray(np.clip(features, -LARGEST_LOGIT, LARGEST_LOGIT))
