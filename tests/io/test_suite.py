"""Suites are written split by split, survive a killed writer, and damage is found."""

import json
import pickle
import zipfile

import numpy as np
import pytest

from wildcal import Suite, SuiteWriter
from wildcal.core.exceptions import FileFormatError, InputError

RNG = np.random.default_rng(0)
Z = RNG.normal(0, 3, (50, 4)).astype(np.float32)
Y = np.arange(50) % 4
KNN = {"layers": [{"name": "a", "n_features": 3}, {"name": "b", "n_features": 2}]}
NAMES = ["ant", "bee", "cat", "dog"]


def writer_of(folder, **options):
    given = {"class_names": NAMES, "model": {"name": "m"}, "data": {"name": "d"}, "knn": KNN}
    return SuiteWriter(folder, **{**given, **options})


def fill(writer):
    writer.add("validation", Z, Y, role="calibration", knn_distances=np.ones((50, 2)))
    writer.add("test", Z + 1, Y)
    writer.add("fog-3", Z + 2, Y, corruption="fog", severity=3)
    writer.add("night", Z + 3, Y, domain="night")
    writer.add("dice", Z + 4)


@pytest.fixture
def folder(tmp_path):
    writer = writer_of(tmp_path / "suite")
    fill(writer)
    writer.finish()
    return tmp_path / "suite"


def test_a_suite_has_what_was_written(folder):
    suite = Suite.open(folder)
    suite.verify()
    assert suite.complete
    assert suite.class_names == tuple(NAMES)
    assert [s.name for s in suite.calibration] == ["validation"]
    assert [s.name for s in suite.test] == ["test", "fog-3", "night", "dice"]
    assert [s.domain for s in suite.test] == ["source", "fog-3", "night", None]
    assert [s.is_ood for s in suite.test] == [False, False, False, True]
    split = suite.split("night")
    np.testing.assert_array_equal(split.logits, Z + 3)
    np.testing.assert_array_equal(split.y, Y)
    assert split.knn_distances is None
    assert suite.split("validation").knn_distances.shape == (50, 2)
    assert (suite.split("dice").y == -1).all()
    assert isinstance(split.logits, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        split.logits[0] = 0


def test_one_file_has_the_same_bytes_each_time(folder, tmp_path):
    suite = Suite.open(folder)
    for name in ("a.npz", "b.npz"):
        suite.pack(tmp_path / name)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    packed = Suite.open(tmp_path / "a.npz")
    packed.verify()
    for split in suite.splits:
        np.testing.assert_array_equal(packed.split(split.name).logits, split.logits)
    with np.load(tmp_path / "a.npz") as arrays:
        assert arrays["night/logits"].shape == (50, 4)
    again = pickle.loads(pickle.dumps(packed))
    np.testing.assert_array_equal(again.split("test").logits, Z + 1)


@pytest.mark.parametrize(("dtype", "step"), [("float16", None), (None, 0.5), ("float16", 0.25)])
def test_rounding_keeps_every_predicted_class(folder, tmp_path, dtype, step):
    writer = writer_of(tmp_path / "close")
    close = np.repeat(RNG.normal(0, 3, (50, 1)), 4, axis=1) + RNG.normal(0, 1e-4, (50, 4))
    writer.add("test", close, Y)
    writer.finish()
    Suite.open(tmp_path / "close").pack(tmp_path / "close.npz", dtype=dtype, step=step)
    found = Suite.open(tmp_path / "close.npz")
    found.verify()
    logits = found.split("test").logits
    np.testing.assert_array_equal(logits.argmax(axis=1), close.astype("f4").argmax(axis=1))
    assert np.abs(logits - close).max() < (0.01 if step is None else step)
    assert found.data.get("logits_step") == step


def test_a_second_run_continues(tmp_path):
    first = writer_of(tmp_path / "suite")
    first.add("validation", Z, Y, role="calibration")
    assert not Suite.open(tmp_path / "suite").complete
    (tmp_path / "suite" / "validation" / ".logits.npy.abc.tmp").write_bytes(b"half")
    second = writer_of(tmp_path / "suite")
    assert second.names == ("validation",)
    assert second.done("validation", n_samples=50)
    assert not second.done("validation", n_samples=51)
    assert not second.done("test")
    assert not list(tmp_path.rglob("*.tmp"))
    fill(second)
    second.finish(["test", "validation", "fog-3", "night", "dice"])
    whole = writer_of(tmp_path / "whole")
    fill(whole)
    whole.finish(["test", "validation", "fog-3", "night", "dice"])
    for path in (tmp_path / "whole").rglob("*.*"):
        other = tmp_path / "suite" / path.relative_to(tmp_path / "whole")
        assert path.read_bytes() == other.read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"class_names": ["a", "b", "c", "d"]}, "class_names must be that of the suite"),
        ({"model": {"name": "other"}}, "model must be that of the suite in .*'m' there, 'other'"),
        ({"seed": 1}, "seed must be that of the suite"),
        ({"dtype": "int8"}, "dtype must be one of 'float16', 'float32', 'float64'"),
        ({"model": {"when": object()}}, "plain JSON values"),
    ],
)
def test_another_source_is_refused(folder, options, message):
    with pytest.raises(InputError, match=message):
        writer_of(folder, **options)


@pytest.mark.parametrize(
    ("name", "logits", "y", "options", "message"),
    [
        ("../x", Z, Y, {}, "name must be letters, digits"),
        ("x", Z[:, :3], Y, {}, "shape"),
        ("x", Z, Y[1:], {}, "y must have shape"),
        ("x", Z, Y - 1, {}, "all samples of a split or for none"),
        ("x", Z, Y + 1, {}, "y must lie in"),
        ("x", Z, Y, {"role": "tune"}, "role must be"),
        ("x", Z, Y, {"severity": 3}, "given together"),
        (
            "x",
            Z,
            Y,
            {"corruption": "fog", "severity": 6},
            r"severity must be an integer in \[1, 5\]",
        ),
        ("x", Z, Y, {"knn_distances": np.ones((50, 3))}, "knn_distances must have shape"),
        ("x", np.where(Z > 5, np.nan, Z), Y, {}, "finite"),
    ],
)
def test_wrong_splits_are_refused(tmp_path, name, logits, y, options, message):
    writer = writer_of(tmp_path / "suite")
    with pytest.raises(InputError, match=message):
        writer.add(name, logits, y, **options)
    assert Suite.open(tmp_path / "suite").splits == ()


def change(path, edit):
    document = json.loads(path.read_text())
    edit(document)
    path.write_text(json.dumps(document))


@pytest.mark.parametrize(
    "edit",
    [
        lambda d: d.update(format_version=4),
        lambda d: d.pop("model"),
        lambda d: d.update(colour="red"),
        lambda d: d["splits"][0].pop("sha256"),
        lambda d: d["splits"][0].update(name="../../etc"),
        lambda d: d["splits"][0].update(arrays={"logits": "object", "y": "int64"}),
        lambda d: d["splits"].append(d["splits"][0]),
        lambda d: d.update(splits=3),
    ],
)
def test_a_changed_manifest_is_refused(folder, edit):
    change(folder / "manifest.json", edit)
    with pytest.raises(FileFormatError):
        Suite.open(folder)


def test_damage_is_found(folder, tmp_path):
    path = folder / "test" / "logits.npy"
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    suite = Suite.open(folder)
    with pytest.raises(FileFormatError, match="split test is damaged"):
        suite.verify()
    path.write_bytes(content[:-10])
    with pytest.raises(FileFormatError, match="test/logits.npy cannot be read: mmap length"):
        _ = Suite.open(folder).split("test").logits
    path.unlink()
    with pytest.raises(FileFormatError, match="test/logits.npy cannot be read"):
        _ = Suite.open(folder).split("test").logits
    change(folder / "manifest.json", lambda d: d["splits"][2].update(n_samples=10**12))
    with pytest.raises(FileFormatError, match="fog-3/logits.npy cannot be read: it must be"):
        _ = Suite.open(folder).split("fog-3").logits


@pytest.mark.parametrize("content", [b"", b"text", None])
def test_what_is_no_suite(tmp_path, content):
    path = tmp_path / "x.npz"
    if content is None:
        np.savez(path, logits=Z)
    else:
        path.write_bytes(content)
    for each in (path, tmp_path, tmp_path / "gone"):
        with pytest.raises(FileFormatError):
            Suite.open(each)


def test_a_cut_archive(folder, tmp_path):
    Suite.open(folder).pack(tmp_path / "x.npz")
    content = (tmp_path / "x.npz").read_bytes()
    (tmp_path / "x.npz").write_bytes(content[: len(content) // 2])
    with pytest.raises(FileFormatError):
        Suite.open(tmp_path / "x.npz")
    assert not zipfile.is_zipfile(tmp_path / "x.npz")


def test_an_unknown_split_names_near_ones(folder):
    with pytest.raises(InputError, match="got 'fog-4'. Try fog-3"):
        Suite.open(folder).split("fog-4")
