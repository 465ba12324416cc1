"""Values of the published programs (files and versions: spec, section 7) on small synthetic sets.

"reference" programs that work in float32 agree to about 1e-8, the others to 1e-12.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from wildcal import metrics as m

VECTORS = Path(__file__).parent / "vectors"
METRICS = json.loads((VECTORS / "metrics.json").read_text())
EDGE = json.loads((VECTORS / "edge_cases.json").read_text())
DATA = json.loads((VECTORS / "data.json").read_text())["datasets"]


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@pytest.fixture(params=["k10", "k3", "k2"])
def case(request):
    data = DATA[request.param]
    logits, y = np.array(data["test_logits"]), np.array(data["test_labels"])
    return METRICS[request.param], y, softmax(logits), logits, np.array(data["ood_logits"])


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("accuracy", m.accuracy),
        ("mean_conf", m.mean_confidence),
        ("ece15_float64", m.ece),
        ("ece15", m.ece),
        ("ece10_float64", lambda y, p: m.ece(y, p, n_bins=10)),
        ("ece_equal_width_verified15", m.ece),
        ("mce15", m.mce),
        ("classwise_ece15_paper_code_fraction", m.classwise_ece),
        ("ece_equal_mass_verified15", lambda y, p: m.ece(y, p, strategy="quantile")),
        ("ks_error", m.ks_error),
        ("brier_sumnorm", m.brier_score),
        ("brier_top_label", m.top_label_brier),
        ("nll", m.nll),
        ("l2_ce_debiased_top", m.debiased_l2_ce),
    ],
)
def test_scores(case, name, ours):
    expected, y, proba, *_ = case
    assert ours(y, proba) == pytest.approx(expected[name], abs=1e-6)


def test_kde_ece(case):
    expected, y, proba, *_ = case
    if proba.shape[1] == 2:  # there the published code measures class 1
        y, proba = y == 1, proba[:, 1]
    assert m.kde_ece(y, proba) == pytest.approx(expected["kde_ece_spec_numpy_linbin"], abs=1e-7)


def test_reliability(case):
    expected, y, proba, *_ = case
    table = m.reliability(y, proba)
    assert table.count.tolist() == expected["reliability_counts"]
    sums = np.where(table.count > 0, table.confidence * table.count, 0)
    np.testing.assert_allclose(sums, expected["reliability_conf_sum"], atol=1e-6)
    hits = np.where(table.count > 0, table.accuracy * table.count, 0)
    np.testing.assert_allclose(hits, expected["reliability_acc_sum"], atol=1e-6)


def test_misclassification(case):
    expected, y, proba, *_ = case
    value = m.auroc(proba.argmax(axis=1) == y, proba.max(axis=1))
    assert value == pytest.approx(expected["auroc_correct_vs_incorrect_by_conf"], abs=1e-6)


@pytest.mark.parametrize("score", ["msp", "neg_energy"])
def test_ood_detection(case, score):
    expected, _, _, inside, outside = case
    stored = expected["ood_detection"][score]
    logits = np.concatenate([inside, outside])
    is_id = np.arange(len(logits)) < len(inside)
    if score == "msp":
        scores = softmax(logits).max(axis=1)
    else:
        scores = np.logaddexp.reduce(logits, axis=1)
    assert m.auroc(is_id, scores) == pytest.approx(stored["auroc"], abs=1e-6)
    assert m.aupr_in(is_id, scores) == pytest.approx(stored["aupr_in"], abs=1e-6)
    assert m.aupr_out(is_id, scores) == pytest.approx(stored["aupr_out"], abs=1e-6)
    # The energy OOD code takes the recall closest to 95 %, and of several such thresholds the
    # lowest: never fewer negatives, and the same where there is but one, as with three classes.
    for positive in ("id", "ood"):
        value = m.fpr95(is_id, scores, positive=positive)
        theirs = stored[f"fpr95_{positive}_positive"]
        assert value <= theirs + 1e-6
        if inside.shape[1] == 3:
            assert value == pytest.approx(theirs, abs=1e-6)


def test_mean_confidence_out_of_distribution(case):
    expected, *_, outside = case
    y = np.full(len(outside), -1)
    value = m.mean_confidence(y, softmax(outside))
    assert value == pytest.approx(expected["ood_detection"]["mean_conf_ood"], abs=1e-6)
    for metric in (m.ece, m.ks_error, m.kde_ece):
        assert metric(y, softmax(outside)) == pytest.approx(value, abs=1e-12)


def test_ties():
    case = METRICS["ties_auroc"]
    is_id = np.array(case["labels_id"]) == 1
    for metric in (m.auroc, m.aupr_in, m.aupr_out):
        value = metric(is_id, case["scores"])
        assert value == pytest.approx(case[metric.__name__], abs=1e-9)


def test_bin_edges():
    case = METRICS["bin_edges"]
    confidence, correct = np.array(case["conf"]), np.array(case["correct"]) == 1
    # The reference drops the row with confidence 0 and we put it into bin 0. It is wrong, so it
    # adds 0 - 0 to that bin, and both divide by all 12 rows: the value is the same.
    value = m.ece(correct, confidence)
    assert value == pytest.approx(case["ece15_float64_(lo,hi]_conf0_dropped"], abs=1e-9)
    assert m.mce(correct, confidence) == pytest.approx(case["mce15_float64"], abs=1e-9)
    # Were that row right, its gap of 1 would show. It is alone in bin 0: the stored .0666666666667
    # lies just above the edge 1/15.
    correct[confidence == 0] = True
    assert m.reliability(correct, confidence).count[0] == 1
    assert m.ece(correct, confidence) == pytest.approx(value + 1 / 12, abs=1e-9)


def test_edge_cases():
    case = EDGE["ks_ties"]
    value = m.ks_error(np.array(case["correct"]) == 1, np.array(case["conf"]))
    assert value == pytest.approx(case["ks_tie_safe"], abs=1e-12)
    case = EDGE["ood_all_incorrect"]
    wrong = np.zeros(3, dtype=bool)
    assert m.ece(wrong, case["conf"]) == pytest.approx(case["ece"], abs=1e-12)
    assert m.kde_ece(wrong, case["conf"]) == pytest.approx(case["kde_ece_required"], abs=1e-12)
