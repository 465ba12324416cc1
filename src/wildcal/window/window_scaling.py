"""Window scaling: the temperature of an unlabelled window, fitted on labelled domains.

Fit, a random-effects meta-regression:
1. Fit the log temperature of each domain, with its variance (`_log_temperature`).
2. Regress it on two statistics of the domain's predictions (`WindowScaling._statistics`).
3. Average the coefficients over models by their evidence (`_meta_regression`).
"""

from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np

from wildcal.core.arrays import Array, FloatArray, IntArray, largest, softmax
from wildcal.core.calibrator import FitInfo, fit_base
from wildcal.core.optimize import TemperatureObjective, exp_link, newton, temperature_losses
from wildcal.core.validation import Samples
from wildcal.window.base import WindowCalibrator, WindowStatistics

# Prior mean and standard deviation of mu, b_D and b_S: those of image networks, rounded.
PRIOR: Final = np.array([0.0, 1.0, 5.0])
SPREAD: Final = np.array([0.25, 1.0, 3.0])
# Prior standard deviation of the slope w.
SLOPE: Final = 0.10
# Model error of the log temperature of a domain: small or large, equally likely.
TAUS: Final = (0.05, 0.15)
# Each class starts with this many samples of average confidence.
SMOOTH: Final = 2.0

# Without domains the prior is used, which does not hold for more classes.
_MAX_CLASSES: Final = 200
# `fit` warns about smaller domains.
_MIN_DOMAIN: Final = 50
# Range of a log temperature.
_BOUND: Final = 5.0

_Fit: TypeAlias = tuple[FloatArray, FloatArray]


def _log_temperature(
    u: FloatArray, y: IntArray, weight: FloatArray, design: FloatArray, ridge: float = 1.0
) -> _Fit:
    """Return mode and covariance of t in softmax(u / exp(design @ t)), t ~ N(0, 1 / ridge)."""
    objective = TemperatureObjective(u, y, weight, design, exp_link, loss="nll")
    share, eye = ridge / weight.sum(), np.eye(design.shape[1])

    def penalized(t: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        value, gradient, hessian = objective(t)
        return value + share * float(t @ t) / 2, gradient + share * t, hessian + share * eye

    bound = np.full(len(eye), _BOUND)
    t = newton(penalized, np.zeros(len(eye)), -bound, bound, max_step=1.0).x
    v = u / np.exp(design @ t)[:, None]
    p = softmax(np, v)
    variance = (p * v * v).sum(axis=1) - (p * v).sum(axis=1) ** 2
    information = (design.T * (weight * np.maximum(variance, 0))) @ design
    return t, np.linalg.inv(information + (ridge + 1e-9) * eye)


def _meta_regression(
    a: FloatArray, variance: FloatArray, design: FloatArray, models: list[_Fit], n_uses: int = 1
) -> _Fit:
    """Return the posterior mean of t in a ~ N(design @ t, n_uses (variance + tau^2)).

    It is averaged by evidence over `models`, pairs of prior mean and standard deviation, and over
    TAUS. Also returns the posterior probabilities of the models.
    """
    evidence, means = np.zeros((len(models), len(TAUS))), []
    for i, (mean, spread) in enumerate(models):
        for j, tau in enumerate(TAUS):
            covariance = (design * spread**2) @ design.T + n_uses * np.diag(variance + tau**2)
            rest = a - design @ mean
            solved = np.linalg.solve(covariance, rest)
            evidence[i, j] = -0.5 * (rest @ solved + np.linalg.slogdet(covariance)[1])
            means.append(mean + spread**2 * (design.T @ solved))
    weight = np.exp(evidence - evidence.max())
    weight /= weight.sum()
    return weight.ravel() @ np.array(means), weight.sum(axis=1)


def _beyond_chance(x: Any, variance: float) -> Any:
    """Return x shrunk by the part of its sum of squares that noise explains (James-Stein)."""
    return x * max(0.0, 1 - variance / max(float(np.sum(x * x)), 1e-12))


@dataclass(kw_only=True, eq=False, repr=False)
class WindowScaling(WindowCalibrator):
    """p = softmax(u / T), log T = level + w f + mu + b_D D + b_S S.

    u are log-probabilities of the base, f the tanh of a sample's standardized margin. D and S are
    statistics of the window: D is the mean fall of the confidence below that of source samples of
    the same predicted class. S is the sum over predicted classes of x y / (x + y), where x is the
    surplus of the class over its source frequency and y the fall of the confidence in it. The
    part that sampling noise explains is subtracted from both. A source window has
    log T = level + w f + mu.

    Fit it with labelled domains (``domain=``), such as corruptions, places or months. Where the
    statistics of the domains do not predict their temperatures, b goes to 0 and the method is one
    temperature for all.

    Parameters
    ----------
    base
        A calibrator. An unfitted one is fitted on source samples. Default: temperature scaling.
    min_window
        For fewer samples, mu + b_D D + b_S S is replaced by 0.

    Attributes
    ----------
    base_
        The fitted base.
    level_, slope_
        level and w.
    offset_, coefficients_
        mu and (b_D, b_S).
    margin_mean_, margin_std_, frequency_, confidence_, confidence_variance_, n_source_
        Statistics of source samples: margin; frequency and confidence of each predicted class;
        variance of the confidence; number of samples.
    model_weights_
        Posterior probabilities that mu, b_D and b_S are used.
    domain_offsets_
        mu + b_D D + b_S S of the domains of the fit, the source first.

    Notes
    -----
    A window in which class frequencies and quality change together is underestimated. Without
    domains, half of the coefficients of image networks are used, up to 200 classes.

    Examples
    --------
    >>> import numpy as np
    >>> rng, domain = np.random.default_rng(0), np.repeat([0, 1, 2, 3], 1000)
    >>> logits = rng.normal(size=(4000, 5)) * 6 / (1 + 0.3 * domain[:, None])
    >>> y = (logits / (1 + domain[:, None]) + rng.gumbel(size=(4000, 5))).argmax(axis=1)
    >>> calibrator = WindowScaling().fit(logits, y, domain=domain)
    >>> source, shifted = calibrator.adapt(logits[:1000]), calibrator.adapt(logits[3000:])
    >>> bool(source.adjustment_ < shifted.adjustment_)
    True
    """

    name = "window"
    title = "window scaling"

    level_: float = field(init=False)
    slope_: float = field(init=False)
    offset_: float = field(init=False)
    coefficients_: FloatArray = field(init=False)
    margin_mean_: float = field(init=False)
    margin_std_: float = field(init=False)
    frequency_: FloatArray = field(init=False)
    confidence_: FloatArray = field(init=False)
    confidence_variance_: float = field(init=False)
    n_source_: float = field(init=False)
    model_weights_: FloatArray = field(init=False)
    domain_offsets_: FloatArray = field(init=False)

    def _fit(self, data: Samples) -> FitInfo:
        self.base_ = fit_base(self._inner(), data, self.input_)
        notes = [] if self.base_ is self.base else list(self.base_.fit_info_.warnings)
        data = data.subset(~data.is_ood)
        y, w = data.y, data.weight
        domain = np.zeros_like(y) if data.domain is None else data.domain
        groups = [np.flatnonzero(domain == d) for d in range(data.n_domains)]
        source = groups[0]
        u = self._of_fit(self._log_proba, data)
        margin = _margin(np, u[source])[:, 0]
        self.margin_mean_ = float(np.average(margin, weights=w[source]))
        variance = np.average((margin - self.margin_mean_) ** 2, weights=w[source])
        self.margin_std_ = float(np.sqrt(variance)) + 1e-12
        ones, shape = np.ones((len(y), 1)), self._shape(np, u)
        design = np.hstack([ones, shape])
        fits = [_log_temperature(u[g], y[g], w[g], design[g]) for g in groups]
        slopes, variances = np.array([(t[1], c[1, 1]) for t, c in fits]).T
        models = [(np.zeros(1), np.zeros(1)), (np.zeros(1), np.array([SLOPE]))]
        self.slope_ = float(_meta_regression(slopes, variances, ones[: len(groups)], models)[0][0])
        u /= np.exp(self.slope_ * shape)
        level, _ = _log_temperature(u[source], y[source], w[source], ones[source], ridge=0.0)
        self.level_ = float(level[0])
        u /= np.exp(self.level_)
        self._fit_source(u[source], w[source])
        self.offset_, self.coefficients_ = 0.0, PRIOR[1:] / 2
        self.model_weights_ = np.array([0.0, 0.5, 0.5])
        if len(groups) > 1:
            self._fit_domains(u, y, w, groups)
            smallest = min(len(g) for g in groups)
            if smallest < _MIN_DOMAIN:
                notes.append(
                    f"the smallest domain has {smallest} samples. Try merging domains until each"
                    f" has {_MIN_DOMAIN}."
                )
        elif data.n_classes <= _MAX_CLASSES:
            notes.append(
                "there are no domains, so the coefficients are half of those of image networks,"
                " which may not suit the model. Try samples with domains."
            )
        else:
            self.coefficients_, self.model_weights_ = np.zeros(2), np.zeros(3)
            notes.append(
                f"there are no domains and more than {_MAX_CLASSES} classes, so windows change"
                " nothing. Try samples with domains."
            )
        self.domain_offsets_ = np.array([self._offset(_summarize(u[g], w[g])) for g in groups])
        before = temperature_losses(u, y, np.exp(-self.level_ - self.slope_ * shape[:, 0]), "nll")
        after = temperature_losses(u, y, np.exp(self.domain_offsets_[domain]), "nll")
        return FitInfo(
            loss_before=float(w @ before / w.sum()),
            loss_after=float(w @ after / w.sum()),
            warnings=tuple(notes),
        )

    def _fit_source(self, u: FloatArray, w: FloatArray) -> None:
        """Set the statistics of source samples from their scaled log-probabilities."""
        window, n = _summarize(u, w), float(w.sum())
        self.n_source_ = n
        self.frequency_ = (window.counts + 1) / (n + u.shape[1])
        mean = window.confidence_sums.sum() / n
        self.confidence_ = (window.confidence_sums + SMOOTH * mean) / (window.counts + SMOOTH)
        confidence = softmax(np, u).max(axis=1)
        self.confidence_variance_ = float(w @ (confidence - mean) ** 2 / n)

    def _fit_domains(
        self, u: FloatArray, y: IntArray, w: FloatArray, groups: list[IntArray]
    ) -> None:
        """Regress the log temperatures of the domains on their statistics."""

        def fit(g: IntArray) -> tuple[float, float]:
            t, covariance = _log_temperature(u[g], y[g], w[g], np.ones((len(g), 1)))
            return t[0], covariance[0, 0]

        single, n_domains = np.array([fit(g) for g in groups]), len(groups)
        # A window may mix conditions, so each domain also enters half and half with another one.
        # Domains are paired in the order of their temperatures and samples are drawn in the order
        # of their values, so that the order in which they are given does not matter.
        order = np.argsort(single[:, 0])
        partner = np.empty_like(order)
        partner[order] = np.roll(order, n_domains // 2)
        ordered = [g[np.lexsort((u[g, 0], u[g, 1], y[g]))] for g in groups]
        drawn = [np.random.default_rng(0).permutation(g) for g in ordered]
        pairs = []
        for first, other in zip(drawn, partner, strict=True):
            n = max(min(len(first), len(drawn[other])), 2)
            pairs.append(np.concatenate([first[:n:2], drawn[other][1:n:2]]))
        a, variance = np.vstack([single, [fit(g) for g in pairs]]).T
        x = [self._statistics(_summarize(u[g], w[g])) for g in groups + pairs]
        # Domains with equal class counts probably contain the same images. Then their sampling
        # errors are correlated.
        class_counts = {np.bincount(y[g], w[g]).tobytes() for g in groups[1:]}
        same = n_domains > 2 and len(class_counts) == 1
        common = float(np.sqrt(np.median(variance[1:n_domains]))) if same else 0.0
        shifted = np.append(0.0, np.ones(n_domains - 1))
        shifted = np.append(shifted, (shifted + shifted[partner]) / 2)
        design = np.column_stack([np.ones(len(a)), x, shifted])
        used = np.array(list(np.ndindex(2, 2, 2)))
        models = [(np.append(PRIOR * each, 0.0), np.append(SPREAD * each, common)) for each in used]
        t, weights = _meta_regression(a, variance, design, models, n_uses=2)
        self.offset_, self.coefficients_ = float(t[0]), t[1:3]
        self.model_weights_ = weights @ used

    def _statistics(self, window: WindowStatistics) -> FloatArray:
        """Return D and S."""
        n = max(float(window.counts.sum()), 1.0)
        surplus = window.counts - n * self.frequency_
        x = np.maximum(_beyond_chance(surplus, n * (1 + n / self.n_source_)), 0)
        fall = window.counts * self.confidence_ - window.confidence_sums
        y = np.maximum(fall, 0)
        d = _beyond_chance(fall.sum(), n * self.confidence_variance_)
        return np.array([d, (x * y / np.maximum(x + y, 1e-12)).sum()]) / n

    def _offset(self, window: WindowStatistics) -> float:
        return float(self.offset_ + self.coefficients_ @ self._statistics(window))

    def adjustment(self, window: WindowStatistics | None) -> float:
        """Return mu + b_D D + b_S S, 0 for small windows."""
        return 0.0 if window is None or window.n < self.min_window else self._offset(window)

    def adapted_formula(self, xp: Any, z: Array, adjustment: Any, *inputs: Array) -> Array:
        """Return softmax(u / T)."""
        u = self._log_proba(xp, z, *inputs)
        log_t = self.slope_ * self._shape(xp, u) + (self.level_ + adjustment)
        return softmax(xp, u, xp.exp(log_t))

    def describe(self) -> str:
        """Return the fitted numbers in words."""
        self.check_is_fitted()
        b_d, b_s = self.coefficients_
        used = ", ".join(f"{weight:.2f}" for weight in self.model_weights_)
        factors = ", ".join(f"{factor:.3g}" for factor in np.exp(self.domain_offsets_))
        return (
            f"mu: {self.offset_:.4g}; b_D: {b_d:.4g}; b_S: {b_s:.4g}; w: {self.slope_:.4g};"
            f" probabilities that mu, b_D and b_S are used: {used}; temperature factors of the"
            f" domains, source first: {factors}."
        )

    def _shape(self, xp: Any, u: Array) -> Array:
        return xp.tanh((_margin(xp, u) - self.margin_mean_) / self.margin_std_)


def _margin(xp: Any, u: Array) -> Array:
    """Return the largest minus the second entry of each sample, shape (n_samples, 1)."""
    top = largest(xp, u, 2)
    return top[:, :1] - top[:, 1:]


def _summarize(u: FloatArray, weight: FloatArray) -> WindowStatistics:
    """Return the statistics of weighted samples from their scaled log-probabilities."""
    p = softmax(np, u)
    predicted, sums = p.argmax(axis=1), (weight, weight * p.max(axis=1))
    return WindowStatistics(
        *(np.bincount(predicted, part, p.shape[1]).astype(np.float64) for part in sums)
    )
