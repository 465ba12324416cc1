"""The kernel: equal to SciPy, finite differences and hand arithmetic; blind to its neighbors."""

import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp, softmax

from wildcal.core.block import CLASSES_FIRST_BELOW, Block, steady
from wildcal.core.blocks import BLOCK_ELEMENTS, CLASSES_FIRST_ELEMENTS, joined, map_blocks
from wildcal.core.objective import loss_terms, mean_loss
from wildcal.core.parallel import run_parts, thread_count, use_threads
from wildcal.core.softmax import (
    by_row,
    confidence_at,
    energy_and_pred,
    predicted_class,
    softmax_at,
)

SIZES = [2, 3, 10, 63, 64, 100, 1000]


def row_losses(logits, y, h, loss):
    """Return each row's loss at temperature h, and its first two derivatives by h."""
    return map_blocks(logits, lambda b: loss_terms(b, y[b.rows], h[b.rows], loss), joined)


def logits_of(n, k, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    return (3 * rng.standard_normal((n, k))).astype(dtype)


def rows_at(temperature):
    return lambda block: np.full(block.n, temperature)


@pytest.mark.parametrize("k", SIZES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-13), (np.float32, 2e-6)])
def test_equal_to_scipy(k, dtype, tolerance):
    elements = CLASSES_FIRST_ELEMENTS if k < CLASSES_FIRST_BELOW else BLOCK_ELEMENTS
    z = logits_of(elements // k + 7, k, dtype)  # two blocks, the second one short
    exact = z.astype(np.float64)
    expected = softmax(exact / 1.7, axis=1)
    np.testing.assert_allclose(softmax_at(z, rows_at(1.7)), expected, rtol=20 * tolerance)
    np.testing.assert_allclose(confidence_at(z, rows_at(1.7)), expected.max(axis=1), rtol=tolerance)
    energy, pred = energy_and_pred(z)
    np.testing.assert_allclose(energy, -logsumexp(exact, axis=1), rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(pred, exact.argmax(axis=1))


@pytest.mark.parametrize("k", SIZES)
def test_one_temperature_for_all_rows_has_the_bits_of_many_that_are_equal(k):
    elements = CLASSES_FIRST_ELEMENTS if k < CLASSES_FIRST_BELOW else BLOCK_ELEMENTS
    z = logits_of(elements // k + 1, k, np.float32)  # the second block is a single row
    for function in (softmax_at, confidence_at):
        one = function(z, lambda _: np.array([1.3]))
        np.testing.assert_array_equal(one, function(z, rows_at(1.3)))
        np.testing.assert_array_equal(one[-1:], function(z[-1:], rows_at(1.3)))


@pytest.mark.parametrize("k", SIZES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_row_has_the_same_bits_alone_and_in_company(k, dtype):
    z = logits_of(300, k, dtype)
    whole = softmax_at(z, rows_at(0.8))
    energy, _ = energy_and_pred(z)
    for rows in (slice(0, 1), slice(5, 7), slice(100, 113), slice(299, 300)):
        np.testing.assert_array_equal(softmax_at(z[rows], rows_at(0.8)), whole[rows])
        np.testing.assert_array_equal(energy_and_pred(z[rows])[0], energy[rows])


def steady_of(z, labels, beta=1.3):
    """The steady softmax, that of the labels, and the mass of all but the predicted class."""
    labels = np.asarray(labels)
    whole, one, rest = np.empty(z.shape), np.empty(len(z)), np.empty(len(z))

    def work(block):
        block.steady_softmax(beta, whole[block.rows])
        one[block.rows] = block.steady_at_label(beta, labels[block.rows])
        rest[block.rows] = block.steady_others()[0]

    map_blocks(z, work)
    return whole, one, rest


def assert_steady(found, exact):
    if found.dtype == np.float32:
        np.testing.assert_array_equal(found, exact.astype(np.float32))
    else:  # 13 bits are left for the last ones to differ in, so one in a thousand may round apart
        assert (found == steady(exact)).mean() > 0.999
        np.testing.assert_allclose(found, exact, rtol=2.0**-39)


@pytest.mark.parametrize("k", SIZES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_steady_softmax_is_that_of_float64_rounded(k, dtype):
    """SciPy adds and divides in another order, and its last bits are others; not these."""
    z, labels = logits_of(2000, k, dtype), np.arange(2000) % k
    whole, one, rest = steady_of(z, labels)
    exact = softmax(1.3 * (z.astype(np.float64) - z.max(axis=1, keepdims=True)), axis=1)
    assert_steady(whole, exact)
    np.testing.assert_array_equal(one, whole[np.arange(2000), labels])
    others = np.sort(softmax(z.astype(np.float64), axis=1), axis=1)[:, :-1].sum(axis=1)
    assert_steady(rest.astype(dtype), others)
    for rows in (slice(0, 1), slice(5, 7), slice(100, 113)):
        for found, there in zip(steady_of(z[rows], labels[rows]), (whole, one, rest), strict=True):
            np.testing.assert_array_equal(found, there[rows])


def test_steady_numbers_have_forty_bits():
    x = np.random.default_rng(0).random(1000)
    kept = np.ldexp(np.frexp(steady(x))[0], 40)
    np.testing.assert_array_equal(kept, np.round(kept))
    np.testing.assert_allclose(steady(x), x, rtol=2.0**-40)
    np.testing.assert_array_equal(steady(np.array([0.0, 0.5, 1.0, 0.375])), [0, 0.5, 1, 0.375])


@pytest.mark.parametrize("k", [10, 100])
def test_threads_change_no_bit(k):
    z, y = logits_of(600_000 // k, k, np.float32), np.zeros(600_000 // k, np.int64)
    results = []
    for n in (1, 2, 5):
        with use_threads(n):
            results.append(
                (softmax_at(z, rows_at(1.3)), *row_losses(z, y, np.full(len(y), 1.3), "mse"))
            )
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_thread_count_can_be_set(monkeypatch):
    monkeypatch.setenv("WILDCAL_THREADS", "3")
    assert thread_count() == 3
    with use_threads(1):
        assert thread_count() == 1
    with pytest.raises(ValueError, match="at least 1"), use_threads(0):
        pass


def test_an_error_in_a_thread_reaches_the_caller():
    def fail(items):
        if 3 in items:
            raise ValueError("three")

    with pytest.raises(ValueError, match="three"):
        run_parts(fail, range(8), 4)


@pytest.mark.parametrize("k", [3, 80])
@pytest.mark.parametrize("loss", ["nll", "mse"])
def test_row_derivatives_match_finite_differences(k, loss):
    z = logits_of(50, k)
    y = np.random.default_rng(1).integers(0, k, 50)
    y[::7] = -1
    h = np.random.default_rng(2).uniform(0.5, 3, 50)
    step = 1e-5
    _, slope, curvature = row_losses(z, y, h, loss)
    up, slope_up, _ = row_losses(z, y, h + step, loss)
    down, slope_down, _ = row_losses(z, y, h - step, loss)
    np.testing.assert_allclose(slope, (up - down) / (2 * step), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(
        curvature, (slope_up - slope_down) / (2 * step), rtol=1e-5, atol=1e-7
    )


def test_losses_by_hand():
    # softmax([log 3, 0]) = (3/4, 1/4); squared error (1/4)² + (1/4)², or ||p||² without a label
    z, h = np.log([[3.0, 1.0], [3.0, 1.0]]), np.ones(2)
    value, _, _ = row_losses(z, np.array([0, -1]), h, "mse")
    np.testing.assert_allclose(value, [1 / 8, 10 / 16], rtol=1e-14)
    value, slope, _ = row_losses(z[:1], np.array([1]), h[:1], "nll")
    assert value[0] == pytest.approx(np.log(4))
    assert slope[0] == pytest.approx(-0.75 * np.log(3))  # -(E[z] - z_y) / h²


@pytest.mark.parametrize("loss", ["nll", "mse"])
def test_float32_work_is_good_enough(loss):
    """Element-wise float32 with float64 sums: 1e-7 of the mean loss and mean |slope|."""
    z = logits_of(4000, 1000, np.float32)
    y = z.argmax(axis=1)
    y[::3] = (y[::3] + 1) % 1000
    h = np.full(len(y), 1.4)
    for a, b in zip(
        row_losses(z, y, h, loss)[:2], row_losses(z.astype(float), y, h, loss)[:2], strict=True
    ):
        assert abs(a.mean() - b.mean()) <= 1e-7 * np.abs(b).mean()


@pytest.mark.parametrize("k", [3, 70])
@pytest.mark.parametrize("loss", ["nll", "mse"])
def test_extreme_rows_are_finite(k, loss):
    z = np.zeros((4, k), np.float32)
    z[0, 0], z[0, 1] = 3.3e38, -3.3e38
    z[1, 1:] = -np.inf
    z[2, 0] = 1e4
    for labels in ([0, 0, 0, 0], [1, 1, 1, 1], [-1, -1, -1, -1]):
        for h in (0.01, 1.0, 100.0):
            terms = row_losses(z, np.array(labels), np.full(4, h), loss)
            assert all(np.isfinite(term).all() for term in terms)
    proba = softmax_at(z, rows_at(0.01))
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(proba[3], 1 / k, rtol=1e-6)


def test_stability_vectors(vectors):
    case = vectors("edge_cases")["energy_stability"]
    assert energy_and_pred(np.array(case["logits_large"]))[0] == pytest.approx(case["F"], rel=1e-14)
    assert energy_and_pred(np.array(case["logits_equal"]))[0] == pytest.approx(
        case["F_equal"], rel=1e-14
    )


def test_uniform_and_zero_target_differ_by_a_constant(vectors):
    case = vectors("edge_cases")["uniform_vs_zero_target"]
    p = np.array([case["p"]])
    value, slope, _ = row_losses(np.log(p), np.array([-1]), np.ones(1), "mse")
    assert value[0] == pytest.approx(case["sq_norm_minus_zero"])
    assert value[0] - 1 / 3 == pytest.approx(case["sq_norm_minus_uniform"])
    uniform = lambda h: ((softmax(np.log(p) / h, axis=1) - 1 / 3) ** 2).sum()  # noqa: E731
    assert slope[0] == pytest.approx((uniform(1 + 1e-6) - uniform(1 - 1e-6)) / 2e-6, rel=1e-6)


def test_log_loss_matches_log_softmax():
    z, y = logits_of(40, 6), np.arange(40) % 6
    value, _, _ = row_losses(z, y, np.full(40, 2.0), "nll")
    np.testing.assert_allclose(value, -log_softmax(z / 2, axis=1)[np.arange(40), y], rtol=1e-12)


@pytest.mark.parametrize("k", [2, 6, 63, 64, 300])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 3e-6)])
def test_log_loss_without_a_label_is_that_of_the_uniform_distribution(k, dtype, tolerance):
    z, h = logits_of(90, k, dtype), np.linspace(0.3, 4, 90)
    y = np.where(np.arange(90) % 3, -1, np.arange(90) % k)
    log_p = log_softmax(z.astype(np.float64) / h[:, None], axis=1)
    expected = np.where(y < 0, -log_p.mean(axis=1), -log_p[np.arange(90), y])
    np.testing.assert_allclose(row_losses(z, y, h, "nll")[0], expected, rtol=tolerance)
    # No other row changes it, and the half of the work without derivatives agrees.
    alone = row_losses(z[1:2], y[1:2], h[1:2], "nll")
    for a, b in zip(alone, row_losses(z, y, h, "nll"), strict=True):
        assert a[0] == b[1]
    assert mean_loss(z, y, None, 1.7, "nll") == pytest.approx(
        row_losses(z, y, np.full(90, 1.7), "nll")[0].mean(), rel=tolerance
    )


@pytest.mark.parametrize("k", [3, 70])
@pytest.mark.parametrize("temperature", [0.01, 1.0, 100.0])
def test_classes_ruled_out_count_as_ten_thousand_below_the_largest(k, temperature):
    z = logits_of(20, k)
    z[:, 1] = -np.inf
    finite = np.where(np.isneginf(z), z.max(axis=1, keepdims=True) - 1e4, z)
    y, h = np.where(np.arange(20) % 2, -1, 1), np.full(20, temperature)
    for a, b in zip(row_losses(z, y, h, "nll"), row_losses(finite, y, h, "nll"), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    expected = row_losses(z, y, h, "nll")[0].mean()
    assert mean_loss(z, y, None, temperature, "nll") == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("k", [2, 10, 64, 200])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_margin_is_the_largest_minus_the_second(k, dtype):
    z = logits_of(50, k, dtype)
    z[0, 1:] = -np.inf
    z[1] = 2.0
    z[2, :2] = z[2].max() + 1
    ordered = np.sort(z.astype(np.float64), axis=1)
    margin = by_row(z.astype(np.float64), Block.margin)
    np.testing.assert_array_equal(margin, ordered[:, -1] - ordered[:, -2])
    np.testing.assert_allclose(by_row(z, Block.margin), margin, rtol=1e-6)
    np.testing.assert_array_equal(by_row(z[7:8], Block.margin), by_row(z, Block.margin)[7:8])


def test_ties_choose_the_first_class():
    for k in (3, 100):
        z = np.zeros((5, k))
        z[:, 1:3] = 2.0
        np.testing.assert_array_equal(predicted_class(z), 1)
