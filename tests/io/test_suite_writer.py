"""Writing a suite: killed anywhere, it goes on and ends with the same bytes."""

import itertools
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest

from wildcal._old.core.errors import FileFormatError
from wildcal._old.io.suite import Suite, SuiteWriter
from wildcal.version import __version__

HEADER = {
    "network": {"name": "tiny", "sha256": "ab"},
    "data": {"name": "drawn", "rows": 4},
    "seed": 3,
    "versions": {"numpy": "2.0"},
    "n_classes": 3,
    "class_names": ["a", "b", "c"],
}
PLAN = {
    "val": {"role": "tune", "shift": "none"},
    "fog-1": {"role": "test", "shift": "covariate", "corruption": "fog", "severity": 1},
    "ood": {"role": "test", "shift": "semantic"},
}


def draw(name):
    rng = np.random.default_rng(len(name))
    y = np.full(4, -1) if name == "ood" else rng.integers(0, 3, 4)
    return rng.normal(size=(4, 3)), y


def extract(folder):
    """What a resumable program does."""
    writer = SuiteWriter(folder, **HEADER)
    for name, words in PLAN.items():
        if not writer.done(name):
            writer.add(name, *draw(name), **words)
    writer.finish(list(PLAN))


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


class Killed(BaseException):
    """The end of the process, as far as the files are concerned."""


@pytest.fixture
def kill_at(monkeypatch):
    """End the `process` at a given step that touches files; a step may be half done by then."""

    def arm(step):
        counter = itertools.count()
        dead = []

        def guarded(owner, name, half=None):
            real = getattr(owner, name)

            def call(*arguments, **options):
                if dead or next(counter) == step:
                    if not dead and half is not None:
                        half(*arguments)
                    dead.append(True)  # nothing is cleaned up after a kill
                    raise Killed
                return real(*arguments, **options)

            patch.setattr(owner, name, call)

        def half_write(path, raw):
            with os.fdopen(os.open(path, os.O_WRONLY), "wb") as file:
                file.write(raw[: len(raw) // 2])

        guarded(Path, "mkdir")
        guarded(Path, "write_bytes", half_write)
        guarded(Path, "open")
        guarded(Path, "chmod")
        guarded(Path, "replace", os.replace)
        guarded(Path, "unlink")
        guarded(tempfile, "mkstemp")

    with monkeypatch.context() as patch:
        yield arm, patch.undo


def test_killed_anywhere(tmp_path, kill_at):
    """Two kills in a row, then a run to the end: always a valid suite, always the same bytes."""
    arm, disarm = kill_at
    extract(tmp_path / "whole")
    wanted = content(tmp_path / "whole")
    assert sorted(wanted) == sorted(
        ["manifest.json", *(f"{name}.{part}.npy" for name in PLAN for part in ("logits", "labels"))]
    )
    for step in range(1000):
        folder = tmp_path / str(step)
        for again in (0, step // 2):
            arm(step - again)
            try:
                extract(folder)
                killed = False
            except Killed:
                killed = True
            disarm()
            if (folder / "manifest.json").exists():
                suite = Suite.open(folder, verify=True)
                if not suite.complete:
                    names = [split.name for split in suite.splits]
                    assert names == list(PLAN)[: len(names)]
            else:
                with pytest.raises(FileFormatError):
                    Suite.open(folder)
        extract(folder)
        assert content(folder) == wanted, step
        if not killed:
            break
    assert 40 < step < 999


def test_killed_while_a_split_is_replaced(tmp_path, kill_at):
    arm, disarm = kill_at
    z, y = draw("val")
    for step in range(1000):
        extract(tmp_path / str(step))
        arm(step)
        try:
            writer = SuiteWriter(tmp_path / str(step), **HEADER)
            writer.add("val", z + 1, y, **PLAN["val"])
            killed = False
        except Killed:
            killed = True
        disarm()
        suite = Suite.open(tmp_path / str(step), verify=True)
        assert {"fog-1", "ood"} <= {split.name for split in suite.splits}
        if not killed:
            break
    assert 15 < step < 999
    np.testing.assert_allclose(suite.split("val").logits, z + 1, rtol=1e-6)
    assert not suite.complete


def test_the_order_of_the_splits_is_that_of_finish(tmp_path):
    extract(tmp_path / "a")
    writer = SuiteWriter(tmp_path / "b", **HEADER)
    for name in reversed(PLAN):
        writer.add(name, *draw(name), **PLAN[name])
    assert writer.names == ("ood", "fog-1", "val")
    assert not Suite.open(tmp_path / "b").complete
    writer.finish(list(PLAN))
    assert content(tmp_path / "a") == content(tmp_path / "b")
    assert Suite.open(tmp_path / "b").complete


def test_finish_wants_every_split_once(tmp_path):
    writer = SuiteWriter(tmp_path, **HEADER)
    writer.add("val", *draw("val"), **PLAN["val"])
    with pytest.raises(ValueError, match="not complete: fog-1, ood not written yet"):
        writer.finish(list(PLAN))
    with pytest.raises(ValueError, match="must name every split once; val left out"):
        writer.finish([])
    with pytest.raises(ValueError, match="must name every split once; a name occurs twice"):
        writer.finish(["val", "val"])
    assert not Suite.open(tmp_path).complete


@pytest.mark.parametrize("damage", ["cut", "change", "remove", "labels"])
def test_a_damaged_split_is_not_done(tmp_path, damage):
    extract(tmp_path / "s")
    wanted = content(tmp_path / "s")
    path = tmp_path / "s" / ("val.labels.npy" if damage == "labels" else "val.logits.npy")
    raw = path.read_bytes()
    path.unlink()
    if damage == "cut":
        path.write_bytes(raw[:-1])
    elif damage != "remove":
        path.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    writer = SuiteWriter(tmp_path / "s", **HEADER)
    assert not writer.done("val")
    assert not writer.done("unheard-of")
    assert writer.done("fog-1")
    extract(tmp_path / "s")
    assert content(tmp_path / "s") == wanted


def test_leftovers_are_removed_and_nothing_else(tmp_path):
    extract(tmp_path)
    wanted = content(tmp_path)
    mine = {
        ".val.logits.npy.abcd_123.npy": b"half",
        ".manifest.json.abcdefgh.json": b"half",
        "snow-2.logits.npy": b"without a manifest entry",
    }
    strange = {"notes.txt": b"", "val.npy": b"", ".hidden": b"", "x.logits.npy.bak": b""}
    for name, raw in (mine | strange).items():
        (tmp_path / name).write_bytes(raw)
    (tmp_path / "folder.logits.npy").mkdir()
    SuiteWriter(tmp_path, **HEADER)
    (tmp_path / "folder.logits.npy").rmdir()
    assert content(tmp_path) == wanted | strange


def test_arrays_of_somebody_else_are_left_alone(tmp_path):
    (tmp_path / "val.logits.npy").write_bytes(b"mine")
    with pytest.raises(ValueError, match="holds val.logits.npy but no manifest.json; choose anoth"):
        SuiteWriter(tmp_path, **HEADER)
    assert content(tmp_path) == {"val.logits.npy": b"mine"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"network": {"name": "other", "sha256": "ab"}},
            'from another network (name: "tiny" there, "other" here)',
        ),
        (
            {"network": {"name": "tiny"}},
            'from another network (sha256: "ab" there, nothing here)',
        ),
        ({"data": {"name": "drawn", "rows": 5}}, "from other data (rows: 4 there, 5 here)"),
        ({"seed": 4}, "with another seed"),
        (
            {"versions": {"numpy": "2.1"}},
            'with other package versions (numpy: "2.0" there, "2.1" here)',
        ),
        (
            {"n_classes": 4, "class_names": ["a", "b", "c", "d"]},
            "with another number of classes",
        ),
        ({"class_names": ["a", "b", "d"]}, "with other class names"),
        ({"dtype": "float16"}, "with another dtype"),
    ],
)
def test_another_source_needs_another_folder(tmp_path, change, words):
    extract(tmp_path)
    wanted = content(tmp_path)
    with pytest.raises(ValueError, match="choose another folder") as error:
        SuiteWriter(tmp_path, **(HEADER | change))
    assert str(error.value) == f"{tmp_path} was extracted {words}; choose another folder."
    assert content(tmp_path) == wanted


@pytest.mark.parametrize(
    ("normalize", "words"),
    [
        ({"channels": "bgr", "scale": 1.0}, '(normalize.channels: "rgb" there, "bgr" here)'),
        ({"channels": "rgb"}, "(normalize.scale: 1.0 there, nothing here)"),
        (None, '(normalize: {"channels": "rgb", "scale": 1.0} there, null here)'),
    ],
)
def test_what_differs_is_named_inside_too(tmp_path, normalize, words):
    network = {"name": "tiny", "normalize": {"channels": "rgb", "scale": 1.0}}
    SuiteWriter(tmp_path, **HEADER | {"network": network})
    with pytest.raises(ValueError, match="from another network") as error:
        SuiteWriter(tmp_path, **HEADER | {"network": network | {"normalize": normalize}})
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n_classes": 1, "class_names": ["a"]}, "n_classes must be a whole number of at least 2"),
        ({"class_names": ["a"]}, "class_names must be 3 texts, one for each class, got 1 values"),
        ({"class_names": [1, 2, 3]}, "class_names must be 3 texts"),
        ({"seed": -1}, "seed must be a whole number of at least 0"),
        ({"seed": 1.5}, "seed must be a whole number"),
        ({"versions": {"numpy": 2}}, "versions must map package names to texts"),
        ({"network": {"x": float("nan")}}, "plain JSON values"),
        ({"network": {"x": object()}}, "plain JSON values"),
        ({"data": {"x": "\ud800"}}, "plain JSON values"),
        ({"dtype": "int8"}, "dtype must be one of"),
    ],
)
def test_wrong_headers_leave_no_folder(tmp_path, change, words):
    with pytest.raises(ValueError, match=words):
        SuiteWriter(tmp_path / "s", **(HEADER | change))
    assert not (tmp_path / "s").exists()


Z, Y = draw("val")


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        (("a/b", Z, Y), {}, "a split's name must be up to 100 letters"),
        (("..", Z, Y), {}, "a split's name must be"),
        (("", Z, Y), {}, "a split's name must be"),
        (("x" * 101, Z, Y), {}, "a split's name must be"),
        (("val\n", Z, Y), {}, "a split's name must be"),
        (("VAL", Z, Y), {}, "the split name 'val' occurs twice"),
        (("x", Z[0], Y), {}, "split x: logits must have shape"),
        (("x", Z[:, :2], Y), {}, "split x: logits must have 3 columns, got 2"),
        (
            ("x", Z + np.array([np.nan, 0, 0]), Y),
            {},
            "split x: logits must be finite, but row 0 is not",
        ),
        (("x", np.where(Z == Z[2, 1], -np.inf, Z), Y), {}, "finite, but row 2 is not"),
        (("x", np.full((9, 3), 1 / 3), np.zeros(9, int)), {}, "these are probabilities"),
        (("x", Z * 1e300, Y), {}, r"within ±3\.40282e\+38 to be stored as float32"),
        (("x", Z, Y[:2]), {}, "one label per row"),
        (("x", Z, Y + 2), {}, r"y must lie in \[-1, 2\]"),
        (("x", Z, Y - 1), {}, "y must be -1 in no row where shift is 'none', got"),
        (("x", Z, Y), {"shift": "semantic"}, "y must be -1 in every row where shift is 'semantic'"),
        (("x", Z, Y), {"role": "train"}, "split x: role must be one of 'tune', 'test'"),
        (("x", Z, Y), {"shift": "fog"}, "split x: shift must be one of"),
        (("x", Z, Y), {"corruption": "fog"}, "together or not at all, got 'fog' and None"),
        (("x", Z, Y), {"severity": 3}, "together or not at all, got None and 3"),
        (("x", Z, Y), {"corruption": "fog", "severity": 6}, "severity must be one of 1 to 5"),
        (("x", Z, Y), {"corruption": "fog", "severity": True}, "severity must be one of 1 to 5"),
        (("x", Z, Y), {"corruption": "a b", "severity": 1}, "corruption must be a name such as"),
        (("x", Z, Y), {"corruption": "fog", "severity": 1}, "shift must be 'covariate' where"),
    ],
)
def test_wrong_splits_change_nothing(tmp_path, arguments, options, words):
    extract(tmp_path)
    wanted = content(tmp_path)
    writer = SuiteWriter(tmp_path, **HEADER)
    with pytest.raises(ValueError, match=words):
        writer.add(*arguments, **({"role": "tune", "shift": "none"} | options))
    assert content(tmp_path) == wanted


@pytest.mark.parametrize(
    ("n_classes", "y", "dtype"),
    [
        (256, [255, 0], "uint8"),
        (300, [255, 0], "uint8"),
        (300, [256, 0], "uint16"),
        (70000, [65536, 0], "uint32"),
        (300, [-1, -1], "int8"),
    ],
)
def test_labels_take_the_smallest_type(tmp_path, n_classes, y, dtype):
    names = [str(k) for k in range(n_classes)]
    writer = SuiteWriter(tmp_path, **HEADER | {"n_classes": n_classes, "class_names": names})
    shift = "semantic" if y[0] < 0 else "none"
    writer.add("x", np.full((2, n_classes), 2.0), y, role="test", shift=shift)
    assert np.load(tmp_path / "x.labels.npy").dtype == dtype
    got = Suite.open(tmp_path, verify=True).split("x").y
    assert (got.dtype, got.tolist()) == (np.int64, y)


def test_a_suite_in_a_few_lines(tmp_path):
    writer = SuiteWriter(tmp_path, class_names=["a", "b", "c"])
    for name in ("val", "test"):
        writer.add(name, *draw(name), role="tune" if name == "val" else "test")
    writer.add("night", *draw("night"), shift="covariate")
    writer.add("fog-1", *draw("fog-1"), corruption="fog", severity=1)
    writer.add("flowers", draw("ood")[0])
    with pytest.raises(ValueError, match="split more: rows of the classes need labels; give y"):
        writer.add("more", draw("more")[0], shift="covariate")
    writer.finish()
    suite = Suite.open(tmp_path, verify=True)
    assert suite.complete
    assert (suite.network, suite.data, suite.seed) == ({}, {}, 0)
    assert suite.versions == {"wildcal": __version__}
    shifts = [(split.name, split.role, split.shift) for split in suite.splits]
    assert shifts == [
        ("val", "tune", "none"),
        ("test", "test", "none"),
        ("night", "test", "covariate"),
        ("fog-1", "test", "covariate"),
        ("flowers", "test", "semantic"),
    ]
    assert (suite.split("flowers").y == -1).all()


def test_classes_by_number_alone(tmp_path):
    writer = SuiteWriter(tmp_path, n_classes=3)
    writer.finish()
    assert list(Suite.open(tmp_path).class_names) == ["0", "1", "2"]
    with pytest.raises(ValueError, match="give n_classes, or class_names"):
        SuiteWriter(tmp_path / "other")


def test_keys_that_json_makes_texts_keep_the_seal(tmp_path):
    about = {"layers": {10: "stem", 9: "head"}}
    described = {"network": about, "data": {}, "seed": 0, "versions": {}}
    writer = SuiteWriter(tmp_path, **described, n_classes=2, class_names=["a", "b"])
    writer.add("val", np.eye(2), np.arange(2), role="tune", shift="none")
    writer.finish(["val"])
    assert Suite.open(tmp_path).network == {"layers": {"10": "stem", "9": "head"}}
