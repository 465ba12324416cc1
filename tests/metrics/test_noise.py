import numpy as np
import pytest

from wildcal._old.core.errors import CalibrationWarning
from wildcal._old.metrics import ece, excess_ece, noise_floor
from wildcal._old.metrics.binning import bin_index
from wildcal._old.metrics.noise import ExpectedGaps, NoiseFloor


def simulated(confidence, n_bins=15, draws=4000, seed=0):
    """Mean and standard error of the ECE of labels drawn from the confidences."""
    rng = np.random.default_rng(seed)
    values = [
        ece(rng.random(len(confidence)) < confidence, confidence, n_bins=n_bins)
        for _ in range(draws)
    ]
    return np.mean(values), np.std(values) / np.sqrt(draws)


def test_by_hand():
    # One row at .8: right (.8) leaves .2, wrong (.2) leaves .8.
    assert noise_floor([0.8]) == pytest.approx(0.8 * 0.2 + 0.2 * 0.8)
    # Certain rows have no noise.
    assert noise_floor([0.0, 1.0, 1.0]) == 0.0
    # Three at .5: 0..3 right with 1, 3, 3, 1 eighths, off by 1.5, .5, .5, 1.5.
    assert noise_floor([0.5] * 3) == pytest.approx((2 * 1.5 + 6 * 0.5) / 8 / 3)


@pytest.mark.parametrize(
    "confidence",
    [
        pytest.param(np.random.default_rng(1).random(40), id="few rows per bin"),
        pytest.param(np.random.default_rng(2).random(1500), id="variances around the switch"),
        pytest.param(1 - np.random.default_rng(3).random(800) ** 4 / 2, id="mostly confident"),
        pytest.param(1 - 1e-3 * np.random.default_rng(4).random(2000), id="rare events"),
    ],
)
def test_simulation_agrees(confidence):
    mean, error = simulated(confidence, draws=1500)
    assert abs(noise_floor(confidence) - mean) < 4 * error


@pytest.mark.parametrize("chance", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("variance", [0.5, 4, 9.9, 10.1, 30])
def test_binomial_is_matched_below_and_above_the_switch(chance, variance):
    from scipy.stats import binom

    n = int(variance / (chance * (1 - chance))) + 1
    counts = np.arange(n + 1)
    exact = binom.pmf(counts, n, chance) @ np.abs(counts - n * chance) / n
    assert noise_floor(np.full(n, chance)) == pytest.approx(exact, rel=1e-4)


def test_falls_with_the_square_root_of_n():
    confidence = np.random.default_rng(0).random(5000)
    ratio = noise_floor(np.tile(confidence, 4)) / noise_floor(confidence)
    assert ratio == pytest.approx(0.5, abs=0.001)


def test_excess_of_a_calibrated_model_is_about_zero():
    rng = np.random.default_rng(5)
    confidence = rng.random((200, 100))
    values = [excess_ece(rng.random(100) < row, row) for row in confidence]
    assert np.mean(values) == pytest.approx(0, abs=4 * np.std(values) / np.sqrt(200))


def test_excess_is_the_difference(make_rows):
    y, proba = make_rows(300, 5)
    expected = ece(y, proba, n_bins=10) - noise_floor(proba.max(axis=1), n_bins=10)
    assert excess_ece(y, proba, n_bins=10) == pytest.approx(expected, abs=1e-15)


def test_tables_together_have_the_bits_of_each_alone():
    rng = np.random.default_rng(0)
    tables = [rng.random(n) ** power for n, power in ((40, 1), (3000, 0.2), (700, 5), (1, 1))]
    together, alone = ExpectedGaps(15), []
    for p in tables:
        together.add(p, bin_index(p, 15))
        alone.append(ExpectedGaps(15).add(p, bin_index(p, 15)).values()[0])
    np.testing.assert_array_equal(together.values(), alone)


def test_no_rows_have_no_floor():
    with pytest.warns(CalibrationWarning, match="noise_floor"):
        assert np.isnan(NoiseFloor(15).value())
