"""Evaluation: the numbers are those of the metrics, whatever the chunking."""

import sys

import numpy as np
import pytest

from wildcal import EnergyScaling, Identity, evaluate, metrics
from wildcal._old.core.errors import NotFittedError
from wildcal._old.evaluation import METRICS, evaluate_calibrator
from wildcal._old.testing import join, make_suite

SUITE = make_suite(0, n_tuning=1000, n_ood_tuning=80, n_test=1500)
TEST = join(SUITE.shifted, SUITE.ood)
FITTED = EnergyScaling().fit(*SUITE.tuning)


def test_each_number_is_that_of_its_metric():
    y, z = SUITE.shifted.y, SUITE.shifted.logits
    proba = FITTED.predict_proba(z)
    result = evaluate(y, proba, n_boot=50)
    for name in (
        "accuracy", "mean_confidence", "ece", "mce", "sce", "equal_mass_ece", "kde_ece",
        "ks_error", "brier", "top_label_brier", "nll", "aurc", "excess_ece",
    ):  # fmt: skip
        assert result[name] == pytest.approx(getattr(metrics, name)(y, proba), rel=1e-6), name
    right = proba.argmax(axis=1) == y
    confidence = proba.max(axis=1)
    assert result["noise_floor"] == pytest.approx(metrics.noise_floor(confidence), rel=1e-6)
    assert result["misclassification_auroc"] == pytest.approx(metrics.auroc(right, confidence))
    assert result.n_rows == 1500
    assert result.n_ood == 0
    assert not [name for name in result if name.startswith("ood_")]


def test_ood_rows_count_for_the_ood_metrics_alone():
    with_ood = evaluate_calibrator(FITTED, *TEST, n_boot=0)
    without = evaluate_calibrator(FITTED, *SUITE.shifted, n_boot=0)
    assert set(with_ood) == {name for name, m in METRICS.items() if m.classes is None}
    for name in without:
        assert with_ood[name] == without[name]
    confidence = FITTED.confidence(TEST.logits)
    assert with_ood["ood_auroc"] == pytest.approx(metrics.auroc(TEST.y >= 0, confidence))
    assert with_ood["ood_mean_confidence"] == pytest.approx(confidence[TEST.y < 0].mean(), rel=1e-6)


def test_blocks_change_nothing(monkeypatch):
    whole = evaluate_calibrator(FITTED, *TEST, n_boot=20)
    monkeypatch.setattr("wildcal._old.core.blocks.CLASSES_FIRST_ELEMENTS", 700)
    monkeypatch.setattr("wildcal._old.evaluation.resample._MOST_COUNTS", 9000)
    seen = []
    pieces = evaluate_calibrator(FITTED, *TEST, n_boot=20, progress=seen.append)
    assert sum(seen) == len(TEST.y)
    assert len(seen) > 5
    for name in whole:
        assert pieces[name] == pytest.approx(whole[name], rel=1e-10)
        if whole.estimate(name).low is not None:
            assert pieces.estimate(name).low == pytest.approx(whole.estimate(name).low, rel=1e-9)


def test_every_metric_has_an_interval_that_holds_it():
    result = evaluate_calibrator(FITTED, *TEST, n_boot=50)
    for name, metric in METRICS.items():
        if metric.classes is not None:  # for two classes alone
            continue
        e = result.estimate(name)
        if metric.drawn is None:
            assert (name, e.low) == ("noise_floor", None)
        else:
            assert e.low <= e.value <= e.high, name
            assert e.low < e.high, name
    assert result.estimate("ece").floor == result.noise_floor
    assert result.estimate("ece").excess == pytest.approx(result.excess_ece)


def test_some_metrics_alone():
    result = evaluate_calibrator(FITTED, *TEST, metrics=["nll", "ood_auroc"], n_boot=10)
    assert list(result) == ["nll", "ood_auroc"]
    assert result.nll == result["nll"] == evaluate_calibrator(FITTED, *TEST, n_boot=0).nll
    with pytest.raises(AttributeError, match="has no 'ece': it was not measured"):
        result.ece  # noqa: B018
    with pytest.raises(AttributeError, match="by their names"):
        result.eces  # noqa: B018
    with pytest.raises(ValueError, match="metrics must be one of"):
        evaluate_calibrator(FITTED, *TEST, metrics=["eces"])


def test_shown_and_handed_on():
    result = evaluate_calibrator(FITTED, *TEST, n_boot=10)
    lines = str(result).splitlines()
    assert lines[0] == f"1,500 rows, {result.n_ood:,} out-of-distribution rows, 15 bins"
    assert f"{100 * result.ece:.2f}" in next(x for x in lines if x.startswith("ECE"))
    assert result.to_csv().splitlines()[1].startswith("accuracy,0.")
    assert "ece" in dir(result)
    pandas = pytest.importorskip("pandas")
    frame = result.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.set_index("metric").value["nll"] == result.nll


@pytest.mark.filterwarnings("ignore:kde_ece is rough")  # two rows have no bandwidth
def test_predicted_class_of_the_raw_logits_decides():
    """Rounding ties in the output must not change accuracy."""
    proba = np.array([[0.5, 0.5], [0.5, 0.5]])
    assert evaluate([1, 1], proba, pred=[1, 1], n_boot=0)["accuracy"] == 1
    assert evaluate([1, 1], proba, n_boot=0)["accuracy"] == 0


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    """Accuracy of a coin: the 90 % interval covers it in about 90 % of 100 draws."""
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(100):
        p = rng.uniform(0.5, 1, 300)
        y = (rng.random(300) > p).astype(int)
        m = evaluate(y, np.column_stack([p, 1 - p]), n_boot=200, level=0.9, metrics=["accuracy"])
        m = m.estimate("accuracy")
        covered += m.low <= 0.75 <= m.high
    assert 80 <= covered <= 98


def test_intervals_stay_inside_the_range_of_the_metric():
    p = np.linspace(0.8, 0.99, 30)
    y = (np.arange(30) < 1).astype(int)  # 29 of 30 right
    result = evaluate(y, np.column_stack([p, 1 - p]), n_boot=200)
    assert result.estimates["accuracy"].high <= 1
    assert result.estimates["brier"].low >= 0
    assert result.estimates["nll"].low >= 0


def test_the_row_of_a_nan_is_that_of_the_whole_matrix(monkeypatch):
    monkeypatch.setattr("wildcal._old.core.blocks.CLASSES_FIRST_ELEMENTS", 700)
    spoiled = TEST.logits.copy()
    spoiled[777, 3] = np.nan
    with pytest.raises(ValueError, match="row 777 holds NaN"):
        evaluate_calibrator(FITTED, spoiled, TEST.y)
    with pytest.raises(NotFittedError, match="EnergyScaling is not fitted"):
        evaluate_calibrator(EnergyScaling(), *TEST)


def test_many_rows_draw_fewer_replicates_and_say_so(monkeypatch):
    # The limit is on rows times replicates; a hundredth of both shows the same in little time.
    module = sys.modules[evaluate.__module__]
    monkeypatch.setattr(module, "_MOST_DRAWS", 1_000_000)
    p = np.linspace(0.8, 1, 2_500)
    y = (np.arange(len(p)) % 10 == 0).astype(int)
    result = evaluate(y, np.column_stack([p, 1 - p]), n_boot=1000)
    assert result.n_boot == 400
    assert result.to_dict()["n_boot"] == 400


def test_plain_dict_and_repr():
    result = evaluate_calibrator(FITTED, *TEST, n_boot=20)
    document = result.to_dict()
    assert document["metrics"]["ece"]["low"] <= document["metrics"]["ece"]["high"]
    assert len(document["reliability"]["count"]) == 15
    assert repr(result).startswith("Evaluation(n_rows=1500, accuracy=")


def test_all_right_and_only_ood():
    z = SUITE.clean.logits
    result = evaluate_calibrator(Identity().fit(*SUITE.clean), z, z.argmax(axis=1), n_boot=0)
    assert result["accuracy"] == 1
    assert "misclassification_auroc" not in result.estimates
    with pytest.raises(ValueError, match="some in-distribution rows"):
        evaluate_calibrator(FITTED, *SUITE.ood)
