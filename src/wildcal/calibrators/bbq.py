"""BBQ: Bayesian binning into quantiles (Naeini et al., 2015)."""

from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import NDArray

from wildcal.calibrators.top_label import TopLabelMap
from wildcal.core.arrays import BoolArray, FloatArray
from wildcal.core.calibrator import FitSummary
from wildcal.core.stored import ARRAY, stored

# The strength N' of the prior, in rows, shared by all bins of a model.
PRIOR_ROWS = 2.0
# A bin that touches 0 or 1 could have a prior mean of 0 or 1, whose Beta density does not exist.
_LEAST_MEAN = 1e-6
# Models this much less likely than the best cannot be seen in a float64 mean.
_NEGLIGIBLE = 1e-16


def fit_bbq(
    score: FloatArray, correct: BoolArray, weight: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Return the edges and the values of the averaged step function.

    values[0] holds up to edges[0], values[b] on (edges[b - 1], edges[b]], values[-1] above.
    """
    from scipy.special import gammaln  # here: `import wildcal` stays quick

    u, index = np.unique(score, return_inverse=True)
    weight = np.ones(len(score)) if weight is None else weight
    total = np.append(0.0, np.cumsum(np.bincount(index, weight)))
    right = np.append(0.0, np.cumsum(np.bincount(index, weight * correct)))
    below, above = u[:-1], u[1:]
    middle = below + (above - below) / 2
    # edge[i] separates the first i scores from the others.
    edge = np.concatenate([[0.0], np.where(middle < above, middle, below), [1.0]])

    models = _models(total, len(u))
    size = np.array([len(cuts) - 1 for cuts in models])
    model = np.repeat(np.arange(len(models)), size)
    lo = np.concatenate([cuts[:-1] for cuts in models])
    hi = np.concatenate([cuts[1:] for cuts in models])
    n, m = total[hi] - total[lo], right[hi] - right[lo]
    prior = PRIOR_ROWS / size[model]
    alpha = prior * np.clip((edge[lo] + edge[hi]) / 2, _LEAST_MEAN, 1 - _LEAST_MEAN)
    beta = prior - alpha
    evidence = (
        gammaln(prior)
        - gammaln(n + prior)
        + gammaln(m + alpha)
        - gammaln(alpha)
        + gammaln(np.maximum(n - m, 0.0) + beta)
        - gammaln(beta)
    )
    log_score = np.bincount(model, evidence)
    share = np.exp(log_score - log_score.max())
    share[share < _NEGLIGIBLE] = 0
    share /= share.sum()

    # A step function per model; their mean is the running sum of all their weighted steps.
    theta = share[model] * (m + alpha) / (n + prior)
    step = np.diff(theta, prepend=0.0)
    first = np.append(0, np.cumsum(size)[:-1])
    step[first] = theta[first]
    counts = np.bincount(lo, step, len(edge))
    used = np.unique(np.append(0, lo[share[model] > 0]))
    return edge[used[1:]], np.clip(np.cumsum(counts[used]), 0.0, 1.0)


def _models(total: FloatArray, n_scores: int) -> list[NDArray[np.intp]]:
    """Return the cuts, as counts of scores below them, of each distinct equal-frequency model."""
    root = np.cbrt(total[-1])
    fewest = max(1, int(np.ceil(root / 10)))
    # Weights may be in any unit; the number of distinct scores says how many bins they can fill.
    most = max(fewest, int(np.floor(10 * min(root, 2 * np.cbrt(n_scores)))))
    found = {}
    for n_bins in range(min(fewest, n_scores), min(most, n_scores) + 1):
        aim = total[-1] * np.arange(n_bins + 1) / n_bins
        cuts = np.unique(np.minimum(np.searchsorted(total, aim), n_scores))
        found[cuts.tobytes()] = cuts
    return list(found.values())


@final
@dataclass(kw_only=True, eq=False)
class BayesianBinning(TopLabelMap):
    """q = the mean accuracy of the bin of the confidence, averaged over many histograms.

    The models are equal-frequency histograms with B bins, B from N^(1/3) / 10 to 10 N^(1/3). A bin
    b with m of n rows right, and a Beta(a, c) prior of N'/B = 2/B rows around its midpoint, says
    (m + a) / (n + 2/B), and a model counts by its marginal likelihood, the product over bins of
    G(2/B) / G(n + 2/B) * G(m + a) / G(a) * G(n - m + c) / G(c), with G the gamma function.

    Notes
    -----
    The average of histograms is again a step function, which is what is stored. Equal confidences
    are never separated. netcal's class of the same name weighs its models by AIC or BIC instead.
    Naeini, Cooper and Hauskrecht, Obtaining well calibrated probabilities using Bayesian binning,
    AAAI 2015.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.array([[3.0, 0.0], [3.0, 0.0], [3.0, 0.0], [3.0, 0.0]])
    >>> y = np.array([0, 0, 0, 1])  # 75 % right; the prior, 2 rows at 0.5, pulls to 4/6
    >>> BayesianBinning().fit(logits, y).confidence(logits).round(4)
    array([0.6667, 0.6667, 0.6667, 0.6667])
    """

    name = "bbq"
    title = "Bayesian binning into quantiles"
    reference = "Naeini et al., AAAI 2015"
    stores = "a step for each likely bin edge"

    edges_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))
    values_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))

    def _check_fitted(self) -> None:
        if self.edges_.ndim != 1 or self.values_.shape != (len(self.edges_) + 1,):
            raise ValueError("values_ must have one entry more than edges_.")
        if (np.diff(self.edges_) <= 0).any():
            raise ValueError("edges_ must increase.")
        if self.values_.min() < 0 or self.values_.max() > 1:
            raise ValueError("values_ must lie in [0, 1].")

    def _fit_map(
        self, confidence: FloatArray, correct: BoolArray, weight: FloatArray | None
    ) -> FitSummary:
        self.edges_, self.values_ = fit_bbq(confidence, correct, weight)
        return FitSummary()

    def _map(self, confidence: FloatArray) -> FloatArray:
        return np.asarray(self.values_[np.searchsorted(self.edges_, confidence)])
