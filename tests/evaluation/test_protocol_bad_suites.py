"""Suites with something missing or wrong: one line says what, and all the rest is measured."""

import json
import shutil

import numpy as np
import pytest

from wildcal._old.core.errors import FileFormatError
from wildcal._old.evaluation.protocol import choose_methods, run_protocol
from wildcal._old.io.sealed import digest
from wildcal._old.io.suite import Suite, SuiteWriter
from wildcal._old.io.suite.arrays import content_hash

METHODS = ("identity", "ts", "energy")
AVERAGE = "s: the average over severities"


def write_suite(folder, leave_out=(), rows=120):
    rng = np.random.default_rng(0)
    writer = SuiteWriter(
        folder, network={}, data={}, seed=0, versions={}, n_classes=3, class_names="abc"
    )

    def draw(n, noise=0.0):
        y = rng.integers(0, 3, n)
        z = 6 * np.eye(3)[y] + 3 * rng.normal(size=(n, 3)) * (1 + noise)
        return z.astype(np.float32), y

    def add(name, content, **words):
        if name not in leave_out:
            writer.add(name, *content, **words)

    add("validation", draw(300), role="tune", shift="none")
    for role in ("tune", "test"):
        for name in ("svhn", "textures"):
            ood = draw(rows)[0] / 2, np.full(rows, -1)
            add(f"{name}-{role}", ood, role=role, shift="semantic")
    add("test", draw(rows), role="test", shift="none")
    for kind in ("fog", "snow"):
        for level in range(1, 6):
            place = {"shift": "covariate", "corruption": kind, "severity": level}
            add(f"{kind}-{level}", draw(rows, level / 3), role="test", **place)
    writer.finish(list(writer.names))
    return folder


def run(folder, **options):
    suite = Suite.open(folder, partial=True)
    made = run_protocol({"s": suite}, choose_methods(METHODS), n_boot=5, **options)
    failed = [reason for found in made.suites.values() for reason in found.failed.values()]
    for text in (*made.skipped.values(), *failed):
        assert "\n" not in text
        assert text.endswith(".")
    return made


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return write_suite(tmp_path_factory.mktemp("whole") / "s")


@pytest.fixture(scope="module")
def records(whole):
    made = run(whole)
    assert made.skipped == {}
    return made.records


@pytest.fixture
def folder(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "s")
    return tmp_path / "s"


def without(records, split):
    return tuple(record for record in records if record.split != split)


def replace_logits(folder, name, logits, *, true_hash=False):
    """Write other logits into a split, where wanted with a manifest that vouches for them."""
    np.save(folder / f"{name}.logits.npy", logits)
    if true_hash:
        path = folder / "manifest.json"
        document = json.loads(path.read_text())
        del document["seal"]
        entry = next(e for e in document["splits"] if e["name"] == name)
        entry["sha256"] = content_hash(logits, np.load(folder / f"{name}.labels.npy"))
        document["seal"] = digest(document)
        path.write_text(json.dumps(document))


def with_nan(folder, name):
    logits = np.load(folder / f"{name}.logits.npy")
    logits[7, 1] = np.nan
    replace_logits(folder, name, logits, true_hash=True)


def changed(folder, name):
    replace_logits(folder, name, np.load(folder / f"{name}.logits.npy") + 1)


def gone(folder, name):
    (folder / f"{name}.logits.npy").unlink()


def wide(folder, name):
    rows = len(np.load(folder / f"{name}.labels.npy"))
    replace_logits(folder, name, np.zeros((rows, 4), np.float32))


def empty(folder, name):
    replace_logits(folder, name, np.zeros((0, 3), np.float32))


def cut(folder, name):
    path = folder / f"{name}.logits.npy"
    path.write_bytes(path.read_bytes()[:-100])


DAMAGES = {
    gone: "the file is not there",
    wide: "it must have shape ({rows}, 3), got ({rows}, 4)",
    empty: "it must have shape ({rows}, 3), got (0, 3)",
    cut: "was it cut short?",
    changed: "was changed after it was written (its SHA-256 does not match)",
    with_nan: "logits must be finite, but row 7 is not",
}
EVERY_DAMAGE = pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)


@EVERY_DAMAGE
def test_a_bad_cell(folder, records, damage):
    damage(folder, "fog-3")
    made = run(folder)
    assert list(made.skipped) == ["s: fog-3", AVERAGE]
    assert DAMAGES[damage].format(rows=120) in made.skipped["s: fog-3"]
    assert made.skipped[AVERAGE] == "there is no fog at severity 3."
    assert made.records == without(records, "fog-3")
    average = made.average("s", "ts")
    assert np.isnan(average.levels).tolist() == [False, False, False, True, False, False]
    assert np.isnan(average.value)


@EVERY_DAMAGE
def test_a_bad_clean_cell(folder, records, damage):
    damage(folder, "test")
    made = run(folder)
    assert list(made.skipped) == ["s: test", AVERAGE]
    assert made.skipped[AVERAGE] == "there must be one clean test split, got 0."
    assert made.records == without(records, "test")


@EVERY_DAMAGE
def test_bad_tuning_rows(whole, folder, records, damage):
    """Nothing can be fitted on this suite, and the next is measured as if it stood alone."""
    damage(folder, "validation")
    suites = {"bad": Suite.open(folder, partial=True), "s": Suite.open(whole)}
    made = run_protocol(suites, choose_methods(METHODS), n_boot=5)
    assert DAMAGES[damage].format(rows=300) in " ".join(made.skipped.values())
    assert made.skipped["bad"].startswith((str(folder), "cannot read validation.logits.npy"))
    assert list(made.suites) == ["s"]
    assert made.records == records


@EVERY_DAMAGE
def test_bad_out_of_distribution_tuning_rows(folder, records, damage):
    """Methods that need them fail by name, or get the next set; the others do as before."""
    damage(folder, "svhn-tune")
    made = run(folder, ood=None)
    if damage in (changed, with_nan):  # the head of the file gave no sign
        assert DAMAGES[damage] in made.suites["s"].failed["energy"]
        assert made.suites["s"].ood == "svhn"
        assert made.records == tuple(r for r in records if r.method != "energy")
        return
    assert DAMAGES[damage].format(rows=120) in made.skipped["s: svhn-tune"]
    assert made.suites["s"].ood == "textures"
    assert made.select(method="energy")[0].knew.words() == "300 labels, 100 rows of textures"
    asked = run(folder, ood="svhn")
    assert asked.skipped["s"] == f"{folder} has no tuning rows of 'svhn'; it has textures."


def test_a_cell_that_was_never_written(tmp_path):
    made = run(write_suite(tmp_path / "s", leave_out=("snow-2", "fog-5")))
    assert made.skipped == {AVERAGE: "there is no fog at severity 5, snow at severity 2."}
    assert len(made.select(metric="ece")) == len(METHODS) * 9


def test_many_cells_that_were_never_written(tmp_path):
    never = [f"snow-{level}" for level in (1, 2, 3, 4)]
    made = run(write_suite(tmp_path / "s", leave_out=never))
    start = "there is no snow at severity 1, snow at severity 2, snow at severity 3"
    assert made.skipped[AVERAGE] == f"{start} and 1 more."


def test_a_level_that_is_missing_as_a_whole(tmp_path):
    """All levels that are there have the same types, and still there is no average."""
    made = run(write_suite(tmp_path / "s", leave_out=("fog-4", "snow-4")))
    assert made.skipped[AVERAGE] == "there is no fog at severity 4, snow at severity 4."
    assert np.isnan(made.average("s", "ts").value)


def test_a_suite_without_corruptions_wants_no_average(tmp_path):
    never = [f"{kind}-{level}" for kind in ("fog", "snow") for level in range(1, 6)]
    assert run(write_suite(tmp_path / "s", leave_out=never)).skipped == {}


def test_no_out_of_distribution_rows(tmp_path):
    folder = write_suite(tmp_path / "s", leave_out=("svhn-tune", "textures-tune"))
    made = run(folder)
    assert made.skipped == {
        "s: out-of-distribution tuning": "the suite has no such rows; energy had labels alone."
    }
    assert made.select(method="energy")[0].knew.words() == "300 labels"
    assert {r.split for r in made.select(shift="semantic")} == {"svhn-test", "textures-test"}
    alone = run_protocol({"s": Suite.open(folder)}, choose_methods(["ts", "energy-no-ood"]))
    assert alone.skipped == {}  # nobody wanted them


def test_no_clean_tuning_rows(tmp_path):
    folder = write_suite(tmp_path / "s", leave_out=("validation",))
    reason = f"{folder} has no clean rows to tune on (role tune, shift none)."
    assert run(folder).skipped == {"s": reason}


def test_opening_is_strict_unless_asked(folder):
    gone(folder, "fog-3")
    with pytest.raises(FileFormatError, match=r"cannot read fog-3.logits.npy of .* is not there"):
        Suite.open(folder)
    suite = Suite.open(folder, partial=True)
    assert list(suite.damaged) == ["fog-3"]
    assert not suite.complete
    assert "fog-3" not in [split.name for split in suite.splits]


def test_partial_opening_of_a_whole_suite(folder):
    suite = Suite.open(folder, partial=True)
    assert suite.damaged == {}
    assert suite.complete


def test_a_packed_suite_with_a_lost_member(folder, tmp_path, records):
    import zipfile

    Suite.open(folder).pack(tmp_path / "all.npz")
    with (
        zipfile.ZipFile(tmp_path / "all.npz") as source,
        zipfile.ZipFile(tmp_path / "s.npz", "w") as target,
    ):
        for name in source.namelist():
            if name != "fog-3.labels.npy":
                target.writestr(name, source.read(name))
    made = run(tmp_path / "s.npz")
    assert "fog-3.labels.npy" in made.skipped["s: fog-3"]
    assert "the member is not there" in made.skipped["s: fog-3"]
    assert made.records == without(records, "fog-3")
