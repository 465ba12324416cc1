"""Label shift: reweight the probabilities of classes that are more or less frequent in a window."""

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from scipy.stats import chi2

from wildcal.calibrators.vector import VectorScaling
from wildcal.core.arrays import Array, FloatArray
from wildcal.core.calibrator import Calibrator, FitInfo, fit_base
from wildcal.core.exceptions import InputError
from wildcal.core.validation import Samples, warn
from wildcal.window.base import AdaptedCalibrator, WindowCalibrator, copy_fit

# `fit` warns about classes that are predicted for less than this part of their source samples.
_MIN_RECALL: Final = 0.25
# Probability of a warning for a window under label shift alone.
_FALSE_WARNINGS: Final = 0.01
# The 97.5 % quantile of the normal distribution, and the largest half width without a warning.
_Z: Final = 1.959963984540054
_MAX_ERROR: Final = 0.05
# Cells of the test with fewer expected samples are merged.
_MIN_EXPECTED: Final = 5.0
_MAX_STEPS: Final = 5000
# EM ends this near to the largest log-likelihood, in nats for the whole window.
_TOLERANCE: Final = 1e-3
_SMALLEST: Final = 1e-12


class PriorEstimate(NamedTuple):
    """Class frequencies of a window."""

    prior: FloatArray
    standard_error: FloatArray


@dataclass(kw_only=True, eq=False, repr=False)
class LabelShiftEM(WindowCalibrator):
    """p_k = u_k q_k / pi_k, divided by the sum over classes.

    u are probabilities of the base, pi their mean on source samples. q are the class frequencies of
    the window, by EM. The method assumes label shift: only class frequencies change, and the
    samples of a class are distributed as in the source. The predicted class may change.

    `fit` warns if a class is rarely predicted for its samples. `adapt` warns if label shift does
    not explain the window, or if the class frequencies are uncertain.

    Parameters
    ----------
    base
        A calibrator. An unfitted one is fitted on source samples. Default:
        `VectorScaling(tied=True)`, bias-corrected temperature scaling.
    min_window
        Smaller windows get the base.

    Attributes
    ----------
    base_
        The fitted base.
    prior_
        pi, shape (n_classes,).
    cells_
        Share of the source samples of each class (row) by predicted class and confidence: below the
        median of that prediction, or above. Shape (n_classes, 2 n_classes).
    medians_
        These medians.

    References
    ----------
    Alexandari et al., Maximum likelihood with bias-corrected calibration is hard-to-beat at label
    shift adaptation, ICML 2020. EM: Saerens et al., Neural Computation 14, 2002.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> def draw(n, prior):
    ...     y = rng.choice(3, n, p=prior)
    ...     return rng.normal(size=(n, 3)) + 2 * np.eye(3)[y], y
    >>> calibrator = LabelShiftEM().fit(*draw(5000, [1 / 3, 1 / 3, 1 / 3]))
    >>> window, _ = draw(5000, [0.7, 0.2, 0.1])
    >>> calibrator.estimate_prior(window).prior.round(1)
    array([0.7, 0.2, 0.1])
    """

    name = "label-shift"
    title = "label shift by EM"
    reference = "Alexandari et al., ICML 2020"

    preserves_accuracy = False
    no_adjustment = 1.0

    prior_: FloatArray = field(init=False)
    cells_: FloatArray = field(init=False)
    medians_: FloatArray = field(init=False)

    def _inner(self) -> Calibrator:
        return self.base or VectorScaling(tied=True)

    def _fit(self, data: Samples) -> FitInfo:
        self.base_ = fit_base(self._inner(), data, self.input_)
        data = data.subset(data.is_source)
        p = self._of_fit(self.base_.formula, data)
        prior = np.maximum(data.weight @ p / data.weight.sum(), _SMALLEST)
        self.prior_ = prior / prior.sum()
        predicted, confidence = p.argmax(axis=1), p.max(axis=1)
        k = data.n_classes
        self.medians_ = np.ones(k)
        for each in np.unique(predicted):
            part = predicted == each
            middle = {"weights": data.weight[part], "method": "inverted_cdf"}
            self.medians_[each] = np.quantile(confidence[part], 0.5, **middle)
        counts = np.zeros((k, 2 * k))
        np.add.at(counts, (data.y, self._cell(p)), data.weight)
        total = counts.sum(axis=1, keepdims=True)
        self.cells_ = counts / np.maximum(total, 1e-12)
        recall = self.cells_[:, :k].diagonal() + self.cells_[:, k:].diagonal()
        notes = list(self.base_.fit_info_.warnings)
        n_weak, which = int((recall < _MIN_RECALL).sum()), int(recall.argmin())
        if n_weak:
            notes.append(
                f"{n_weak} of {k} classes are predicted for less than {_MIN_RECALL:.0%} of their"
                f" source samples (class {data.class_name(which)}: {recall[which]:.0%}), so the"
                " estimated frequencies are uncertain. Try with_prior if they are known."
            )
        return FitInfo(warnings=tuple(notes))

    def estimate_prior(self, X: Any, *, knn_distances: Any = None) -> PriorEstimate:
        """Return the class frequencies of a window of samples, with standard errors."""
        self.check_is_fitted()
        return self._estimate(self._unadjusted_proba(X, knn_distances))

    def _adjustment_to(self, X: Any, knn_distances: Any) -> FloatArray | float:
        p = self._unadjusted_proba(X, knn_distances)
        if len(p) < self.min_window:
            return self.no_adjustment
        found = self._estimate(p)
        self._warn(p, found)
        return found.prior / self.prior_

    def adapted_formula(self, xp: Any, z: Array, adjustment: Any, *inputs: Array) -> Array:
        """Return the probabilities of the base times q / pi, normalized."""
        p = self.base_.formula(xp, z, *inputs) * adjustment
        return p / xp.sum(p, axis=-1, keepdims=True)

    def _cell(self, p: FloatArray) -> Any:
        predicted = p.argmax(axis=1)
        return predicted + p.shape[1] * (p.max(axis=1) >= self.medians_[predicted])

    def _estimate(self, p: FloatArray) -> PriorEstimate:
        q = class_frequencies(p, self.prior_)
        ratio = p / self.prior_
        ratio /= (ratio @ q)[:, None]
        # The inverse information on the plane where frequencies sum to 1.
        k = len(q)
        basis = np.linalg.qr(np.hstack([np.ones((k, 1)), np.eye(k)[:, 1:]]))[0][:, 1:]
        information = basis.T @ (ratio.T @ ratio) @ basis
        variance = ((basis @ np.linalg.pinv(information, hermitian=True)) * basis).sum(axis=1)
        # Known labels would leave q (1 - q) / n. The rest comes from source samples as well.
        rest = np.maximum(variance - q * (1 - q) / len(p), 0)
        return PriorEstimate(q, np.sqrt(np.maximum(variance, 0) + self._ratio(p) * rest))

    def _ratio(self, p: FloatArray) -> float:
        """Return the number of samples of a window divided by that of source samples."""
        assert self.profile_ is not None
        return len(p) / self.profile_.n_samples

    def _warn(self, p: FloatArray, found: PriorEstimate) -> None:
        """Warn if label shift does not explain a window, or if the frequencies are uncertain."""
        n, k = p.shape
        observed = np.bincount(self._cell(p), minlength=2 * k).astype(np.float64)
        expected = n * found.prior @ self.cells_
        # Adds the variance of the cells, from source samples with the weights q / pi.
        scale = 1 + self._ratio(p) * float(found.prior @ (found.prior / self.prior_))
        small = expected < _MIN_EXPECTED
        observed = np.append(observed[~small], observed[small].sum())
        expected = np.append(expected[~small], max(expected[small].sum(), 1.0))
        statistic = ((observed - expected) ** 2 / (expected * scale)).sum()
        if statistic > chi2.isf(_FALSE_WARNINGS, max(len(observed) - 1, 1)):
            warn(
                "LabelShiftEM: the predictions of the window are not those of the source with other"
                " class frequencies, so more than these has changed and the probabilities may be"
                " wrong. Try WindowScaling.",
                level=5,
            )
        error = _Z * float(found.standard_error.max())
        if error > _MAX_ERROR:
            warn(
                "LabelShiftEM: the class frequencies of the window are uncertain, that of one class"
                f" by {error:.2f}. Try a larger window, or with_prior if they are known.",
                level=5,
            )


def class_frequencies(p: FloatArray, prior: FloatArray) -> Array:
    """Return the q that maximizes sum_i log(sum_k q_k p_ik / prior_k) + K sum_k prior_k log(q_k).

    K is the number of classes: one sample for each class is added, at the source frequencies, so
    that no frequency is 0. By EM.

    >>> p = np.array([[0.9, 0.1], [0.1, 0.9], [0.9, 0.1], [0.3, 0.7]])
    >>> class_frequencies(p, np.array([0.5, 0.5])).round(2)
    array([0.55, 0.45])
    """
    n, k = p.shape
    ratio = p / prior
    ratio /= ratio.max(axis=1, keepdims=True)
    q = prior
    for _ in range(_MAX_STEPS):
        counts = q * ((1 / np.maximum(ratio @ q, 1e-290)) @ ratio)
        new = (counts + k * prior) / (n + k)
        short = (n + k) * float((new / q).max() - 1)  # bounds the distance to the maximum
        q = new / new.sum()
        if short < _TOLERANCE:
            break
    return q


def with_prior(calibrator: Calibrator, prior: Any, source_prior: Any = None) -> AdaptedCalibrator:
    """Return a calibrator for other class frequencies that are known (Bayes' rule).

    p_k = u_k prior_k / source_prior_k, divided by the sum over classes, where u are the
    probabilities of `calibrator`. It is an ordinary calibrator, which can be saved and exported.

    Parameters
    ----------
    calibrator
        A fitted calibrator. A window calibrator must be adapted first.
    prior
        Class frequencies where the calibrator will be used, shape (n_classes,).
    source_prior
        Class frequencies of its calibration samples. Default: those of the labels of its fit.

    Notes
    -----
    If a classifier was trained on undersampled data and calibrated on such data as well, `prior`
    has the frequencies before undersampling. Calibration samples with the real frequencies need no
    correction.

    Examples
    --------
    >>> from wildcal import VectorScaling
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(2000, 2))
    >>> y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)  # balanced
    >>> rare = with_prior(VectorScaling().fit(logits, y), [0.95, 0.05])
    >>> rare.predict_proba([[0.0, 0.0]]).round(2)
    array([[0.95, 0.05]])
    """
    calibrator.check_is_fitted()
    if isinstance(calibrator, WindowCalibrator):
        raise calibrator.not_adapted()
    if source_prior is None:
        counts = getattr(calibrator.profile_, "label_counts", None)
        if counts is None:
            raise InputError(
                "source_prior must be given: the calibrator has no class frequencies.",
                "source_prior",
            )
        source_prior = (counts + 0.5) / (counts + 0.5).sum()
    shift = LabelShiftEM(base=calibrator)
    copy_fit(calibrator, shift)
    k = calibrator.n_classes_
    shift.base_, shift.prior_ = calibrator, _checked_prior("source_prior", source_prior, k)
    shift.cells_, shift.medians_ = np.zeros((k, 2 * k)), np.zeros(k)
    return shift._adapted(_checked_prior("prior", prior, k) / shift.prior_)


def _checked_prior(name: str, prior: Any, n_classes: int) -> FloatArray:
    array = np.asarray(prior, dtype=np.float64)
    if array.shape != (n_classes,):
        raise InputError(f"{name} must have shape ({n_classes},), got {array.shape}.", name)
    least = 0.0 if name == "prior" else np.finfo(np.float64).tiny
    if not (np.isfinite(array).all() and array.min() >= least and abs(array.sum() - 1) < 1e-3):
        raise InputError(
            f"{name} must be {'positive' if least else 'not negative'} and sum to 1, got"
            f" {array.round(4).tolist()!r:.80} with sum {array.sum():.4g}.",
            name,
        )
    return np.asarray(array / array.sum())
