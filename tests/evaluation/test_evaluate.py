"""`evaluate`: inputs, groups, intervals, output."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import wildcal
from wildcal import evaluate, metrics
from wildcal.core.exceptions import InputError


@pytest.fixture
def samples():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(600, 3)) * 2
    proba = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    y = (proba.cumsum(axis=1) > rng.random((600, 1))).argmax(axis=1)
    return y, proba


def test_every_metric_that_applies(samples):
    result = evaluate(*samples, n_bootstrap=50)
    expected = {name for name, m in metrics.METRICS.items() if m.needs in ("top", "proba")}
    assert set(result) == expected
    for name in ("accuracy", "nll", "classwise_ece", "aurc"):
        assert float(result[name]) == getattr(metrics, name)(*samples)
    assert result.ece.floor == metrics.noise_floor(samples[1].max(axis=1))
    assert result.nll.low < result.nll.value < result.nll.high
    assert result.reliability.ece == pytest.approx(result.ece.value)
    assert result.risk_coverage.risk[-1] == pytest.approx(1 - result.accuracy.value)


def test_ood_samples_count_for_ood_metrics_only(samples):
    y, proba = samples
    mixed = evaluate([*y, -1, -1], np.concatenate([proba, proba[:2]]), n_bootstrap=20)
    alone = evaluate(y, proba, n_bootstrap=20)
    assert (mixed.n_samples, mixed.n_ood) == (600, 2)
    assert mixed.ece.value == alone.ece.value
    assert mixed.ood_mean_confidence.value == pytest.approx(proba[:2].max(axis=1).mean())
    assert "ood_auroc" not in alone


def test_confidences(samples):
    y, proba = samples
    correct, confidence = proba.argmax(axis=1) == y, proba.max(axis=1)
    result = evaluate(correct, confidence, n_bootstrap=0)
    assert result.ece.value == evaluate(y, proba, n_bootstrap=0).ece.value
    assert "nll" not in result
    named = evaluate(correct.astype(int), confidence, input="confidence", n_bootstrap=0)
    assert named.ece.value == result.ece.value


def test_one_dimensional_probabilities_of_class_1():
    p, y = np.array([0.1, 0.8, 0.6]), np.array([0, 1, 0])
    result = evaluate(y, p, input="proba", n_bootstrap=0)
    assert result.nll.value == pytest.approx(-np.log([0.9, 0.8, 0.4]).mean())
    with pytest.raises(InputError, match="Try input='proba' .* or input='confidence'"):
        evaluate(y, p)


def test_calibrator_on_logits():
    suite = wildcal.testing.make_suite(seed=0)
    (z, y), (test, labels) = suite.calibration, suite.shifted
    z, y = z[y >= 0], y[y >= 0]
    calibrator = wildcal.get_calibrator("vector").fit(z, y)
    result = evaluate(labels, logits=test, calibrator=calibrator, n_bootstrap=0)
    assert result.nll.value == metrics.nll(labels, calibrator.predict_proba(test))
    known = labels >= 0
    raw = (test.argmax(axis=1) == labels)[known].mean()
    assert result.uncalibrated_accuracy == pytest.approx(raw)
    assert "accuracy, uncalibrated" in str(result)
    same = evaluate(labels, logits=test, calibrator=wildcal.get_calibrator("ts").fit(z, y))
    assert same.uncalibrated_accuracy is None


def test_errors_of_groups_that_cancel_in_all_samples():
    rng = np.random.default_rng(0)
    country = np.array(["DE"] * 3000 + ["IN"] * 3000)
    confidence = rng.uniform(0.4, 0.9, 6000)
    shift = np.where(country == "IN", 0.08, -0.08)
    correct = rng.random(6000) < confidence - shift
    result = evaluate(correct, confidence, groups=country)
    assert result.ece.value < 0.03
    assert result.groups["IN"].ece.value > 0.06
    assert set(result.groups) == {"DE", "IN"}
    assert result.worst_group in ("DE", "IN")
    assert result.worst_group_by("accuracy") == "IN"
    assert result.groups["IN"].excess_ece.low > 0.04
    assert result.groups["IN"].n_samples == 3000


def test_groups_without_excess_ece(samples):
    y, proba = samples
    result = evaluate(y, proba, groups=y, metrics=["accuracy"], n_bootstrap=0)
    assert result.worst_group is None
    assert json.dumps(result.to_dict())
    assert result.worst_group_by("accuracy") in result.groups
    with pytest.raises(InputError, match=r"aurc of groups was not computed"):
        result.worst_group_by("aurc")


def test_uncalibrated_accuracy_of_scores():
    rng = np.random.default_rng(0)
    score = rng.normal(size=2000)
    y = (score + 1 > rng.normal(size=2000)).astype(int)
    platt = wildcal.get_calibrator("platt").fit(score, y, input="score")
    result = evaluate(y, logits=score, calibrator=platt, n_bootstrap=0)
    assert result.uncalibrated_accuracy == pytest.approx(((score > 0) == y).mean())
    assert result.accuracy.value > result.uncalibrated_accuracy


def test_weights_are_counts(samples):
    y, proba = samples
    counts = np.random.default_rng(0).integers(1, 4, len(y))
    weighted = evaluate(y, proba, sample_weight=counts, n_bootstrap=0)
    repeated = evaluate(np.repeat(y, counts), np.repeat(proba, counts, axis=0), n_bootstrap=0)
    for name in repeated:
        assert weighted[name].value == pytest.approx(repeated[name].value, rel=1e-7, abs=1e-9)


def test_names_of_classes_from_a_frame(samples):
    y, proba = samples
    frame = pd.DataFrame(proba, columns=["cat", "dog", "bee"])
    names = np.array(["cat", "dog", "bee"], dtype=object)[y]
    assert evaluate(names, frame, n_bootstrap=0).nll.value == metrics.nll(y, proba)


def test_json_and_frame(samples):
    y, proba = samples
    result = evaluate(y, proba, groups=y % 2, n_bootstrap=20)
    found = json.loads(json.dumps(result.to_dict()))
    assert found["format"] == "wildcal evaluation"
    assert found["format_version"] == 1
    assert found["metrics"]["ece"]["noise_floor"] == result.ece.floor
    assert found["metrics"]["ece"]["verdict"] in ("within noise", "above noise floor")
    assert set(found["groups"]) == {"0", "1"}
    frame = result.to_frame()
    assert set(frame.group) == {"", "0", "1"}
    row = frame[(frame.group == "1") & (frame.metric == "nll")].iloc[0]
    assert row.value == result.groups["1"].nll.value


def test_tables(samples):
    y, proba = samples
    result = evaluate(y, proba, groups=y % 2, n_bootstrap=20)
    assert f"{100 * result.ece.value:.2f}" in str(result)
    assert "<table" in result._repr_html_()
    table = result.group_table()
    excess = table.heads.index("excess ECE")
    assert [row[excess].value for row in table.rows] == sorted(
        (row[excess].value for row in table.rows), reverse=True
    )


def test_probabilities_of_0_are_noted():
    found = wildcal.evaluate([0, 1], np.array([[1.0, 0.0], [1.0, 0.0]]))
    assert "a probability of 0 for the label counts as 1e-34 (1 of 2)" in str(found)
    assert "1e-34" not in str(wildcal.evaluate([0, 1], np.full((2, 2), 0.5)))


def test_input_errors(samples):
    y, proba = samples
    with pytest.raises(InputError, match="either proba, or logits and calibrator"):
        evaluate(y)
    with pytest.raises(InputError, match="Unknown metric 'eec'"):
        evaluate(y, proba, metrics=["eec"])
    with pytest.raises(InputError, match="groups must have one label per sample"):
        evaluate(y, proba, groups=y[:5])
    with pytest.raises(InputError, match="must contain in-distribution samples"):
        evaluate(np.full(600, -1), proba)
    with pytest.raises(AttributeError, match=r"Try metrics=\['nll'\]"):
        _ = evaluate(y, proba, metrics=["ece"]).nll


def test_torch_tensors(samples):
    torch = pytest.importorskip("torch")
    y, proba = samples
    found = evaluate(torch.tensor(y), torch.tensor(proba, requires_grad=True), n_bootstrap=0)
    assert found.ece.value == pytest.approx(metrics.ece(y, proba))


def test_evaluate_enters_few_files():
    """The code of one call is in at most ten files."""
    root, found = str(Path(wildcal.__file__).parent), set()

    def note(frame, event, argument):
        if event == "call" and frame.f_code.co_filename.startswith(root):
            found.add(frame.f_code.co_filename)

    y = np.arange(200) % 3
    for proba in (np.full((200, 3), 1 / 3), np.full((200, 2), 0.5)):
        sample = np.minimum(y, proba.shape[1] - 1), proba
        evaluate(*sample)  # imports come first
        found.clear()
        sys.setprofile(note)
        try:
            evaluate(*sample)
        finally:
            sys.setprofile(None)
        assert len(found) <= 10, found


def test_samples_without_weight(samples):
    y, proba = samples
    groups, weight = np.arange(600) % 2, np.arange(600) % 2
    result = evaluate(y, proba, groups=groups, sample_weight=weight, n_bootstrap=10)
    assert list(result.groups) == ["1"]
    mixed = np.where(groups == 0, -1, y)
    result = evaluate(mixed, proba, sample_weight=weight, n_bootstrap=10)
    assert "ood_auroc" not in result
    with pytest.raises(InputError, match="in-distribution samples with a positive weight"):
        evaluate(mixed, proba, sample_weight=1 - weight)
