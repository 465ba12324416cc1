"""BBQ: the averaged step function against a plain loop over models, bins and rows."""

from math import ceil, exp, floor, lgamma

import numpy as np
import pytest

from wildcal.calibrators import BayesianBinning
from wildcal.calibrators.bbq import fit_bbq
from wildcal.testing import make_suite


def by_loops(score, correct, at):
    """Naeini et al. written out for distinct scores: sum over models of weight times estimate."""
    order = np.argsort(score)
    s, hit = score[order], correct[order]
    n = len(s)
    estimates, scores = [], []
    for bins in range(max(1, ceil(n ** (1 / 3) / 10)), floor(10 * n ** (1 / 3)) + 1):
        if bins > n:
            break
        cuts = [ceil(n * b / bins - 1e-9) for b in range(bins + 1)]
        edges = [0.0] + [(s[c - 1] + s[c]) / 2 for c in cuts[1:-1]] + [1.0]
        log_score, theta = 0.0, []
        for b in range(bins):
            size, right = cuts[b + 1] - cuts[b], int(hit[cuts[b] : cuts[b + 1]].sum())
            mean = min(max((edges[b] + edges[b + 1]) / 2, 1e-6), 1 - 1e-6)
            a, c = 2 / bins * mean, 2 / bins * (1 - mean)
            log_score += lgamma(2 / bins) - lgamma(size + 2 / bins)
            log_score += lgamma(right + a) - lgamma(a) + lgamma(size - right + c) - lgamma(c)
            theta.append((right + a) / (size + 2 / bins))
        where = np.clip(np.searchsorted(edges, at, side="left") - 1, 0, bins - 1)
        estimates.append(np.array(theta)[where])
        scores.append(log_score)
    weights = np.array([exp(v - max(scores)) for v in scores])
    return weights @ np.array(estimates) / weights.sum()


@pytest.mark.parametrize("n", [1, 2, 7, 60, 500])
def test_equals_the_formula_written_out(n):
    rng = np.random.default_rng(n)
    score = rng.beta(5, 1.5, n)
    correct = rng.random(n) < score**2
    at = np.linspace(0, 1, 997)
    edges, values = fit_bbq(score, correct, None)
    got = values[np.searchsorted(edges, at)]
    np.testing.assert_allclose(got, by_loops(score, correct, at), atol=1e-9)


def test_ties_are_never_separated():
    score = np.repeat([0.5, 0.7, 0.9], 100)
    correct = np.random.default_rng(0).random(300) < score
    edges, values = fit_bbq(score, correct, None)
    assert len(edges) <= 2
    assert np.isin(edges, [0.6, 0.8]).all()
    assert len(values) == len(edges) + 1


def test_neighboring_floats_can_be_separated():
    low = 0.9
    high = float(np.nextafter(low, 1))
    edges, values = fit_bbq(np.repeat([low, high], 200), np.repeat([False, True], 200), None)
    got = values[np.searchsorted(edges, [low, high])]
    assert got[0] < 0.02
    assert got[1] > 0.98


def test_large_sets_are_quick():
    """No loop over rows: 50,000 rows and 365 models in well under a second."""
    from time import process_time

    rng = np.random.default_rng(0)
    score = rng.beta(5, 1, 50_000)
    correct = rng.random(50_000) < score**1.5
    start = process_time()
    edges, values = fit_bbq(score, correct, None)
    assert process_time() - start < 2
    at = np.linspace(0.5, 1, 50)
    assert np.abs(values[np.searchsorted(edges, at)] - at**1.5).mean() < 0.02


def test_checks_of_what_a_file_may_hold():
    fitted = BayesianBinning().fit(*make_suite(0, n_ood_tuning=0).tuning)
    fitted._check_fitted()
    edges = fitted.edges_
    fitted.edges_ = edges[::-1]
    with pytest.raises(ValueError, match="edges_ must increase"):
        fitted._check_fitted()
    fitted.edges_ = edges[:-1]
    with pytest.raises(ValueError, match="one entry more"):
        fitted._check_fitted()
    fitted.edges_, fitted.values_ = edges, fitted.values_ * 3
    with pytest.raises(ValueError, match="must lie in"):
        fitted._check_fitted()
