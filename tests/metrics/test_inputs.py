"""What every metric does with bad, empty, half-precision and strided input."""

import tracemalloc

import numpy as np
import pytest

from wildcal import metrics as m
from wildcal._old.core.errors import CalibrationWarning
from wildcal._old.metrics.inputs import matrix_blocks

TOP_LABEL = [
    m.ece,
    m.mce,
    m.equal_mass_ece,
    m.kde_ece,
    m.ks_error,
    m.top_label_brier,
    m.accuracy,
    m.mean_confidence,
    m.aurc,
    m.excess_ece,
    m.l2_ce_debiased,
]
WHOLE_ROW = [m.sce, m.nll, m.brier]
EVERY = [*TOP_LABEL, *WHOLE_ROW]


@pytest.mark.parametrize("metric", EVERY)
def test_no_rows_is_nan_with_a_warning(metric):
    name = metric.__name__
    with pytest.warns(CalibrationWarning, match=f"{name} is NaN"):
        assert np.isnan(metric(np.empty(0, dtype=int), np.empty((0, 3))))
    with pytest.warns(CalibrationWarning, match=f"{name} is NaN"):
        assert np.isnan(metric([], []))


def test_no_confidences_have_no_noise_floor():
    with pytest.warns(CalibrationWarning, match="noise_floor is NaN: there are no rows"):
        assert np.isnan(m.noise_floor([]))


@pytest.mark.parametrize("metric", WHOLE_ROW)
def test_only_ood_rows_leave_nothing(metric):
    with pytest.warns(CalibrationWarning, match="no rows with y >= 0"):
        assert np.isnan(metric([-1, -1], np.full((2, 2), 0.5)))


@pytest.mark.parametrize("metric", EVERY)
@pytest.mark.parametrize("n_classes", [3, 50])
@pytest.mark.parametrize("bad", [np.nan, -0.1, 1.1, np.inf])
def test_bad_probabilities_name_the_row(metric, n_classes, bad, make_rows):
    y, proba = make_rows(3000, n_classes)
    proba[2345, 1] = bad
    with pytest.raises(ValueError, match=r"proba must lie in \[0, 1\], but row 2345 has"):
        metric(y, proba)


def test_bad_row_is_named_far_down(make_rows):
    y, proba = make_rows(40_000, 3)
    proba[33_333, 0] = np.nan
    with pytest.raises(ValueError, match="row 33333"):
        m.ece(y, proba)
    with pytest.raises(ValueError, match="row 33333"):
        m.ece(y, proba, pred=y)
    confidence = np.full(40_000, 0.5)
    confidence[33_333] = np.nan
    with pytest.raises(ValueError, match="confidence must be finite, but row 33333 is nan"):
        m.ece(y == 0, confidence)


@pytest.mark.parametrize("metric", EVERY)
def test_labels_are_checked(metric):
    proba = np.full((4, 2), 0.5)
    with pytest.raises(ValueError, match=r"y must lie in \[-1, 1\], got \[0, 2\]"):
        metric([0, 1, 2, 1], proba)
    with pytest.raises(ValueError, match=r"y must lie in \[-1, 1\], got \[-2, 1\]"):
        metric([0, 1, -2, 1], proba)
    with pytest.raises(ValueError, match="one label per row: 4 rows, 3 labels"):
        metric([0, 1, 1], proba)
    with pytest.raises(ValueError, match="y must be integers, got dtype float64"):
        metric([0.0, 1.0, 1.0, 0.0], proba)


@pytest.mark.parametrize("metric", TOP_LABEL)
def test_mixed_and_swapped_forms_are_refused(metric):
    y, proba = np.array([0, 1]), np.array([[0.7, 0.3], [0.4, 0.6]])
    correct, confidence = np.array([True, False]), np.array([0.7, 0.6])
    with pytest.raises(ValueError, match="look swapped"):
        metric(proba, y)
    with pytest.raises(ValueError, match="look swapped"):
        metric(confidence, correct)
    with pytest.raises(ValueError, match="must be integer labels y, got dtype bool"):
        metric(correct, proba)
    with pytest.raises(ValueError, match="must be a boolean array `correct`"):
        metric(y, confidence)
    with pytest.raises(ValueError, match=r"correct must have shape \(2,\), got \(3,\)"):
        metric(np.array([True, False, True]), confidence)
    with pytest.raises(ValueError, match=r"confidence must lie in \[0, 1\], got \[0.7, 70\]"):
        metric(correct, np.array([0.7, 70]))


def test_pred_is_checked():
    proba = np.full((2, 2), 0.5)
    with pytest.raises(ValueError, match=r"pred must lie in \[0, 1\], got \[-1, 1\]"):
        m.ece([0, 1], proba, pred=[-1, 1])
    with pytest.raises(ValueError, match=r"pred must have shape \(2,\), got \(3,\)"):
        m.ece([0, 1], proba, pred=[0, 1, 1])
    with pytest.raises(ValueError, match="pred must be integer classes"):
        m.ece([0, 1], proba, pred=[0.0, 1.0])
    with pytest.raises(ValueError, match="pred goes with 2-D probabilities"):
        m.ece(np.array([True]), np.array([0.5]), pred=[0])


@pytest.mark.parametrize("n_bins", [0, -3, 2.5, True])
def test_number_of_bins_is_checked(n_bins):
    for metric in (m.ece, m.mce, m.equal_mass_ece, m.excess_ece):
        with pytest.raises(ValueError, match="n_bins must be a whole number of at least 1"):
            metric(np.array([True]), np.array([0.5]), n_bins=n_bins)


def test_no_bin_has_enough_rows():
    with pytest.warns(CalibrationWarning, match="mce is NaN: no bin has 5 rows"):
        assert np.isnan(m.mce(np.array([True]), np.array([0.5]), min_count=5))


@pytest.mark.parametrize("n_classes", [2, 10, 60])
@pytest.mark.parametrize("metric", EVERY)
def test_precisions_and_layouts_agree(metric, n_classes, make_rows):
    y, proba = make_rows(500, n_classes, ood=0.1)
    # Values that float16 holds exactly, and none of which is on an edge.
    half = ((proba * 1024).round() / 1024).astype(np.float16)
    exact = half.astype(np.float64)
    expected = metric(y, exact)
    padded = np.zeros((500, 2 * n_classes))
    padded[:, ::2] = exact
    for same in (half, half.astype(np.float32), np.asfortranarray(exact), padded[:, ::2]):
        assert metric(y, same) == pytest.approx(expected, abs=2e-6)
    assert metric(y[::-1], exact[::-1]) == pytest.approx(expected, abs=1e-12)
    assert metric(y.astype(np.int8), exact) == expected


@pytest.mark.parametrize("metric", EVERY)
def test_input_is_not_written_to(metric, make_rows):
    y, proba = make_rows(200, 5, ood=0.1)
    y.setflags(write=False)
    proba.setflags(write=False)
    before = proba.copy()
    metric(y, proba)
    np.testing.assert_array_equal(proba, before)


@pytest.mark.parametrize("metric", [*WHOLE_ROW, m.ece, m.kde_ece])
def test_extra_memory_is_small(metric):
    proba = np.full((20_000, 500), 0.002, dtype=np.float32)  # 40 MB
    proba[:, 0] = np.linspace(0.1, 0.9, 20_000)
    y = np.zeros(20_000, dtype=np.int64)
    tracemalloc.start()
    metric(y, proba)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16e6


@pytest.mark.parametrize("rows", [1, 3, 6553, 6554, 32_768, 40_000])
def test_a_matrix_is_cut_into_pieces_of_one_length(rows):
    array = np.arange(rows * 10.0).reshape(rows, 10)
    pieces = [block for _, block in matrix_blocks(array)]
    np.testing.assert_array_equal(np.concatenate(pieces), array)
    assert len(pieces) == -(-array.size // (1 << 16))
    assert len(pieces[0]) - len(pieces[-1]) < len(pieces)
