import numpy as np
import pytest

from wildcal._old.core.errors import CalibrationWarning
from wildcal._old.metrics import KdeAccumulator, kde_ece, mean_confidence


def density(points, x, h):
    """Triweight density at x with mirror images, straight from the definition."""
    image = np.where(points < 0.5, -points, 2 - points)
    u = (x[:, None] - np.concatenate([points, image])) / (3 * h)
    kernel = 35 / 32 * np.clip(1 - u**2, 0, None) ** 3 / (3 * h)
    return 2 * kernel.mean(axis=1)


def direct_kde_ece(correct, confidence):
    x = np.linspace(-0.6, 1.6, 2**14)
    x = x[(x > 0) & (x < 1)]
    h = confidence[correct].std() * (2 * len(correct)) ** -0.2
    right, both = density(confidence[correct], x, h), density(confidence, x, h)
    with np.errstate(invalid="ignore", divide="ignore"):
        smooth = np.minimum(correct.mean() * right / both, 1)
    gap = np.where(np.maximum(right, both) > 1e-6, np.abs(x - smooth) * both, 0)
    return np.trapezoid(gap, x) / np.trapezoid(both, x)


@pytest.fixture
def sample():
    rng = np.random.default_rng(3)
    confidence = rng.beta(5, 2, 300)
    return rng.random(300) < confidence**1.5, confidence


def test_direct_sums_agree(sample):
    # Linear binning on the grid differs from exact kernel sums by about 1e-9.
    assert kde_ece(*sample) == pytest.approx(direct_kde_ece(*sample), abs=1e-7)


def test_true_error_is_found():
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.4, 0.9, 200_000)
    # The error is 0.08 everywhere; the kernels smear only the two ends.
    assert kde_ece(rng.random(200_000) < confidence + 0.08, confidence) == pytest.approx(
        0.08, abs=0.003
    )


def test_nothing_right_is_mean_confidence():
    confidence = np.array([0.9, 0.4, 0.3])
    assert kde_ece(np.zeros(3, dtype=bool), confidence) == pytest.approx(1.6 / 3)
    proba = np.array([[0.75, 0.25], [0.25, 0.75]])
    assert kde_ece([-1, -1], proba) == mean_confidence([-1, -1], proba)


def test_equal_confidences_use_a_small_bandwidth():
    correct = np.array([True, True, True, False])
    with pytest.warns(CalibrationWarning, match="below two grid steps"):
        # All mass within 3e-3 of .6, where accuracy is 3/4.
        assert kde_ece(correct, np.full(4, 0.6)) == pytest.approx(0.15, abs=1e-3)


def test_wide_bandwidth_warns():
    correct, confidence = np.array([True, True, False]), np.array([0.0, 1.0, 0.5])
    with pytest.warns(CalibrationWarning, match="past the mirrored half"):
        kde_ece(correct, confidence)


def test_rows_are_normalized_but_confidences_are_not(make_rows):
    y, proba = make_rows(300, 4)
    correct, confidence = proba.argmax(axis=1) == y, proba.max(axis=1)
    assert kde_ece(y, proba * 0.5) == pytest.approx(kde_ece(y, proba), abs=1e-12)
    assert kde_ece(y, proba) == pytest.approx(kde_ece(correct, confidence), abs=1e-12)


def test_two_classes_are_like_any_other_number(make_rows):
    y, proba = make_rows(400, 2, ood=0.1)
    assert kde_ece(y, proba) == pytest.approx(
        kde_ece(proba.argmax(axis=1) == y, proba.max(axis=1)), abs=1e-12
    )


def test_a_row_of_zeros_keeps_confidence_zero():
    proba = np.array([[0.0, 0.0], [0.75, 0.25]])
    assert kde_ece([-1, -1], proba) == pytest.approx(0.375)


def test_accumulator_keeps_its_size():
    seen = KdeAccumulator()
    before = sum(np.size(getattr(seen, name)) for name in seen._sums)
    seen.update(np.ones(1000, dtype=bool), np.linspace(0, 1, 1000))
    assert sum(np.size(getattr(seen, name)) for name in seen._sums) == before
