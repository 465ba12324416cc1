"""`run_benchmark` on a small suite, against direct computation."""

import json

import numpy as np
import pytest

import wildcal
from wildcal import metrics, run_benchmark
from wildcal.core.exceptions import InputError
from wildcal.evaluation.diagnostics import pool_reliability
from wildcal.evaluation.splits import paper_n_ood, read_calibration
from wildcal.io.suite import Suite
from wildcal.io.suite_writer import SuiteWriter
from wildcal.testing import make_suite


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    """Two corruptions at five severities, two OOD sets, one shifted calibration domain."""
    folder = tmp_path_factory.mktemp("suites") / "tiny"
    drawn = make_suite(1000, 5)
    names = [str(k) for k in range(5)]
    writer = SuiteWriter(folder, class_names=names)
    z, y = drawn.calibration
    writer.add("validation", z[y >= 0], y[y >= 0], role="calibration")
    for name, seed in (("svhn", 1), ("textures", 2)):
        other = make_suite(1000, 5, seed=seed).ood
        add = dict(domain=None)
        writer.add(f"{name}-calibration", *other, role="calibration", **add)
        writer.add(f"{name}-test", *make_suite(1000, 5, seed=seed + 5).ood, role="test", **add)
    writer.add("test", *drawn.test, role="test")
    for corruption, seed in (("fog", 3), ("blur", 4)):
        shifted = make_suite(1000, 5, seed=seed).shifted
        for severity in range(1, 6):
            part = slice(200 * (severity - 1), 200 * severity)
            more = dict(corruption=corruption, severity=severity)
            domain = f"{corruption}-{severity}"
            arrays = (shifted.logits[part], shifted.y[part])
            writer.add(domain, *arrays, role="test", domain=domain, **more)
    shifted = make_suite(1000, 5, seed=9).shifted
    writer.add("validation-noise", *shifted, role="calibration", domain="noise")
    writer.finish()
    return Suite.open(folder)


METHODS = ["identity", "ts", "vector", "energy", "window"]


@pytest.fixture(scope="module")
def results(suite):
    names = ("ece", "nll", "mean_confidence", "ood_auroc")
    return run_benchmark([suite], METHODS, metrics=names, n_bootstrap=40, diagnostics=True)


def test_measurements_equal_metrics_of_the_fitted_calibrators(suite, results):
    for method in results.suites["tiny"].methods:
        for split in suite.test:
            if split.is_ood:
                continue
            proba = method.calibrator.predict_proba(split.logits)
            for name in ("ece", "nll"):
                found = results.estimate("tiny", method.name, split.name, name)
                expected = getattr(metrics, name)(split.y, proba)
                assert found.value == pytest.approx(expected, abs=1e-12)


def test_methods_are_fitted_on_their_data(suite, results):
    used = {m.name: str(m.information) for m in results.suites["tiny"].methods}
    assert used["identity"] == "nothing"
    assert used["ts"] == "1,000 labels"
    assert used["energy"] == "1,000 labels, 100 OOD samples (svhn)"
    assert "1,000 labels of 1 shifted domain" in used["window"]
    validation = suite.split("validation")
    own = wildcal.TemperatureScaling().fit(validation.logits, validation.y)
    fitted = results.suites["tiny"].methods[1].calibrator
    assert fitted.temperature_ == own.temperature_


def test_average_over_severities(results):
    average = results.average("tiny", "ts", "ece")
    for severity in range(1, 6):
        values = [
            results.estimate("tiny", "ts", f"{c}-{severity}", "ece").value for c in ("fog", "blur")
        ]
        assert average.conditions[severity] == pytest.approx(np.mean(values))
    assert average.value == pytest.approx(np.mean(average.conditions))
    assert average.low <= average.high


def test_interval_of_an_error_without_floor_contains_it(suite):
    found = run_benchmark([suite], ["identity"], metrics=["mce"], n_bootstrap=20)
    average = found.average("tiny", "identity", "mce")
    assert average.low <= average.value <= average.high


def test_ranking_and_paired_differences(results):
    order = [m.name for m in results.ranked("tiny")]
    values = [results.average("tiny", name).value for name in order]
    assert values == sorted(values)
    gap = results.difference("tiny", order[-1], order[0])
    assert gap.value == pytest.approx(values[-1] - values[0])
    assert gap.low <= gap.value <= gap.high
    worst = results.average("tiny", order[-1])
    assert gap.high - gap.low < 2 * (worst.high - worst.low)


def test_ood_set_of_the_fit_is_not_tested(suite, results):
    assert results.ood_splits("tiny") == ["textures-test"]
    split = suite.split("textures-test")
    fitted = results.suites["tiny"].methods[1].calibrator
    expected = fitted.confidence(split.logits).mean()
    found = results.estimate("tiny", "ts", "textures-test", "ood_mean_confidence")
    assert found.value == pytest.approx(expected, abs=1e-6)
    auroc = results.estimate("tiny", "ts", "textures-test", "ood_auroc").value
    everything = metrics.auroc(
        np.arange(1000 + split.n_samples) < 1000,
        np.concatenate([
            fitted.confidence(suite.split("test").logits), fitted.confidence(split.logits)
        ]),
    )  # fmt: skip
    assert auroc == pytest.approx(everything, abs=0.05)


def test_table_frame_and_json(results):
    table = results.table()
    assert table.heads[:3] == ["method", "average ECE", "to best"]
    assert len(table.rows) == len(METHODS)
    frame = results.to_frame()
    assert set(frame.method) == set(METHODS)
    assert {"suite", "split", "severity", "value", "low", "noise_floor"} <= set(frame.columns)
    assert json.dumps(results.to_dict())
    assert "Noise floor" in str(results)
    with pytest.raises(InputError, match="Unknown metric 'ecs'. Did you mean 'ece'"):
        results.table(metric="ecs")


def test_diagnostics(suite, results):
    found = results.suites["tiny"].diagnostics
    names = ["fog-3", "blur-3"]
    pooled = pool_reliability(found.reliability[name]["ts"] for name in names)
    z, y = (np.concatenate([getattr(suite.split(n), k) for n in names]) for k in ("logits", "y"))
    fitted = results.suites["tiny"].methods[1].calibrator
    expected = metrics.reliability(y, fitted.predict_proba(z))
    np.testing.assert_allclose(pooled.count, expected.count)
    np.testing.assert_allclose(pooled.accuracy, expected.accuracy)
    np.testing.assert_allclose(pooled.low, expected.low)
    assert found.risk_coverage["shifted"]["ts"].coverage[-1] == 1


def test_methods_that_cannot_be_fitted(suite):
    found = run_benchmark([suite], ["ts", "dac"])
    assert "k-NN distances" in found.suites["tiny"].failed["dac"]
    assert [m.name for m in found.suites["tiny"].methods] == ["ts"]
    assert "no method could be fitted" in str(run_benchmark([suite], ["dac"]))


def test_damaged_splits_are_skipped(suite, tmp_path):
    import shutil

    shutil.copytree(suite.path, tmp_path / "bad")
    path = tmp_path / "bad" / "fog-3" / "logits.npy"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    found = run_benchmark({"bad": Suite.open(tmp_path / "bad")}, ["ts"])
    assert "damaged" in found.skipped["bad: fog-3"]
    assert "no fog at severity 3" in found.skipped["bad: average over severities"]
    assert np.isnan(found.average("bad", "ts").value)


def test_calibration_data(suite):
    found = read_calibration(suite, ood="textures", n_ood=7)
    arguments = found.fit_arguments(["source", "ood"], knn_distances=False)
    assert (arguments["y"] == -1).sum() == 7
    assert found.ood_set == "textures"
    with pytest.raises(InputError, match="ood must be one of svhn, textures, got 'lsun'"):
        read_calibration(suite, ood="lsun")
    assert [paper_n_ood(k) for k in (10, 100, 1000)] == [100, 400, 3500]
