"""Density-aware methods in the protocol, against plain code."""

import numpy as np
import pytest

from wildcal import (
    DensityAwareCalibration,
    EnergyScaling,
    EnsembleTemperatureScaling,
    Identity,
    SplineCalibration,
)
from wildcal._old.evaluation.protocol import choose_methods, run_protocol
from wildcal._old.io.suite import Suite, SuiteWriter
from wildcal._old.metrics import ece, kde_ece, sce
from wildcal._old.testing import make_suite

RANKS = [1, 20]
LAYERS = ["stem", "last", "logits"]
DAC = ("dac", "dac+ets", "dac+spline", "dac+energy", "dac-first")
DRAWN = make_suite(3, n_tuning=700, n_ood_tuning=120, n_test=500)
KNOWN = DRAWN.tuning.y >= 0


def drawn_distances(logits, y, seed):
    """Return both ranks of all layers side by side: farther where the row is wrong or shifted."""
    rng = np.random.default_rng(seed)
    far = 0.01 * (logits.argmax(axis=1) != y)[:, None]
    first = 0.1 + rng.gamma(4.0, 0.01, (len(y), 3)) + far * [1.0, 0.5, 0.0]
    return np.column_stack([first, first + rng.gamma(2.0, 0.05, (len(y), 3))]).astype(np.float32)


def write_suite(folder, *, distances=True, without=()):
    neighbors = {
        "layers": [{"name": name, "width": 8} for name in LAYERS],
        "ranks": RANKS,
        "train_rows": 100,
        "search": "exact",
        "faiss": "0",
    }
    writer = SuiteWriter(
        folder,
        network={"name": "drawn"},
        data={"name": "synthetic"},
        seed=0,
        versions={},
        n_classes=10,
        class_names=[str(k) for k in range(10)],
    )
    if distances:
        writer.describe(neighbors=neighbors)

    def add(name, logits, y, **more):
        writer.add(name, logits, y, **more)
        if distances and name not in without:
            seed = sum(map(ord, name))
            writer.add_distances(name, drawn_distances(logits, y, seed))

    z, y = DRAWN.tuning.logits[KNOWN], DRAWN.tuning.y[KNOWN]
    add("validation", z, y, role="tune", shift="none")
    strange = DRAWN.tuning.logits[~KNOWN]
    add("svhn-tune", strange, np.full(len(strange), -1), role="tune", shift="semantic")
    rng = np.random.default_rng(0)
    for level in (1, 2):
        noisy = z[:300] + rng.normal(scale=level, size=(300, 10)).astype(np.float32)
        shifted = {"shift": "covariate", "severity": level}
        add(f"validation-blur-{level}", noisy, y[:300], role="tune", corruption="blur", **shifted)
    add("test", *DRAWN.clean, role="test", shift="none")
    for level in range(1, 6):
        rows = slice(100 * (level - 1), 100 * level)
        add(
            f"fog-{level}",
            DRAWN.shifted.logits[rows],
            DRAWN.shifted.y[rows],
            role="test",
            shift="covariate",
            corruption="fog",
            severity=level,
        )
    add("textures-test", *DRAWN.ood, role="test", shift="semantic")
    writer.finish(list(writer.names))
    return Suite.open(folder)


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    return write_suite(tmp_path_factory.mktemp("suite") / "s")


@pytest.fixture(scope="module")
def results(suite):
    metrics = ("accuracy", "ece", "sce", "kde_ece", "mean_confidence", "ood_auroc")
    return run_protocol(
        {"drawn": suite}, choose_methods(["identity", *DAC]), metrics=metrics, n_boot=20
    )


def fitted_by_hand(suite, name):
    """Return a method fitted as the words of its name say, with nothing shared."""
    base = {
        "dac": Identity(),
        "dac-first": Identity(),
        "dac+ets": EnsembleTemperatureScaling(),
        "dac+spline": SplineCalibration(),
        "dac+energy": EnergyScaling(),
    }[name]
    rank = 1 if name == "dac-first" else 20
    clean = suite.split("validation")
    logits, y, density = [clean.logits], [clean.y], [clean.distances(rank)]
    if base.uses_ood:
        ood = suite.split("svhn-tune")
        logits.append(ood.logits[:100])
        y.append(np.full(100, -1))
        density.append(ood.distances(rank)[:100])
    return rank, DensityAwareCalibration(base=base).fit(
        np.concatenate(logits), np.concatenate(y), knn_distances=np.concatenate(density)
    )


@pytest.mark.parametrize("name", DAC)
def test_density_aware_numbers(suite, results, name):
    rank, calibrator = fitted_by_hand(suite, name)
    for split in suite.tests():
        near = split.distances(rank)
        proba = calibrator.predict_proba(split.logits, knn_distances=near).astype(np.float64)
        pred = split.logits.argmax(axis=1)
        top = np.minimum(proba[np.arange(len(pred)), pred], 1)
        record = results.record("drawn", name, split.name, "mean_confidence")
        assert record.value == pytest.approx(top.mean(), abs=1e-6)
        if split.shift == "semantic":
            continue
        wanted = {
            "ece": ece(pred == split.y, top),
            "sce": sce(split.y, proba),
            "kde_ece": kde_ece(split.y, proba, pred=pred),
            "accuracy": (pred == split.y).mean(),
        }
        for metric, value in wanted.items():
            found = results.record("drawn", name, split.name, metric).value
            assert found == pytest.approx(value, abs=2e-6), (metric, split.name)


def test_detection_reads_scaled_logits(suite, results):
    rank, calibrator = fitted_by_hand(suite, "dac+energy")
    clean, other = suite.split("test"), suite.split("textures-test")
    inside = calibrator.confidence(clean.logits, knn_distances=clean.distances(rank)).astype(
        np.float64
    )
    outside = calibrator.confidence(other.logits, knn_distances=other.distances(rank)).astype(
        np.float64
    )
    rng = np.random.default_rng(0)
    n = min(len(inside), len(outside))
    inside = inside[np.sort(rng.permutation(len(inside))[:n])]
    outside = outside[np.sort(rng.permutation(len(outside))[:n])]
    higher = (inside[:, None] > outside).mean() + (inside[:, None] == outside).mean() / 2
    found = results.record("drawn", "dac+energy", "textures-test", "ood_auroc").value
    assert found == pytest.approx(higher, abs=1e-3)


def test_what_each_method_used(results):
    used = {m.name: str(m.knew) for m in results.suites["drawn"].methods}
    layers = "distances to training images in 3 layers"
    assert used["dac"] == f"700 labels, {layers}"
    assert used["dac+energy"] == f"700 labels, 100 rows of svhn, {layers}"


def test_a_suite_without_distances(tmp_path):
    suite = write_suite(tmp_path / "s", distances=False)
    results = run_protocol({"drawn": suite}, choose_methods(["ts", "dac+ets"]))
    found = results.suites["drawn"]
    assert [m.name for m in found.methods] == ["ts"]
    assert "an extraction with features" in found.failed["dac+ets"]


@pytest.mark.parametrize("lost", ["fog-3", "validation", "svhn-tune"])
def test_one_split_without_distances(tmp_path, lost):
    suite = write_suite(tmp_path / "s", without=(lost,))
    results = run_protocol({"drawn": suite}, choose_methods(["ts", "dac+energy"]))
    failed = results.suites["drawn"].failed
    assert list(failed) == ["dac+energy"]
    assert lost in failed["dac+energy"]
    assert "an extraction with features" in failed["dac+energy"]


def test_only_one_rank(suite, tmp_path):
    suite.pack(tmp_path / "kth.npz", ranks=[20])
    packed = Suite.open(tmp_path / "kth.npz")
    results = run_protocol({"drawn": packed}, choose_methods(["dac", "dac-first"]))
    assert [m.name for m in results.suites["drawn"].methods] == ["dac"]
    assert "20" in results.suites["drawn"].failed["dac-first"]


def test_damaged_distances_harm_those_who_read_them(tmp_path):
    write_suite(tmp_path / "s")
    path = tmp_path / "s" / "fog-1.distances.npy"
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    suite = Suite.open(tmp_path / "s")
    results = run_protocol({"drawn": suite}, choose_methods(["ts", "dac", "dac+ets"]))
    found = results.suites["drawn"]
    assert [m.name for m in found.methods] == ["ts"]
    assert np.isfinite(results.average("drawn", "ts").value)
    for reason in found.failed.values():
        assert "fog-1.distances.npy, the distances of split fog-1, was changed" in reason


def test_the_nearest_alone_is_not_taken_for_the_kth(suite, tmp_path):
    suite.pack(tmp_path / "first.npz", ranks=[1])
    packed = Suite.open(tmp_path / "first.npz")
    results = run_protocol({"drawn": packed}, choose_methods(["dac", "dac-first"]))
    assert [m.name for m in results.suites["drawn"].methods] == ["dac-first"]
    assert "not to 20" in results.suites["drawn"].failed["dac"]
