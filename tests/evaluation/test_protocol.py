"""The protocol against a plain reimplementation: loops, one method and one split at a time."""

import csv
import io
import shutil

import numpy as np
import pytest

from wildcal import EnergyScaling, get_calibrator

from wildcal._old import suites
from wildcal._old.evaluation.protocol import Results, choose_methods, run_protocol
from wildcal._old.evaluation.suite_table import caption
from wildcal._old.io.suite import Suite, SuiteWriter
from wildcal._old.metrics import aupr_in, aupr_out, auroc, fpr95, kde_ece, noise_floor, sce
from wildcal._old.testing import make_suite

TYPES = ("fog", "snow", "frost")
METRICS = (
    *("accuracy", "mean_confidence", "ece", "mce", "top_label_brier", "sce", "kde_ece"),
    *("ood_auroc", "ood_aupr_in", "ood_aupr_out", "ood_fpr95"),
)


def write_suite(folder, seed=0, leave_out=(), ood=("svhn", "textures")):
    drawn = make_suite(seed, n_tuning=800, n_ood_tuning=150, n_test=600)
    rng = np.random.default_rng(seed)
    writer = SuiteWriter(
        folder,
        network={"name": "drawn"},
        data={"name": "synthetic"},
        seed=seed,
        versions={},
        n_classes=10,
        class_names=[str(k) for k in range(10)],
    )
    known = drawn.tuning.y >= 0
    writer.add(
        "validation", drawn.tuning.logits[known], drawn.tuning.y[known], role="tune", shift="none"
    )
    for i, name in enumerate(ood):
        others = drawn.tuning.logits[~known] * (1 + i)
        writer.add(f"{name}-tune", others, np.full(150, -1), role="tune", shift="semantic")
    writer.add("test", *drawn.clean, role="test", shift="none")
    for kind in TYPES:
        for level in range(1, 6):
            if (kind, level) in leave_out:
                continue
            noise = rng.normal(scale=0.3 * level, size=(400, 10)).astype(np.float32)
            writer.add(
                f"{kind}-{level}",
                drawn.shifted.logits[:400] + noise,
                drawn.shifted.y[:400],
                role="test",
                shift="covariate",
                corruption=kind,
                severity=level,
            )
    for i, name in enumerate(ood):
        others = drawn.ood.logits * (1 + i)
        writer.add(f"{name}-test", others, drawn.ood.y, role="test", shift="semantic")
    writer.finish(list(writer.names))
    return Suite.open(folder)


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    return write_suite(tmp_path_factory.mktemp("suite") / "s")


@pytest.fixture(scope="module")
def results(suite):
    return run_protocol({"drawn": suite}, metrics=METRICS, n_boot=50)


def plain_ece(right, confidence, n_bins=15):
    total = 0.0
    for b in range(n_bins):
        rows = [
            i
            for i, c in enumerate(confidence)
            if (b / n_bins < c or (b == 0 and c == 0)) and c <= (b + 1) / n_bins
        ]
        if rows:
            total += abs(sum(confidence[i] for i in rows) - sum(bool(right[i]) for i in rows))
    return total / len(right)


def fit_plainly(name, suite):
    z, y = np.array(suite.split("validation").logits), np.array(suite.split("validation").y)
    calibrator = get_calibrator(name)
    if calibrator.uses_ood:
        z = np.concatenate([z, suite.split("svhn-tune").logits[:100]])
        y = np.concatenate([y, np.full(100, -1)])
    return calibrator.fit(z, y)


@pytest.mark.parametrize(
    "method", ["identity", "ts", "ets", "irm", "irova", "irovats", "spline", "energy"]
)
def test_every_number_is_that_of_plain_loops(suite, results, method):
    calibrator = fit_plainly(method, suite)
    proba_clean = calibrator.predict_proba(suite.split("test").logits)
    averages = {}
    for split in suite.tests():
        proba = np.minimum(calibrator.predict_proba(split.logits).astype(float), 1)
        pred, confidence = proba.argmax(1), proba.max(1)
        right = pred == split.y

        def value(metric, split=split):
            return results.record("drawn", method, split.name, metric).value

        if split.shift == "semantic":
            if split.name == "svhn-test":  # the set that was tuned with
                assert results.select(split="svhn-test") == []
                continue
            assert value("mean_confidence") == pytest.approx(confidence.mean(), abs=1e-7)
            c = proba_clean.max(1)
            # As many clean rows as there are others, drawn with the fixed seed.
            c = c[np.sort(np.random.default_rng(0).permutation(len(c))[: len(confidence)])]
            scores = np.minimum(np.concatenate([c.astype(float), confidence]), 1)
            inside = np.arange(len(scores)) < len(c)
            for metric, function in {
                "ood_auroc": auroc,
                "ood_aupr_in": aupr_in,
                "ood_aupr_out": aupr_out,
                "ood_fpr95": fpr95,
            }.items():
                # Confidences near 1 in float32 may or may not tie.
                assert value(metric) == pytest.approx(function(inside, scores), abs=1e-3)
            continue
        expected = plain_ece(right.tolist(), confidence.tolist())
        averages.setdefault(split.severity or 0, []).append(expected)
        assert value("ece") == pytest.approx(expected, abs=1e-6)
        assert value("accuracy") == pytest.approx(right.mean(), abs=1e-12)
        assert value("mean_confidence") == pytest.approx(confidence.mean(), abs=1e-7)
        assert value("top_label_brier") == pytest.approx(
            np.mean((confidence - right) ** 2), abs=1e-6
        )
        assert value("sce") == pytest.approx(
            sce(split.y, calibrator.predict_proba(split.logits)), abs=1e-6
        )
        assert value("kde_ece") == pytest.approx(
            kde_ece(split.y, calibrator.predict_proba(split.logits), pred=pred), abs=1e-6
        )
        floor = results.record("drawn", method, split.name, "ece").floor
        assert floor == pytest.approx(noise_floor(confidence), abs=1e-5)
    average = results.average("drawn", method)
    levels = [np.mean(averages[s]) for s in range(6)]
    np.testing.assert_allclose(average.levels, levels, atol=1e-6)
    assert average.value == pytest.approx(sum(levels) / 6, abs=1e-6)


def test_confidence_and_predict_give_the_same_numbers(suite, results):
    for method in ("ts", "irova", "energy"):
        calibrator = fit_plainly(method, suite)
        for split in suite.tests("covariate")[:4]:
            confidence = np.minimum(calibrator.confidence(split.logits).astype(float), 1)
            right = calibrator.predict(split.logits) == split.y
            record = results.record("drawn", method, split.name, "ece")
            assert record.value == pytest.approx(plain_ece(right, confidence), abs=1e-6)


def test_average_by_hand(results):
    """Severity 0 has weight 1/6, each cell 1/6 of its share of a level."""
    value = {r.split: r.value for r in results.select(method="ts", metric="ece")}
    total = value["test"] / 6
    total += sum(value[f"{kind}-{level}"] for kind in TYPES for level in range(1, 6)) / 18
    assert results.average("drawn", "ts").value == pytest.approx(total, abs=1e-12)


def test_what_methods_knew(results):
    used = {r.method: str(r.knew) for r in results.records}
    assert used["identity"] == "nothing"
    assert used["ts"] == "800 labels"
    assert used["energy"] == "800 labels, 100 rows of svhn"


def test_energy_without_ood(suite):
    made = run_protocol({"s": suite}, choose_methods(["energy", "energy-no-ood"]))
    z, y = suite.split("validation").logits, suite.split("validation").y
    alone = EnergyScaling().fit(z, y)
    record = made.record("s", "energy-no-ood", "fog-5", "mean_confidence")
    expected = alone.confidence(suite.split("fog-5").logits).mean(dtype=float)
    assert record.value == pytest.approx(expected, abs=1e-7)
    assert str(record.knew) == "800 labels"
    assert record.value != made.record("s", "energy", "fog-5", "mean_confidence").value


def test_tuning_with_the_other_set(suite):
    made = run_protocol({"s": suite}, choose_methods(["ts"]), ood="textures")
    assert {r.split for r in made.select(shift="semantic")} == {"svhn-test"}
    with pytest.raises(KeyError):
        made.record("s", "ts", "textures-test", "mean_confidence")


def test_intervals_hold_the_truth(results):
    """Of a method that is badly off, the interval lies near the value and away from zero."""
    average = results.average("drawn", "identity")
    assert 0 < average.low < average.value <= average.high
    assert average.high - average.low < 0.1


def test_resampling_draws_the_same_images_in_all_cells(suite, results):
    """Replicate by replicate against a loop that draws rows by the same counts."""
    counts = np.random.default_rng([0, 400]).multinomial(400, np.full(400, 1 / 400), size=50)
    found = results.suites["drawn"]
    for split in suite.tests("covariate")[:3]:
        for m, method in enumerate(found.methods[:2]):
            confidence = np.minimum(method.calibrator.confidence(split.logits).astype(float), 1)
            right = method.calibrator.predict(split.logits) == split.y
            for b in range(3):
                rows = np.repeat(np.arange(400), counts[b])
                expected = plain_ece(right[rows], confidence[rows])
                drawn = found.replicates.cells["ece", split.name][m, b]
                assert drawn == pytest.approx(expected, abs=1e-12)


def test_paired_difference(results):
    same = results.difference("drawn", "ts", "ts")
    assert (same.value, same.low, same.high) == (0, 0, 0)
    gain = results.difference("drawn", "energy", "identity")
    assert gain.value < 0
    assert gain.high < 0
    assert gain.probability_a_better == 1


def test_no_replicates(suite):
    made = run_protocol({"s": suite}, choose_methods(["identity", "ts"]))
    assert made.average("s", "ts").low is None
    with pytest.raises(ValueError, match="there are no replicates"):
        made.difference("s", "ts", "identity")


def test_csv_has_every_record(results):
    rows = list(csv.DictReader(io.StringIO(results.to_csv())))
    assert len(rows) == len(results.records)
    first, record = rows[0], results.records[0]
    assert float(first["value"]) == record.value
    assert (first["suite"], first["method"], first["knew"]) == ("drawn", "identity", "nothing")


def test_every_metric_works_on_suites(suite):
    """And its interval holds it; what is no number there is left out."""
    from wildcal._old.evaluation import METRICS, evaluate_calibrator

    apply = {name: m for name, m in METRICS.items() if m.classes is None}  # not of two classes
    made = run_protocol({"s": suite}, choose_methods(["ts"]), metrics=list(METRICS), n_boot=20)
    assert made.metrics == list(apply)
    (fitted,) = made.suites["s"].methods
    split = suite.split("fog-3")
    alone = evaluate_calibrator(fitted.calibrator, split.logits, split.y, n_boot=0)
    for name, metric in apply.items():
        where = "textures-test" if metric.needs == "ood" else "fog-3"
        e = made.record("s", "ts", where, name).estimate
        if metric.needs != "ood":
            assert e.value == pytest.approx(alone[name], rel=1e-12), name
        if metric.drawn is not None:
            assert e.low <= e.value <= e.high, name
            assert e.low < e.high, name
    for name in ("nll", "brier", "aurc", "sce", "excess_ece"):
        average = made.average("s", "ts", name)
        assert average.low <= average.value <= average.high
        assert made.difference("s", "ts", "ts", name).value == 0
    assert "average NLL" in str(made)


def test_results_are_shown_and_handed_on(results):
    text = str(results)
    assert text.splitlines()[0] == "drawn"
    assert f"{100 * results.average('drawn', 'ts').value:.2f}" in text
    document = results.to_dict()
    assert len(document["records"]) == len(results.records)
    pandas = pytest.importorskip("pandas")
    frame = results.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert len(frame) == len(results.records)


def test_a_saved_method_says_what_it_saw(suite):
    made = run_protocol({"s": suite}, choose_methods(["energy-no-ood", "energy"]))
    said = [m.calibrator.fit_.method for m in made.suites["s"].methods]
    assert said == ["energy@clean", "energy"]


def test_missing_cell_leaves_the_rest(tmp_path):
    suite = write_suite(tmp_path / "s", leave_out=[("fog", 3)])
    made = run_protocol({"s": suite}, choose_methods(["ts"]), n_boot=5)
    average = made.average("s", "ts")
    assert np.isnan(average.value)
    assert np.isnan(average.levels[3])
    assert not np.isnan(average.levels[4])
    assert (average.low, average.high) == (None, None)


def test_damaged_split_is_named_and_left_out(suite, tmp_path):
    shutil.copytree(suite.path, tmp_path / "s")
    path = tmp_path / "s" / "fog-2.logits.npy"
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    made = run_protocol({"s": Suite.open(tmp_path / "s")}, choose_methods(["ts"]))
    assert list(made.skipped) == ["s: fog-2", "s: the average over severities"]
    assert made.select(split="fog-2") == []
    assert made.select(split="fog-3") != []


def test_suite_without_tuning_rows_is_named(suite, tmp_path):
    writer = SuiteWriter(
        tmp_path / "s", network={}, data={}, seed=0, versions={}, n_classes=10,
        class_names=[str(k) for k in range(10)],
    )  # fmt: skip
    writer.add("test", suite.split("test").logits, suite.split("test").y, role="test", shift="none")
    made = run_protocol({"bad": Suite.open(tmp_path / "s"), "good": suite}, choose_methods(["ts"]))
    assert "has no clean rows to tune on" in made.skipped["bad"]
    assert list(made.suites) == ["good"]


def test_no_ood_rows_to_tune_with(tmp_path):
    suite = write_suite(tmp_path / "s", ood=())
    made = run_protocol({"s": suite}, choose_methods(["energy"]))
    assert made.suites["s"].ood is None
    assert {str(r.knew) for r in made.records} == {"800 labels"}
    again = run_protocol({"s": suite}, choose_methods(["energy"]), ood="svhn")
    assert "has no tuning rows of 'svhn'; it has none" in again.skipped["s"]


def test_wrong_words(suite):
    with pytest.raises(ValueError, match="metrics must be one of"):
        run_protocol({"s": suite}, metrics=["eces"])
    with pytest.raises(ValueError, match="there is no method 'tss'"):
        choose_methods(["tss"])


def test_empty_results_select_nothing():
    assert Results((), {}, {}).select(metric="ece") == []


def test_a_table_says_that_most_of_it_is_chance():
    """Twenty rows a cell of a thousand classes; not with two thousand of ten."""
    few, many = (
        run_protocol({name: suites.load(name)}, choose_methods(["identity", "ts"]))
        for name in ("imagenet-efficientnet-lite0", "cifar10-vgg11-half")
    )
    assert "More than half of the best average is the noise floor" in "\n".join(
        caption(few, "imagenet-efficientnet-lite0")
    )
    assert "half" not in "\n".join(caption(many, "cifar10-vgg11-half"))
    assert not any(
        "half" in note for note in caption(few, "imagenet-efficientnet-lite0", "kde_ece")
    )
