"""Entropy, largest logits and overlaps of two softmaxes: equal to SciPy, in every layout."""

import numpy as np
import pytest
from scipy.special import softmax

from wildcal.core.block import Block
from wildcal.core.blocks import map_blocks
from wildcal.core.softmax import by_row

SIZES = [2, 3, 10, 63, 64, 100, 1000]


def logits_of(n, k, dtype=np.float64, scale=3):
    return (scale * np.random.default_rng(k).standard_normal((n, k))).astype(dtype)


def exact_entropy(z):
    """-sum p log p, the largest class apart: SciPy's p log p has no digits left near p = 1."""
    u = -np.sort(-z, axis=1)[:, 1:] - z.max(axis=1, keepdims=True)
    log_sum = np.log1p(np.exp(u).sum(axis=1, keepdims=True))
    others = np.exp(u - log_sum) * (log_sum - u)
    return others.sum(axis=1) + (np.exp(-log_sum) * log_sum)[:, 0]


@pytest.mark.parametrize("k", SIZES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 3e-6)])
@pytest.mark.parametrize("scale", [0.01, 3, 12])
def test_entropy(k, dtype, tolerance, scale):
    z = logits_of(40_000 // k + 7, k, dtype, scale)
    expected = exact_entropy(z.astype(np.float64))
    np.testing.assert_allclose(by_row(z, Block.entropy), expected, rtol=max(1, scale) * tolerance)


def test_entropy_keeps_its_digits_where_a_row_is_sure():
    """p = 1 - 1e-13: 1 - p is below the resolution of float32, the entropy is not."""
    for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 1e-6)):
        z = np.array([[30.0, 0.0, -5.0]], dtype)
        small = np.exp([-30.0, -35.0])
        expected = small.sum() + (small * [30, 35]).sum()  # log1p(s) + sum s u, to first order
        np.testing.assert_allclose(by_row(z, Block.entropy), expected, rtol=10 * tolerance)


@pytest.mark.parametrize("k", [3, 100])
def test_entropy_of_ties_and_of_classes_ruled_out(k):
    z = np.full((3, k), -np.inf)
    z[0, 0] = 1.0
    z[1, :2] = 1.0
    z[2] = 7.0
    np.testing.assert_allclose(by_row(z, Block.entropy), [0, np.log(2), np.log(k)], rtol=1e-12)


@pytest.mark.parametrize("k", SIZES)
def test_entropy_has_the_same_bits_alone_and_in_company(k):
    z = logits_of(200, k, np.float32)
    whole = by_row(z, Block.entropy)
    for rows in (slice(0, 1), slice(7, 12), slice(199, 200)):
        np.testing.assert_array_equal(by_row(z[rows], Block.entropy), whole[rows])


@pytest.mark.parametrize("k", SIZES)
def test_largest_logits_in_descending_order(k):
    z = logits_of(50, k, np.float32)
    got = np.empty((50, min(k, 10)))

    def work(block):
        got[block.rows] = block.largest(min(k, 10))

    map_blocks(z, work)
    np.testing.assert_array_equal(got, -np.sort(-z, axis=1)[:, :10])


@pytest.mark.parametrize("k", SIZES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 2e-5)])
def test_overlaps(k, dtype, tolerance):
    z = logits_of(40_000 // k + 7, k, dtype)
    y = np.random.default_rng(0).integers(0, k, len(z))
    exact, rows = z.astype(np.float64), np.arange(len(z))
    p, q = softmax(exact / 1.7, axis=1), softmax(exact, axis=1)
    expected = [(p * p).sum(1), (p * q).sum(1), (q * q).sum(1), p[rows, y], q[rows, y]]
    got = np.empty((5, len(z)))

    def work(block):
        got[:, block.rows] = block.overlap_terms(np.full(block.n, 1 / 1.7), y[block.rows])

    map_blocks(z, work)
    np.testing.assert_allclose(got, expected, rtol=tolerance)
