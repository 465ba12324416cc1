"""The protocol with methods that know shifted tuning rows, and with contexts of test rows."""

import shutil

import numpy as np
import pytest
from scipy.special import log_softmax

from wildcal import WindowScaling, get_calibrator
from wildcal._old.evaluation import environments
from wildcal._old.evaluation.protocol import Method, choose_methods, run_protocol
from wildcal._old.evaluation.protocol.tuning import read_tuning
from wildcal._old.evaluation.protocol.windows import window_slices
from wildcal._old.io.suite import Suite, SuiteWriter
from wildcal._old.metrics import aupr_in, auroc, sce
from wildcal._old.testing import make_suite

TYPES = ("fog", "snow")
NAMES = ("identity", "ts", "energy", "window", "ts-all", "ets-all", "irm-all", "energy-all")


def write_suite(folder, tuned_on=("blur", "spatter"), rows=300):
    drawn = make_suite(1, n_tuning=800, n_ood_tuning=150, n_test=600)
    rng = np.random.default_rng(1)
    writer = SuiteWriter(
        folder, network={}, data={}, seed=0, versions={}, n_classes=10,
        class_names=[str(k) for k in range(10)],
    )  # fmt: skip
    known = drawn.tuning.y >= 0
    logits, y = drawn.tuning.logits[known], drawn.tuning.y[known]

    def noisy(z, level):
        """Less sure than clean rows, not by enough, and drawn to some classes."""
        drawn_to = level * np.linspace(2, -2, 10)
        z = z + rng.normal(scale=level, size=z.shape) + drawn_to
        return (0.9**level * z).astype(np.float32)

    writer.add("validation", logits, y, role="tune", shift="none")
    for role, kinds in (("tune", tuned_on), ("test", TYPES)):
        for kind in kinds:
            for level in range(1, 6):
                z, labels = (logits, y) if role == "tune" else drawn.clean
                writer.add(
                    f"{role}-{kind}-{level}", noisy(z[:rows], level), labels[:rows], role=role,
                    shift="covariate", corruption=kind, severity=level,
                )  # fmt: skip
    for name in ("svhn", "textures"):
        for role, z in (("tune", drawn.tuning.logits[~known]), ("test", drawn.ood.logits)):
            ood = z * (1.5 if name == "textures" else 1)
            writer.add(f"{name}-{role}", ood, np.full(len(z), -1), role=role, shift="semantic")
    writer.add("test", *drawn.clean, role="test", shift="none")
    writer.finish(list(writer.names))
    return Suite.open(folder)


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    return write_suite(tmp_path_factory.mktemp("suite") / "s")


@pytest.fixture(scope="module")
def results(suite):
    metrics = ("accuracy", "mean_confidence", "ece", "sce")
    methods = [*choose_methods(NAMES), Method("window-32", WindowScaling(), window=32)]
    return run_protocol({"s": suite}, methods, metrics=metrics, n_boot=20)


@pytest.fixture(scope="module")
def calibrator(suite):
    rows = environments(suite)
    return fit_window(rows)


def fit_window(rows):
    known = rows.y >= 0
    return WindowScaling().fit(rows.logits[known], rows.y[known], domain=rows.environment[known])


def plain(calibrator, logits, window):
    """Return confidences one window after the other, each in its own context."""
    parts = [logits[i : i + window] for i in range(0, len(logits), window)]
    return np.concatenate([calibrator.confidence(p) for p in parts])


@pytest.mark.parametrize(("name", "window"), [("window", 10**6), ("window-32", 32)])
def test_context_is_that_of_a_plain_loop(suite, results, calibrator, name, window):
    for split in suite.tests():
        if split.name == "svhn-test":
            continue
        confidence = plain(calibrator, split.logits, window).astype(float)
        record = results.record("s", name, split.name, "mean_confidence")
        assert record.value == pytest.approx(confidence.mean(), abs=1e-6)
        if split.shift == "semantic":
            continue
        right = np.asarray(split.logits).argmax(1) == split.y
        bins = np.clip(np.ceil(15 * confidence).astype(int) - 1, 0, 14)
        ece = sum(abs((confidence - right)[bins == b].sum()) for b in range(15)) / len(right)
        record = results.record("s", name, split.name, "ece")
        assert record.value == pytest.approx(ece, abs=1e-6)


def test_metrics_of_all_classes_are_in_context_too(suite, results, calibrator):
    split = suite.split("test-fog-5")
    proba = calibrator.predict_proba(split.logits)
    record = results.record("s", "window", split.name, "sce")
    assert record.value == pytest.approx(sce(split.y, proba), abs=1e-6)
    parts = [split.logits[i : i + 32] for i in range(0, split.rows, 32)]
    proba = np.concatenate([calibrator.predict_proba(p) for p in parts])
    record = results.record("s", "window-32", split.name, "sce")
    assert record.value == pytest.approx(sce(split.y, proba), abs=1e-6)


def test_context_matters(results):
    alike = [
        results.record("s", name, "test-fog-5", "mean_confidence").value
        for name in ("window", "window-32")
    ]
    assert alike[0] != alike[1]
    unseen = {name: results.average("s", name).value for name in ("window", "energy", "ts")}
    assert unseen["window"] < min(unseen["energy"], unseen["ts"])


@pytest.mark.filterwarnings("ignore::wildcal.core.exceptions.CalibrationWarning")
@pytest.mark.parametrize("name", ["ts", "ets", "irm", "energy"])
def test_rivals_are_direct_fits(suite, results, name):
    calibrator = get_calibrator(name)
    parts = [(suite.split("validation"), 1.0)]
    parts += [(split, 5 / 10) for split in suite.tune("covariate")]
    z = [split.logits for split, _ in parts]
    y = [split.y for split, _ in parts]
    weight = [np.full(split.rows, share / split.rows) for split, share in parts]
    if calibrator.uses_ood:
        z.append(suite.split("svhn-tune").logits[:100])
        y.append(np.full(100, -1))
        weight.append(np.full(100, 0.1 / 100))
    w = np.concatenate(weight)
    calibrator.fit(np.concatenate(z), np.concatenate(y), sample_weight=w / w.mean())
    for split in ("test", "test-snow-3"):
        expected = calibrator.confidence(suite.split(split).logits).astype(float).mean()
        found = results.record("s", f"{name}-all", split, "mean_confidence").value
        assert found == pytest.approx(expected, abs=1e-5)


def test_what_methods_knew(results):
    used = {m.name: str(m.knew) for m in results.suites["s"].methods}
    sets = "10 shifted sets of 300 labels"
    assert used["ts"] == "800 labels"
    assert used["ts-all"] == f"800 labels, {sets}"
    assert used["energy-all"] == f"800 labels, 100 rows of svhn, {sets}"
    assert used["window"] == f"800 labels, {sets}, unlabeled test window"
    assert used["window-32"].endswith(f"{sets}, unlabeled windows of 32 test rows")


def test_others_do_not_notice(suite, results):
    """Beside methods in a context, the rest have the numbers they have alone, to the last bit."""
    alone = run_protocol({"s": suite}, choose_methods(["identity", "ts", "energy"]), n_boot=20)
    for record in alone.records:
        beside = results.record("s", record.method, record.split, record.metric)
        assert beside == record


def test_only_some_of_the_shifted_sets(suite):
    made = run_protocol(
        {"s": suite},
        choose_methods(["ts", "window", "ts-all"]),
        only=lambda split: split.corruption == "blur",
    )
    rows = environments(suite, only=lambda split: split.corruption == "blur")
    calibrator = fit_window(rows)
    logits = suite.split("test-snow-4").logits
    expected = calibrator.confidence(logits).astype(float).mean()
    record = made.record("s", "window", "test-snow-4", "mean_confidence")
    assert record.value == pytest.approx(expected, abs=1e-6)
    assert record.knew.shifted == (300,) * 5


def test_no_shifted_rows_to_tune_with(tmp_path):
    suite = write_suite(tmp_path / "s", tuned_on=())
    names = ["ts", "energy", "window", "ts-all"]
    made = run_protocol({"s": suite}, choose_methods(names))
    assert "window, ts-all had clean ones alone" in made.skipped["s: shifted tuning"]
    used = {m.name: str(m.knew) for m in made.suites["s"].methods}
    assert used["ts-all"] == "800 labels, no shifted sets"
    assert used["window"].endswith("unlabeled test window, no shifted sets")
    values = [made.record("s", m, "test-fog-3", "ece").value for m in ("ts", "ts-all")]
    assert values[0] == values[1]


def test_damaged_shifted_rows_fail_the_methods_that_need_them(suite, tmp_path):
    shutil.copytree(suite.path, tmp_path / "s")
    path = tmp_path / "s" / "tune-blur-2.logits.npy"
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    made = run_protocol({"s": Suite.open(tmp_path / "s")}, choose_methods(["ts", "window"]))
    assert [m.name for m in made.suites["s"].methods] == ["ts"]
    assert "tune-blur-2" in made.suites["s"].failed["window"]


def test_averages_over_chosen_types(results):
    """By hand, and with an interval and a difference of their own."""
    value = {r.split: r.value for r in results.select(method="ts", metric="ece")}
    expected = (value["test"] + sum(value[f"test-fog-{level}"] for level in range(1, 6))) / 6
    fog = results.average("s", "ts", types=["fog"])
    assert fog.value == pytest.approx(expected, abs=1e-6)
    both = results.average("s", "ts")
    assert results.average("s", "ts", types=TYPES) == both
    assert (fog.low, fog.high) != (both.low, both.high)
    gain = results.difference("s", "window", "ts", types=["fog"])
    ours = results.average("s", "window", types=["fog"])
    assert gain.value == pytest.approx(ours.value - fog.value, abs=1e-6)
    assert np.isnan(results.average("s", "ts", types=["fog", "rain"]).value)
    assert ours.excess == ours.value - ours.floor


def test_windows_do_not_reach_over_splits():
    found = [(w.start, w.stop) for w in window_slices([4, 0, 5], 2)]
    assert found == [(0, 2), (2, 4), (4, 6), (6, 8), (8, 9)]
    assert list(window_slices([4, 0, 5], None)) == [slice(0, 4), slice(4, 9)]


def test_names():
    with pytest.raises(ValueError, match="identity is not fitted, so it sees no rows"):
        choose_methods(["identity-all"])
    with pytest.raises(ValueError, match="window must be at least 1 row, got 0"):
        Method("window", WindowScaling(), window=0)


DETECTION = ("mean_confidence", "ood_auroc", "ood_aupr_in")


@pytest.mark.parametrize("window", [None, 32])
def test_ood_rows_are_told_apart_in_one_context(suite, calibrator, window):
    methods = [Method("window", WindowScaling(), window=window)]
    made = run_protocol({"s": suite}, methods, metrics=DETECTION)
    clean, other = suite.split("test").logits, suite.split("textures-test").logits
    # As many clean rows as OOD rows, drawn with a fixed seed.
    clean = clean[np.sort(np.random.default_rng(0).permutation(len(clean))[: len(other)])]
    both = np.concatenate([clean, other])
    is_id = np.arange(len(both)) < len(clean)
    scores = calibrator.confidence(both).astype(float)
    for metric, function in (("ood_auroc", auroc), ("ood_aupr_in", aupr_in)):
        found = made.record("s", "window", "textures-test", metric).value
        assert found == pytest.approx(function(is_id, scores), abs=1e-6)
    found = made.record("s", "window", "textures-test", "mean_confidence").value
    own = plain(calibrator, other, window or 10**6).astype(float)
    assert found == pytest.approx(own.mean(), abs=1e-6)


def test_a_refusal_of_one_split_leaves_the_others(suite, tmp_path):
    """Normalized test rows say nothing to the methods that read energies, and do no harm."""
    writer = SuiteWriter(
        tmp_path / "s", network={}, data={}, seed=0, versions={}, n_classes=10,
        class_names=[str(k) for k in range(10)],
    )  # fmt: skip
    for split in [*suite.tune(), suite.split("test"), suite.split("test-fog-5")]:
        about = {"role": split.role, "shift": split.shift}
        if split.shift == "covariate":
            about |= {"corruption": split.corruption, "severity": split.severity}
        z = log_softmax(split.logits, axis=1) if split.role == "test" else split.logits
        writer.add(split.name, np.asarray(z), split.y, **about)
    writer.finish(list(writer.names))
    methods = choose_methods(["ts", "energy", "window"])
    made = run_protocol({"s": Suite.open(tmp_path / "s")}, methods, metrics=("ece", "sce"))
    assert [m.name for m in made.suites["s"].methods] == ["ts", "energy", "window"]
    assert made.record("s", "ts", "test-fog-5", "ece").value > 0


def test_rows_are_not_copied_for_each_method(suite):
    with suite.opened():
        tuning = read_tuning(suite, None, None)
        rows = tuning.rows(["clean"])
    assert rows.logits is tuning.rows(("clean",)).logits
    assert rows.y is tuning.y
    assert not rows.environment.any()


def test_a_negative_number_of_ood_rows(suite):
    message = "ood_rows must be a whole number of at least 0, got -1"
    with pytest.raises(ValueError, match=message):
        environments(suite, ood_rows=-1)
    with pytest.raises(ValueError, match=message):
        run_protocol({"s": suite}, choose_methods(["ts"]), ood_rows=-1)
    assert (environments(suite, ood_rows=0).y >= 0).all()
