"""Density-aware calibration: a temperature from neighbor distances (Tomani et al., 2023)."""

from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from wildcal.calibrators._wrapper import Wrapper
from wildcal.calibrators.identity import Identity
from wildcal.calibrators.temperature import fit_temperature
from wildcal.core.arrays import Array, FloatArray, clip
from wildcal.core.calibrator import Calibrator, FitInfo, fit_base
from wildcal.core.exceptions import InputError
from wildcal.core.optimize import (
    Loss,
    Solution,
    TemperatureObjective,
    linear_link,
    temperature_losses,
)
from wildcal.core.validation import Samples, check_choice, check_distances, check_number

_MAX_WEIGHT: Final = 1e4
_MAX_OFFSET: Final = 100.0
# Larger values make all logits equal.
_MAX_SCALE: Final = 1e6
_MAX_DISTANCE: Final = 1e30
# Without kinks: a sample with so small an S has probabilities of 0 and 1 and no gradient.
_NO_FLOOR: Final = 1e-6


def fit_layer_weights(
    data: Samples, distances: FloatArray, *, loss: Loss, floor: float
) -> tuple[FloatArray, float, Solution]:
    """Return the weights in [0, 1e4] and the offset in [-100, 100] of the smallest loss.

    The loss is not convex: the search starts from temperature scaling and, as published, from all
    weights 1. A loss with samples at the floor has kinks that stop Newton's method, so it is
    minimized without the floor first.
    """
    # In units of the mean distance of each layer: layers differ by orders of magnitude.
    unit = distances.mean(axis=0)
    unit[unit == 0] = 1.0
    design = np.column_stack([distances / unit, np.ones(len(distances))])
    lower = np.append(np.zeros(len(unit)), -_MAX_OFFSET)
    upper = np.append(_MAX_WEIGHT * unit, _MAX_OFFSET)

    def search(least: float, *starts: FloatArray) -> Solution:
        objective = TemperatureObjective(
            data.logits, data.y, data.weight, design, linear_link(least), loss=loss
        )
        solutions = [objective.minimize(start, lower, upper) for start in starts]
        return min(solutions, key=lambda solution: solution.value)

    single = np.append(np.zeros(len(unit)), fit_temperature(data, loss=loss).temperature)
    smooth = search(min(_NO_FLOOR, floor), single, np.append(unit, 1.0))
    best = search(floor, single, smooth.x)
    # A stop at a kink counts as converged if the smooth problem was solved.
    converged = best.converged or smooth.converged
    best = replace(best, n_iter=smooth.n_iter + best.n_iter, converged=converged)
    return best.x[:-1] / unit, float(best.x[-1]), best


@dataclass(kw_only=True, eq=False, repr=False)
class DensityAwareCalibration(Wrapper):
    """p = base(z / S), S = w_0 + sum over layers of w_l s_l, at least `floor`.

    s_l is the squared distance of the sample to a neighbor among the training samples, in the
    features of layer l. It is large for samples unlike the training data. The weights w_l >= 0 and
    the offset w_0 are fitted on the source samples, then the base on the scaled logits.

    Parameters
    ----------
    base
        Calibrator of the scaled logits. Default: their softmax. It is cloned unless it is fitted.
    neighbor
        Which neighbor the distances are measured to: "kth", as published, or "first", as in the
        published code. It is stored for the program that measures the distances.
    loss
        "mse" (squared error of the probabilities, as published) or "nll".
    floor
        Smallest S. The offset may be negative, so S could reach zero without it.

    Attributes
    ----------
    weights_
        w_l, shape (n_layers,).
    offset_
        w_0.
    base_
        The fitted base.

    Notes
    -----
    Departures from the paper: exact derivatives; S is at least 0.05, not 1e-20; the search also
    starts from temperature scaling, so its loss is never larger than that of one temperature.

    References
    ----------
    Tomani et al., Beyond in-domain scenarios: robust density-aware calibration, ICML 2023.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.array([[3.0, 0.0]] * 80)
    >>> y = np.repeat([0, 0, 0, 1], 20)  # mistakes are far from the training samples
    >>> distances = np.repeat([0.1, 0.1, 0.1, 0.4], 20)
    >>> calibrator = DensityAwareCalibration().fit(logits, y, knn_distances=distances)
    >>> calibrator.confidence(logits[[0, -1]], knn_distances=distances[[0, -1]]).round(2)
    array([1. , 0.5])
    """

    base: Calibrator | None = None
    neighbor: Literal["kth", "first"] = "kth"
    loss: Loss = "mse"
    floor: float = 0.05
    weights_: FloatArray = field(init=False)
    offset_: float = field(init=False)
    base_: Calibrator = field(init=False)

    reference = "Tomani et al., ICML 2023"
    requires = frozenset({"knn_distances"})

    @property
    def name(self) -> str:  # type: ignore[override]
        """The registered short name: "dac", or "dac+" and that of the base."""
        return "dac" if isinstance(self._inner(), Identity) else f"dac+{self._inner().name}"

    @property
    def title(self) -> str:  # type: ignore[override]
        """A phrase for tables."""
        after = "" if isinstance(self._inner(), Identity) else f", then {self._inner().title}"
        return f"density-aware calibration{after}"

    @property
    def n_layers(self) -> int:
        """Number of layers whose distances were given to `fit`."""
        return len(self.weights_)

    def _inner(self) -> Calibrator:
        return self.base or Identity()

    def _check_options(self) -> None:
        if not isinstance(self._inner(), Calibrator) or self._inner().requires:
            raise InputError(
                f"base must be a calibrator of logits alone, got {self.base!r:.80}. Try"
                " TemperatureScaling().",
                "base",
            )
        self._inner()._check_options()
        check_choice("neighbor", self.neighbor, ("kth", "first"))
        check_choice("loss", self.loss, ("mse", "nll"))
        check_number("floor", self.floor, 1e-6, 1)

    def _fit(self, data: Samples) -> FitInfo:
        source = data.subset(data.is_source)
        assert data.knn_distances is not None
        assert source.knn_distances is not None
        self.weights_, self.offset_, solution = fit_layer_weights(
            source, source.knn_distances.astype(np.float64), loss=self.loss, floor=self.floor
        )
        scale = self._scale(np, data.knn_distances.astype(np.float64))
        scaled = replace(data, logits=data.logits / scale, knn_distances=None, warnings=())
        self.base_ = fit_base(self._inner(), scaled, self.input_)
        inner = self.base_.fit_info_
        before = temperature_losses(source.logits, source.y, np.ones(1), self.loss)
        at_floor = int((scale[data.is_source] <= self.floor).sum())
        note = f"{at_floor} of {len(source)} samples have the smallest S, {self.floor:g}."
        return FitInfo(
            self.loss,
            float(np.average(before, weights=source.weight)),
            solution.value,
            solution.n_iter + inner.n_iter,
            solution.converged and inner.converged,
            warnings=(*([note] if at_floor else []), *inner.warnings),
        )

    def scale(self, knn_distances: ArrayLike) -> FloatArray:
        """Return S of each sample, shape (n_samples,)."""
        self.check_is_fitted()
        n_samples = len(np.asarray(knn_distances))
        distances = check_distances(knn_distances, n_samples, self.n_layers)
        return np.asarray(self._scale(np, distances.astype(np.float64))[:, 0])

    def formula(self, xp: Any, z: Array, *inputs: Array) -> Array:
        """Return the probabilities of the base for z / S."""
        return self.base_.formula(xp, z / self._scale(xp, xp.astype(inputs[0], z.dtype)))

    def _scale(self, xp: Any, distances: Array) -> Array:
        total = clip(xp, distances, None, _MAX_DISTANCE) @ self.weights_ + self.offset_
        return xp.reshape(clip(xp, total, self.floor, _MAX_SCALE), (-1, 1))
