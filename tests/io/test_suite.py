"""Suites: what is written comes back, from a folder and from one file, and can be asked for."""

import io
import json
import math
import pickle
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from wildcal._old.core.errors import FileFormatError
from wildcal._old.io.suite import Suite, SuiteWriter
from wildcal._old.io.suite import files as suite_files
from wildcal._old.io.suite.arrays import (
    coarse_logits,
    content_hash,
    npy_header,
    read_header,
    stored_logits,
)
from wildcal._old.io.suite.summary import grouped, summarize

HEADER = {
    "network": {"name": "tiny", "n_parameters": 12, "widths": (4, 8)},
    "data": {"name": "drawn"},
    "seed": 3,
    "versions": {"numpy": "2.0"},
    "n_classes": 4,
    "class_names": ["cat", "dög", "eel", "fox"],
}


def draw(seed, rows=6):
    rng = np.random.default_rng(seed)
    return 3 * rng.normal(size=(rows, 4)), rng.integers(0, 4, rows)


def add_all(writer):
    """Two clean splits, two corruptions at two severities for each role, and others."""
    writer.add("val", *draw(0), role="tune", shift="none")
    writer.add("test", *draw(1, 5), role="test", shift="none")
    seed = 2
    for role, names in (("tune", ("speckle",)), ("test", ("fog", "snow"))):
        for corruption in names:
            for severity in (1, 5):
                shifted = {"shift": "covariate", "corruption": corruption, "severity": severity}
                name = f"{corruption}-{severity}"
                writer.add(name, *draw(seed, 4 + seed), role=role, **shifted)
                seed += 1
    writer.add("svhn", draw(20)[0], np.full(6, -1), role="test", shift="semantic")
    writer.add("v2", *draw(21), role="test", shift="covariate")
    writer.finish(writer.names)


def write(folder, **options):
    add_all(SuiteWriter(folder, **(HEADER | options)))
    return folder


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "suite")


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_folder_round_trip(folder):
    suite = Suite.open(folder, verify=True)
    assert repr(suite) == f"Suite({str(folder)!r}, 10 splits)"
    assert suite.network == {"name": "tiny", "n_parameters": 12, "widths": [4, 8]}
    assert (suite.data, suite.seed, suite.versions) == ({"name": "drawn"}, 3, {"numpy": "2.0"})
    assert (suite.n_classes, suite.class_names) == (4, ("cat", "dög", "eel", "fox"))
    assert suite.path == folder
    assert suite.complete
    val = suite.split("val")
    z, y = draw(0)
    assert isinstance(val.logits, np.memmap)
    assert val.logits.dtype == np.float32
    np.testing.assert_array_equal(val.logits, z.astype(np.float32))
    assert val.y.dtype == np.int64
    np.testing.assert_array_equal(val.y, y)
    assert (val.name, val.role, val.shift, val.rows) == ("val", "tune", "none", 6)
    assert (val.corruption, val.severity, val.dtype) == (None, None, "float32")
    np.testing.assert_array_equal(suite.split("svhn").y, -1)


def test_other_programs_can_read_it(folder, tmp_path):
    np.testing.assert_array_equal(np.load(folder / "val.labels.npy"), draw(0)[1])
    assert np.load(folder / "val.labels.npy").dtype == np.uint8
    assert np.load(folder / "svhn.labels.npy").dtype == np.int8
    assert json.loads((folder / "manifest.json").read_text("utf-8"))["format"] == "wildcal-suite"
    Suite.open(folder).pack(tmp_path / "s.npz")
    with np.load(tmp_path / "s.npz") as packed:
        np.testing.assert_array_equal(packed["val.logits"], np.load(folder / "val.logits.npy"))
        assert json.loads(packed["manifest.json"])["seed"] == 3


def test_arrays_saved_by_numpy_are_read(folder):
    for name in ("val.logits.npy", "val.labels.npy"):
        np.save(folder / name, np.load(folder / name))
    Suite.open(folder, verify=True)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_packed_round_trip(tmp_path, dtype):
    folder = write(tmp_path / "suite", dtype=dtype)
    suite = Suite.open(folder)
    suite.pack(tmp_path / "s.npz")
    packed = Suite.open(tmp_path / "s.npz", verify=True)
    assert packed.splits == suite.splits
    for split in packed.splits:
        mine = suite.split(split.name)
        assert split.logits.dtype == (np.float64 if dtype == "float64" else np.float32)
        np.testing.assert_array_equal(split.logits, mine.logits)
        np.testing.assert_array_equal(split.y, mine.y)


def test_packing_depends_on_the_content_alone(folder, tmp_path):
    suite = Suite.open(folder)
    suite.pack(tmp_path / "a.npz")
    (folder / "val.logits.npy").touch()
    suite.pack(tmp_path / "b.npz")
    Suite.open(tmp_path / "a.npz").pack(tmp_path / "c.npz")
    first = (tmp_path / "a.npz").read_bytes()
    assert (tmp_path / "b.npz").read_bytes() == first
    assert (tmp_path / "c.npz").read_bytes() == first
    with zipfile.ZipFile(tmp_path / "a.npz") as archive:
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_packing_in_half_precision(folder, tmp_path):
    suite = Suite.open(folder)
    suite.pack(tmp_path / "s.npz", dtype="float16")
    packed = Suite.open(tmp_path / "s.npz", verify=True)
    for mine, split in zip(suite.splits, packed.splits, strict=True):
        assert split.dtype == "float16"
        assert split.sha256 != mine.sha256
        assert split.logits.dtype == np.float32
        np.testing.assert_array_equal(split.logits, mine.logits.astype(np.float16))


def test_half_precision_has_an_end(tmp_path):
    writer = SuiteWriter(tmp_path / "s", **HEADER)
    writer.add("val", [[7e4, 0, 0, 0]], [0], role="tune", shift="none")
    text = (
        "split val: logits must lie within ±65504 to be stored as float16, got 70000."
        " Try a wider dtype."
    )
    with pytest.raises(ValueError, match="split val") as error:
        Suite.open(tmp_path / "s").pack(tmp_path / "s.npz", dtype="float16")
    assert str(error.value) == text
    assert not (tmp_path / "s.npz").exists()
    half = SuiteWriter(tmp_path / "half", **HEADER, dtype="float16")
    with pytest.raises(ValueError, match="within ±65504"):
        half.add("val", [[0, 0, 0, -7e4]], [0], role="tune", shift="none")


@pytest.mark.parametrize("dtype", [None, "float16"])
def test_packing_with_a_step(tmp_path, dtype):
    """Class 1 wins by less than a step and still wins; what is rounded is a multiple of it."""
    z = np.array([[3.99, 4.01, 0.3, -0.3], [5.03, 5.01, 0.1, -70.06]], np.float32)
    writer = SuiteWriter(tmp_path / "s", **HEADER)
    writer.add("val", z, [1, 0], role="tune", shift="none")
    writer.finish(["val"])
    Suite.open(tmp_path / "s").pack(tmp_path / "s.npz", step=0.125, dtype=dtype)
    packed = Suite.open(tmp_path / "s.npz", verify=True)
    expected = np.array([[4, 4, 0.25, -0.25], [5, 5, 0.125, -70]], dtype or "float32")
    expected[0, 0] = np.nextafter(expected[0, 0], expected.dtype.type(0))
    np.testing.assert_array_equal(packed.split("val").logits, expected)
    assert packed.data["logits_step"] == 0.125
    assert "logits_step" not in Suite.open(tmp_path / "s").data


@pytest.mark.parametrize("step", [0.0, -0.125, 0.1, 2.0, math.nan, math.inf])
def test_a_step_is_a_power_of_two(folder, tmp_path, step):
    with pytest.raises(ValueError, match="step must be a power of two of at most 1, such as 0.125"):
        Suite.open(folder).pack(tmp_path / "s.npz", step=step)
    assert not (tmp_path / "s.npz").exists()


@given(seed=st.integers(0, 1000), step=st.sampled_from([1.0, 0.25, 0.125]))
def test_a_step_keeps_every_winner(seed, step):
    z = np.random.default_rng(seed).normal(size=(50, 40)).astype(np.float32)
    coarse = coarse_logits(z, step)
    assert coarse.dtype == z.dtype
    np.testing.assert_array_equal(coarse.argmax(axis=1), z.argmax(axis=1))
    assert np.abs(coarse - z).max() <= step / 2 + 1e-6


def test_packing_needs_a_proper_name_and_sound_content(folder, tmp_path):
    suite = Suite.open(folder)
    with pytest.raises(ValueError, match="must end in .npz"):
        suite.pack(tmp_path / "s.zip")
    with pytest.raises(ValueError, match="dtype must be one of"):
        suite.pack(tmp_path / "s.npz", dtype="int8")
    np.save(folder / "val.logits.npy", np.zeros((6, 4), np.float32))
    with pytest.raises(FileFormatError, match="split val was changed"):
        suite.pack(tmp_path / "s.npz")
    assert [p.name for p in tmp_path.iterdir()] == ["suite"]


def test_an_unfinished_suite_says_so_and_packs_as_such(tmp_path):
    writer = SuiteWriter(tmp_path / "s", **HEADER)
    empty = Suite.open(tmp_path / "s")
    assert empty.splits == ()
    assert not empty.complete
    assert repr(empty).endswith("0 splits, unfinished)")
    writer.add("val", *draw(0), role="tune", shift="none")
    Suite.open(tmp_path / "s").pack(tmp_path / "s.npz")
    packed = Suite.open(tmp_path / "s.npz")
    assert not packed.complete
    with pytest.raises(ValueError, match="Near names: val"):
        packed.split("test")


def test_selecting(folder):
    suite = Suite.open(folder)

    def names(splits):
        return [split.name for split in splits]

    assert names(suite.tune()) == ["val", "speckle-1", "speckle-5"]
    assert names(suite.tune("none")) == ["val"]
    assert names(suite.tests("covariate")) == ["fog-1", "fog-5", "snow-1", "snow-5", "v2"]
    assert names(suite.tests(severity=5)) == ["fog-5", "snow-5"]
    assert names(suite.tests(shift="covariate", corruption="fog")) == ["fog-1", "fog-5"]
    assert names(suite.tests("semantic")) == ["svhn"]
    assert suite.tests(corruption="frost") == []
    with pytest.raises(ValueError, match="shift must be one of"):
        suite.tests("clean")
    with pytest.raises(ValueError, match=r"has no split 'fog-3'\. Near names: fog-5, fog-1"):
        suite.split("fog-3")


def test_what_was_read_is_kept_within_limits(folder, tmp_path, monkeypatch):
    Suite.open(folder).pack(tmp_path / "s.npz")
    suite = Suite.open(tmp_path / "s.npz")
    assert suite.split("val").logits is suite.split("val").logits
    assert suite.split("val").y is suite.split("val").y
    for array in (suite.split("val").logits, suite.split("val").y, Suite.open(folder).splits[0].y):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    monkeypatch.setattr(suite_files, "KEPT_BYTES", 100)
    suite = Suite.open(tmp_path / "s.npz")
    assert suite.split("val").logits is suite.split("val").logits  # 96 bytes
    assert suite.split("test").logits is not suite.split("test").logits


def test_half_precision_from_a_folder_is_converted_once(tmp_path):
    suite = Suite.open(write(tmp_path / "s", dtype="float16"))
    assert suite.split("val").logits is suite.split("val").logits


def test_a_suite_can_be_handed_to_another_process(folder, tmp_path):
    Suite.open(folder).pack(tmp_path / "s.npz")
    for path in (folder, tmp_path / "s.npz"):
        pickle.loads(pickle.dumps(Suite.open(path))).verify()


def test_verify_tells_its_progress(folder):
    seen = []
    suite = Suite.open(folder)
    suite.verify(seen.append)
    assert seen == [split.rows for split in suite.splits]


def test_the_hash_is_the_one_that_is_documented(folder):
    import hashlib

    z, y = draw(0)
    content = b"logits float32 6 4\n" + z.astype("<f4").tobytes()
    content += b"labels 6\n" + y.astype("<i8").tobytes()
    assert Suite.open(folder).split("val").sha256 == hashlib.sha256(content).hexdigest()


def test_groups(folder):
    """Pooled numbers are those of all rows together."""
    suite = Suite.open(folder)
    groups = grouped(summarize(suite))
    assert [(g.name, g.role, g.cells) for g in groups] == [
        ("clean", "tune", 1),
        ("clean", "test", 1),
        ("severity 1", "test", 2),
        ("severity 5", "test", 2),
        ("severity 1", "tune", 1),
        ("severity 5", "tune", 1),
        ("svhn", "test", 1),
        ("v2", "test", 1),
    ]
    together = suite.tests(severity=5)
    z = np.vstack([split.logits for split in together]).astype(np.float64)
    y = np.concatenate([split.y for split in together])
    total = np.exp(z).sum(axis=1)
    assert groups[3].rows == len(y)
    assert groups[3].accuracy == pytest.approx((z.argmax(axis=1) == y).mean())
    assert groups[3].mean_confidence == pytest.approx((np.exp(z.max(axis=1)) / total).mean())
    assert groups[3].mean_energy == pytest.approx(-np.log(total).mean())
    assert groups[6].accuracy is None


@given(
    logits=st.integers(1, 9).flatmap(
        lambda rows: arrays(np.float32, (rows, 3), elements=st.floats(-1e4, 1e4, width=32))
    ),
    seed=st.integers(0, 99),
)
def test_any_logits_come_back(tmp_path_factory, logits, seed):
    # A whole matrix that looks like probabilities is refused, so one row never does.
    logits[0, 0] = 2
    folder = tmp_path_factory.mktemp("any")
    y = np.random.default_rng(seed).integers(0, 3, len(logits))
    writer = SuiteWriter(
        folder / "s",
        **HEADER | {"n_classes": 3, "class_names": ["a", "b", "c"]},
    )
    writer.add("x", logits, y, role="tune", shift="none")
    Suite.open(folder / "s").pack(folder / "s.npz")
    for path in (folder / "s", folder / "s.npz"):
        split = Suite.open(path, verify=True).split("x")
        assert split.logits.tobytes() == logits.tobytes()
        np.testing.assert_array_equal(split.y, y)


@given(
    array=st.sampled_from([np.float16, np.float32, np.float64, np.uint8, np.int16]).flatmap(
        lambda dtype: arrays(dtype, st.sampled_from([(1,), (7,), (123456,), (3, 2), (1, 1000)]))
    )
)
def test_headers_are_those_of_numpy(array):
    file = io.BytesIO(npy_header(array) + array.tobytes())
    assert np.load(file).tobytes() == array.tobytes()
    assert len(npy_header(array)) % 64 == 0
    file.seek(0)
    header = read_header(file)
    assert (np.dtype(header.descr), header.shape) == (array.dtype, array.shape)
    assert header.size == len(file.getvalue())


def test_the_hash_does_not_depend_on_the_layout():
    z, y = draw(0)
    assert content_hash(np.asfortranarray(z), y.astype(np.uint8)) == content_hash(z, y)
    assert content_hash(z.astype(">f8"), y) == content_hash(z, y)


def test_float16_keeps_the_winner(tmp_path):
    """2049 rounds to 2048, which class 0 has already; class 1 is to win all the same."""
    z = np.array([[2048, 2049, 0, 0], [2049, 2048, 0, 0], [1, 1.0001, 1.00005, 0]], np.float32)
    assert (z.astype(np.float16).argmax(axis=1) != z.argmax(axis=1)).tolist() == [True, False, True]
    writer = SuiteWriter(tmp_path / "s", **HEADER)
    writer.add("val", z, [0, 1, 2], role="tune", shift="none")
    writer.finish(["val"])
    Suite.open(tmp_path / "s").pack(tmp_path / "s.npz", dtype="float16")
    packed = Suite.open(tmp_path / "s.npz", verify=True).split("val").logits
    np.testing.assert_array_equal(packed[0], np.array([2047, 2048, 0, 0], np.float16))
    np.testing.assert_array_equal(packed.argmax(axis=1), z.argmax(axis=1))


@given(seed=st.integers(0, 1000), scale=st.sampled_from([1e-3, 1.0, 1e3]))
def test_float16_keeps_every_winner(seed, scale):
    z = (np.random.default_rng(seed).normal(size=(50, 40)) * scale).astype(np.float32)
    z += np.float32(10 * scale)  # numbers that lie close together, relative to their size
    stored = stored_logits(z, 40, "float16")
    np.testing.assert_array_equal(stored.argmax(axis=1), z.argmax(axis=1))
    step = np.spacing(np.abs(z).astype(np.float16)).astype(np.float64)
    assert (np.abs(stored.astype(np.float64) - z) <= 1.5 * step).all()
