"""BBQ: Bayesian binning into quantiles (Naeini et al., 2015)."""

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wildcal.calibrators._isotonic import group_ties
from wildcal.core.arrays import Array, BoolArray, FloatArray
from wildcal.core.calibrator import TopLabelCalibrator
from wildcal.core.piecewise import pad, step_function

# Strength N' of the prior, in samples, shared by all bins of a model.
_PRIOR_SAMPLES: Final = 2.0
# A bin that touches 0 or 1 could have a prior mean of 0 or 1, which has no Beta density.
_MIN_MEAN: Final = 1e-6
# A smaller weight of a model does not change a float64 mean.
_MIN_WEIGHT: Final = 1e-16


def fit_bbq(
    confidence: FloatArray, correct: BoolArray, weight: FloatArray, *, offset: float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Return the edges and the values of the average of all histograms, a step function.

    values[0] holds up to edges[0], values[i] in (edges[i - 1], edges[i]], values[-1] above.
    Confidences and edges may be given and returned less by `offset`.
    """
    from scipy.special import betaln  # here: prediction does not need SciPy

    x, accuracy, count = group_ties(confidence, correct, weight)
    total = np.append(0.0, np.cumsum(count))
    right = np.append(0.0, np.cumsum(count * accuracy))
    middle = x[:-1] + np.diff(x) / 2
    # edge[i] separates the first i scores from the others.
    edge = np.concatenate([[-offset], np.where(middle < x[1:], middle, x[:-1]), [1 - offset]])

    models = _equal_frequency_models(total)
    n_bins = np.array([len(cuts) - 1 for cuts in models])
    model = np.repeat(np.arange(len(models)), n_bins)
    low = np.concatenate([cuts[:-1] for cuts in models])
    high = np.concatenate([cuts[1:] for cuts in models])
    n, m = total[high] - total[low], right[high] - right[low]
    prior = _PRIOR_SAMPLES / n_bins[model]
    alpha = prior * np.clip((edge[low] + edge[high]) / 2 + offset, _MIN_MEAN, 1 - _MIN_MEAN)
    beta = prior - alpha
    log_likelihood = betaln(m + alpha, np.maximum(n - m, 0.0) + beta) - betaln(alpha, beta)
    score = np.bincount(model, log_likelihood)
    share = np.exp(score - score.max())
    share[share < _MIN_WEIGHT] = 0
    share /= share.sum()

    # The mean of step functions is the cumulative sum of all their weighted steps.
    theta = share[model] * (m + alpha) / (n + prior)
    step = np.diff(theta, prepend=0.0)
    first = np.append(0, np.cumsum(n_bins)[:-1])
    step[first] = theta[first]
    steps = np.bincount(low, step, len(edge))
    used = np.unique(np.append(0, low[share[model] > 0]))
    return edge[used[1:]], np.clip(np.cumsum(steps[used]), 0.0, 1.0)


def _equal_frequency_models(total: FloatArray) -> list[NDArray[np.intp]]:
    """Return the distinct histograms, each as the numbers of scores below its edges."""
    n_scores, root = len(total) - 1, np.cbrt(total[-1])
    low = max(1, int(np.ceil(root / 10)))
    # Weights may be large; the number of distinct scores limits how many bins they fill.
    high = max(low, int(np.floor(10 * min(root, 2 * np.cbrt(n_scores)))))
    models = {}
    for n_bins in range(min(low, n_scores), min(high, n_scores) + 1):
        goal = total[-1] * np.arange(n_bins + 1) / n_bins
        cuts = np.unique(np.minimum(np.searchsorted(total, goal), n_scores))
        models[cuts.tobytes()] = cuts
    return list(models.values())


@dataclass(kw_only=True, eq=False, repr=False)
class BBQ(TopLabelCalibrator):
    """q = accuracy of the bin of the confidence, averaged over many histograms.

    The models are equal-frequency histograms with B bins, B from N^(1/3) / 10 to 10 N^(1/3). A bin
    with m of n samples right, and a Beta(a, c) prior of N'/B = 2/B samples around its midpoint, has
    the value (m + a) / (n + 2/B). A model has the weight of its marginal likelihood, the product
    over bins of G(2/B) / G(n + 2/B) * G(m + a) / G(a) * G(n - m + c) / G(c), with the gamma
    function G.

    Attributes
    ----------
    knots_
        Steps of the average, as 1 - confidence in increasing order, padded with inf.
    values_
        Values between them; the first belongs to the highest confidence.

    Notes
    -----
    Samples of equal confidence are never separated. netcal's class of the same name weights its
    models by AIC or BIC instead.

    References
    ----------
    Naeini, Cooper and Hauskrecht, Obtaining well calibrated probabilities using Bayesian binning,
    AAAI 2015.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.array([[3.0, 0.0]] * 80)
    >>> y = np.repeat([0, 0, 0, 1], 20)  # 75 % are classified correctly
    >>> BBQ().fit(logits, y).confidence(logits[:1]).round(3)  # (60 + 1) / (80 + 2)
    array([0.744])
    """

    name = "bbq"
    title = "Bayesian binning into quantiles"
    reference = "Naeini et al., AAAI 2015"

    knots_: FloatArray = field(init=False)
    values_: FloatArray = field(init=False)

    def _fit_top_label(self, rest: FloatArray, correct: BoolArray, weight: FloatArray) -> None:
        # -rest is confidence - 1, with all digits.
        edges, values = fit_bbq(-rest, correct, weight, offset=1.0)
        self.knots_, self.values_ = pad(-edges[::-1], values[::-1], size=max(1, len(edges)))

    def _top_probability(self, xp: Any, rest: Array) -> Array:
        return step_function(xp, rest, self.knots_, self.values_)
