import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from wildcal._old.core.errors import CalibrationWarning
from wildcal._old.metrics import aupr_in, aupr_out, auroc, fpr95


def test_auroc_by_hand():
    # pairs (.9 > .5), (.9 > .4), (.4 < .5), (.4 = .4): 2 wins, 1 tie, 1 loss
    positive = np.array([True, True, False, False])
    assert auroc(positive, [0.9, 0.4, 0.5, 0.4]) == pytest.approx(2.5 / 4)


def test_constant_score_says_nothing():
    is_id = np.array([True, True, True, False])
    assert auroc(is_id, np.ones(4)) == 0.5
    assert aupr_in(is_id, np.ones(4)) == 0.75
    assert aupr_out(is_id, np.ones(4)) == 0.25
    assert fpr95(is_id, np.ones(4)) == 1.0


def test_average_precision_by_hand():
    is_id = np.array([True, False, True, False])
    scores = [0.9, 0.8, 0.7, 0.1]
    # in: hits at ranks 1 and 3, precision 1/1 and 2/3. out, from below: ranks 1 and 3 again.
    assert aupr_in(is_id, scores) == pytest.approx((1 + 2 / 3) / 2)
    assert aupr_out(is_id, scores) == pytest.approx((1 + 2 / 3) / 2)


def test_fpr95_by_hand():
    is_id = np.array([True] * 20 + [False] * 4)
    # The 19th in-distribution row (.81) is 95 %: one of four others (.9) lies above it.
    scores = np.concatenate([np.linspace(1, 0.81, 20) - 1e-9, [0.9, 0.5, 0.4, 0.3]])
    assert fpr95(is_id, scores) == 0.25
    # Catching all four (.9 and below) costs the ten rows at .9 and below.
    assert fpr95(is_id, scores, positive="ood") == pytest.approx(10 / 20)


def test_fpr95_takes_the_first_threshold_that_is_enough():
    # Four in-distribution rows: recall .75 and 1; 1 is enough.
    is_id = np.array([True, True, True, False, True])
    assert fpr95(is_id, [5.0, 4, 3, 2, 1]) == 1.0
    # Of 100, recall .95 holds for two thresholds; the higher lets no negative through.
    is_id = np.array([True] * 95 + [False] + [True] * 5 + [False])
    assert fpr95(is_id, -np.arange(102.0)) == 0.0


@pytest.mark.parametrize("seed", range(3))
def test_scikit_learn_agrees_with_and_without_ties(seed):
    rng = np.random.default_rng(seed)
    is_id = rng.random(200) < 0.7
    for scores in (rng.normal(size=200) + is_id, rng.integers(0, 6, 200) + is_id):
        assert auroc(is_id, scores) == pytest.approx(roc_auc_score(is_id, scores), abs=1e-12)
        ours = aupr_in(is_id, scores)
        assert ours == pytest.approx(average_precision_score(is_id, scores), abs=1e-12)
        ours = aupr_out(is_id, scores)
        assert ours == pytest.approx(average_precision_score(~is_id, -scores), abs=1e-12)
        for positive, flags, ranks in (("id", is_id, scores), ("ood", ~is_id, -scores)):
            false, true, _ = roc_curve(flags, ranks, drop_intermediate=False)
            assert fpr95(is_id, scores, positive=positive) == false[true >= 0.95 - 1e-12][0]


@pytest.mark.parametrize("metric", [auroc, aupr_in, aupr_out, fpr95])
def test_one_kind_of_rows_is_nan(metric):
    for flags in (np.ones(3, dtype=bool), np.zeros(3, dtype=bool), np.empty(0, dtype=bool)):
        with pytest.warns(CalibrationWarning, match=f"{metric.__name__} is NaN: both kinds"):
            assert np.isnan(metric(flags, np.arange(len(flags)) * 1.0))


def test_bad_input():
    flags = np.array([True, False])
    with pytest.raises(ValueError, match="positive must be a boolean array, got dtype int64"):
        auroc(flags.astype(int), [1.0, 2.0])
    with pytest.raises(ValueError, match=r"one flag per score, \(3,\), got \(2,\)"):
        auroc(flags, [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="scores must be finite, but row 1 is nan"):
        aupr_in(flags, [1.0, np.nan])
    with pytest.raises(ValueError, match="positive must be one of 'id', 'ood', got 'in'"):
        fpr95(flags, [1.0, 2.0], positive="in")
