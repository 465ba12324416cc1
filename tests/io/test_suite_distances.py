"""Neighbor distances in suites: written beside the logits, read by rank, packed, distrusted."""

import json
import zipfile

import numpy as np
import pytest

from wildcal._old.core.errors import FileFormatError
from wildcal._old.io.sealed import digest
from wildcal._old.io.suite import Suite, SuiteWriter
from wildcal._old.io.suite.neighbors import rounded

HEADER = {
    "network": {"name": "tiny"},
    "data": {},
    "seed": 0,
    "versions": {"numpy": "2.0"},
    "n_classes": 3,
    "class_names": ["a", "b", "c"],
}
ABOUT = {
    "layers": [{"name": "stem", "width": 4}, {"name": "logits", "width": 3}],
    "ranks": [1, 50],
    "train_rows": 100,
    "search": "exact",
    "faiss": "1.8",
}
ROWS = {"val": 6, "fog-1": 5}


def draw(name):
    rng = np.random.default_rng(len(name))
    return rng.normal(size=(ROWS[name], 3)), rng.integers(0, 3, ROWS[name])


def distances(name):
    """Columns: stem 1, logits 1, stem 50, logits 50."""
    rng = np.random.default_rng(10 + len(name))
    near = rng.random((ROWS[name], 2), np.float32)
    return np.concatenate([near, near + 1], axis=1)


def write_logits(folder):
    writer = SuiteWriter(folder, **HEADER)
    writer.add("val", *draw("val"), role="tune", shift="none")
    fog = {"shift": "covariate", "corruption": "fog", "severity": 1}
    writer.add("fog-1", *draw("fog-1"), role="test", **fog)
    writer.finish(list(ROWS))
    return folder


def add_distances(folder, names=tuple(ROWS)):
    writer = SuiteWriter(folder, **HEADER)
    writer.describe(neighbors=ABOUT)
    for name in names:
        writer.add_distances(name, distances(name))
    writer.finish(list(ROWS))
    return folder


@pytest.fixture
def folder(tmp_path):
    return add_distances(write_logits(tmp_path / "suite"))


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def change(folder, edit):
    """Edit a manifest and seal it anew."""
    path = folder / "manifest.json"
    document = json.loads(path.read_text())
    del document["seal"]
    edit(document)
    document["seal"] = digest(document)
    path.write_text(json.dumps(document))


def test_round_trip(folder, tmp_path):
    suite = Suite.open(folder, verify=True)
    assert suite.neighbors == ABOUT
    assert suite.layers == ("stem", "logits")
    Suite.open(folder).pack(tmp_path / "s.npz")
    for opened in (suite, Suite.open(tmp_path / "s.npz", verify=True)):
        for name in ROWS:
            split = opened.split(name)
            assert split.has_distances
            for rank, part in ((1, slice(2)), (50, slice(2, 4)), (None, slice(2, 4))):
                got = split.distances(rank)
                assert got.dtype == np.float32
                assert not got.flags.writeable
                np.testing.assert_array_equal(got, distances(name)[:, part])


def test_adding_them_touches_no_logits(tmp_path):
    folder = write_logits(tmp_path / "s")
    before, times = content(folder), {p.name: p.stat().st_mtime_ns for p in folder.glob("*.npy")}
    add_distances(folder)
    after = content(folder)
    assert set(after) - set(before) == {"val.distances.npy", "fog-1.distances.npy"}
    assert [name for name in before if before[name] != after[name]] == ["manifest.json"]
    assert times == {name: (folder / name).stat().st_mtime_ns for name in times}


def test_a_suite_without_them_says_what_to_run(tmp_path):
    split = Suite.open(write_logits(tmp_path / "s")).split("val")
    with pytest.raises(FileFormatError) as error:
        split.distances()
    assert str(error.value) == (
        f"{tmp_path / 's'}: split val has no neighbor distances. Add them with an"
        " extraction with features, which computes only what is missing."
    )


def test_a_split_without_them(tmp_path):
    suite = Suite.open(add_distances(write_logits(tmp_path / "s"), ["val"]))
    assert suite.split("val").distances().shape == (6, 2)
    assert not suite.split("fog-1").has_distances
    with pytest.raises(ValueError, match="split fog-1 has no neighbor distances"):
        suite.split("fog-1").distances(1)


def test_another_rank(folder):
    split = Suite.open(folder).split("val")
    with pytest.raises(ValueError, match="to the neighbors 1, 50, not to 10;"):
        split.distances(10)


def test_a_description_stays_while_it_describes_something(folder):
    writer = SuiteWriter(folder, **HEADER)
    before = content(folder)
    writer.describe(neighbors=ABOUT)
    assert content(folder) == before
    with pytest.raises(ValueError, match=r"other neighbor distances \(faiss: \"1.8\" there, \"9\""):
        writer.describe(neighbors=ABOUT | {"faiss": "9"})
    assert content(folder) == before


def test_faiss_is_no_part_of_the_source(tmp_path):
    """A suite extracted before faiss was installed is still the same suite."""
    folder = add_distances(write_logits(tmp_path / "s"))
    assert Suite.open(folder).versions == {"numpy": "2.0"}
    assert SuiteWriter(folder, **HEADER).has_distances("val")


@pytest.mark.parametrize("damage", ["cut", "change", "remove"])
def test_damaged_distances_are_not_there(folder, damage):
    path = folder / "val.distances.npy"
    raw = path.read_bytes()
    path.unlink()
    if damage == "cut":
        path.write_bytes(raw[:-1])
    elif damage == "change":
        path.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
        Suite.open(folder)
    with pytest.raises(FileFormatError):
        Suite.open(folder, verify=True)
    if damage != "change":
        partial = Suite.open(folder, partial=True)
        assert list(partial.damaged) == ["the distances of val"]
        assert "val.distances.npy" in partial.damaged["the distances of val"]
        assert not partial.complete
        partial.split("val").verify()  # the logits are whole, and of use without distances
        assert not partial.split("val").has_distances
    else:
        changed = Suite.open(folder).split("val")
        changed.verify()
        with pytest.raises(FileFormatError, match="val.distances.npy, the distances of split val,"):
            changed.distances()
    writer = SuiteWriter(folder, **HEADER)
    assert writer.done("val")
    assert not writer.has_distances("val")
    assert writer.has_distances("fog-1")
    writer.add_distances("val", distances("val"))
    writer.finish(list(ROWS))
    assert (folder / "val.distances.npy").read_bytes() == raw
    Suite.open(folder, verify=True)


def test_new_logits_lose_their_distances(folder):
    writer = SuiteWriter(folder, **HEADER)
    z, y = draw("val")
    writer.add("val", z + 1, y, role="tune", shift="none")
    assert not writer.has_distances("val")
    assert not (folder / "val.distances.npy").exists()
    Suite.open(folder, verify=True)


def test_leftover_distances_are_removed(folder):
    (folder / "snow-1.distances.npy").write_bytes(b"of a killed run")
    (folder / ".val.distances.npy.abcd_123.npy").write_bytes(b"half")
    before = content(folder)
    SuiteWriter(folder, **HEADER)
    gone = set(before) - set(content(folder))
    assert gone == {"snow-1.distances.npy", ".val.distances.npy.abcd_123.npy"}


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros((6, 2)), r"split val: distances must be decimal numbers of shape \(6, 4\)"),
        (np.zeros((5, 4)), r"of shape \(6, 4\), a column for each layer and rank"),
        (np.zeros((6, 4), int), "must be decimal numbers"),
        (np.full((6, 4), np.nan), "finite and at least 0, but row 0 is not"),
        (np.array([[0.0] * 4] * 5 + [[0, 0, -1e-9, 0]]), "at least 0, but row 5 is not"),
        (np.full((6, 4), 1e39), "must lie below .* to be stored as float32, got 1e"),
    ],
)
def test_wrong_distances_change_nothing(folder, array, words):
    before = content(folder)
    writer = SuiteWriter(folder, **HEADER)
    with pytest.raises(ValueError, match=words):
        writer.add_distances("val", array)
    assert content(folder) == before


def test_distances_need_logits_and_a_description(tmp_path):
    writer = SuiteWriter(write_logits(tmp_path / "s"), **HEADER)
    with pytest.raises(ValueError, match="must say which layers and ranks"):
        writer.add_distances("val", distances("val"))
    writer.describe(neighbors=ABOUT)
    with pytest.raises(ValueError, match="there is no split 'snow' yet"):
        writer.add_distances("snow", distances("val"))


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({"layers": []}, "must have a list of layers"),
        ({"layers": "stem"}, "must have a list of layers"),
        ({"layers": [{"name": "stem"}]}, "must have a name and a width"),
        ({"layers": [{"name": 1, "width": 2}]}, "must have a name and a width"),
        ({"layers": [{"name": "x", "width": 0}]}, "must have a name and a width"),
        ({"layers": [{"name": "x", "width": 1}] * 2}, "different names"),
        ({"ranks": []}, "rising whole numbers from 1"),
        ({"ranks": [50, 1]}, "rising whole numbers"),
        ({"ranks": [0, 1]}, "rising whole numbers"),
        ({"ranks": [1, True]}, "rising whole numbers"),
        ({"ranks": None}, "rising whole numbers"),
        ({"ranks": [1]}, r"must have shape \(6, 2\), got \(6, 4\)"),
    ],
)
def test_descriptions_from_outside(folder, about, words):
    change(folder, lambda document: document["neighbors"].update(about))
    with pytest.raises(FileFormatError, match=words) as error:
        Suite.open(folder)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("distances", "../val.distances.npy", "plain name of a .npy file"),
        ("distances", "val.logits.npy", "the file name 'val.logits.npy' occurs twice"),
        ("distances", "missing.npy", "the file is not there"),
        ("distances", None, "distances need distances_dtype and distances_sha256"),
        ("distances_dtype", None, "distances need distances_dtype"),
        ("distances_dtype", "int8", "distances_dtype must be one of"),
        ("distances_dtype", "float64", "must hold <f8, got <f4"),
        ("distances_sha256", "x", "distances_sha256 must be 64 hexadecimal digits"),
    ],
)
def test_entries_from_outside(folder, field, value, words):
    change(folder, lambda document: document["splits"][0].update({field: value}))
    with pytest.raises(FileFormatError, match=words) as error:
        Suite.open(folder)
    assert "\n" not in str(error.value)


def test_distances_without_a_description(folder):
    change(folder, lambda document: document.update(neighbors=None))
    with pytest.raises(FileFormatError, match="split val: distances need the field neighbors"):
        Suite.open(folder)


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
def test_values_from_outside(folder, value):
    array = distances("val")
    array[3, 1] = value
    np.save(folder / "val.distances.npy", array)
    split = Suite.open(folder).split("val")
    with pytest.raises(FileFormatError, match="val.distances.npy of .*but row 3 is not"):
        split.distances(50)
    with pytest.raises(FileFormatError, match="row 3 is not"):
        Suite.open(folder, verify=True)


def test_packed_as_float16(folder, tmp_path):
    suite = Suite.open(folder)
    suite.pack(tmp_path / "a.npz", dtype="float16")
    packed = Suite.open(tmp_path / "a.npz", verify=True)
    assert packed.neighbors == ABOUT | {"significant_bits": 7}
    for name in ROWS:
        got, wanted = packed.split(name).distances(1), suite.split(name).distances(1)
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, wanted, rtol=0.008)
        assert (got != wanted).any()
    packed.pack(tmp_path / "b.npz", dtype="float16")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_rounding():
    x = np.random.default_rng(0).uniform(2.0**-16, 4, 10_000)
    once = rounded(x)
    assert np.abs(once / x - 1).max() < 2.0**-7 * 1.01
    np.testing.assert_array_equal(once.astype(np.float16), once)
    np.testing.assert_array_equal(rounded(once), once)
    assert len(np.unique(rounded(np.linspace(1, 2, 10_000, endpoint=False)))) == 65
    assert rounded(np.zeros(1)) == 0


def test_packed_with_some_ranks(folder, tmp_path):
    suite = Suite.open(folder)
    suite.pack(tmp_path / "one.npz", ranks=[50])
    one = Suite.open(tmp_path / "one.npz", verify=True)
    assert one.neighbors["ranks"] == [50]
    np.testing.assert_array_equal(one.split("val").distances(), suite.split("val").distances(50))
    with pytest.raises(ValueError, match="to the neighbors 50, not to 1;"):
        one.split("val").distances(1)
    suite.pack(tmp_path / "none.npz", ranks=[])
    none = Suite.open(tmp_path / "none.npz", verify=True)
    assert none.neighbors is None
    assert not none.split("val").has_distances
    with zipfile.ZipFile(tmp_path / "none.npz") as archive:
        assert "val.distances.npy" not in archive.namelist()
    with pytest.raises(ValueError, match="to the neighbors 1, 50, not to 7;"):
        suite.pack(tmp_path / "x.npz", ranks=[7])
    with pytest.raises(ValueError, match="has no neighbor distances"):
        none.pack(tmp_path / "x.npz", ranks=[50])
    assert not (tmp_path / "x.npz").exists()


def test_the_nearest_alone_does_not_pass_for_the_kth(folder, tmp_path):
    Suite.open(folder).pack(tmp_path / "first.npz", ranks=[1])
    first = Suite.open(tmp_path / "first.npz").split("val")
    assert first.distances(1).shape[1] == len(ABOUT["layers"])
    with pytest.raises(ValueError, match="to the neighbors 1, not to 50;"):
        first.distances()
