"""Neighbour distances in suites: written beside the logits, read by rank, packed, distrusted."""

import json
import zipfile

import numpy as np
import pytest

from wildcal.core.errors import FileFormatError
from wildcal.io.suite import Suite, SuiteWriter
from wildcal.io.suite.manifest import VERSION
from wildcal.io.suite.neighbours import rounded

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
    writer.describe(neighbours=ABOUT)
    for name in names:
        writer.add_densities(name, distances(name))
    writer.finish(list(ROWS))
    return folder


@pytest.fixture
def folder(tmp_path):
    return add_distances(write_logits(tmp_path / "suite"))


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def change(folder, edit):
    path = folder / "manifest.json"
    document = json.loads(path.read_text())
    edit(document)
    path.write_text(json.dumps(document))


def test_round_trip(folder, tmp_path):
    suite = Suite.open(folder, verify=True)
    assert suite.neighbours == ABOUT
    assert suite.layers == ("stem", "logits")
    Suite.open(folder).pack(tmp_path / "s.npz")
    for opened in (suite, Suite.open(tmp_path / "s.npz", verify=True)):
        for name in ROWS:
            split = opened.split(name)
            assert split.has_densities
            for rank, part in ((1, slice(2)), (50, slice(2, 4)), (None, slice(2, 4))):
                got = split.densities(rank)
                assert got.dtype == np.float32
                assert not got.flags.writeable
                np.testing.assert_array_equal(got, distances(name)[:, part])
    Suite.open(tmp_path / "s.npz").unpack(tmp_path / "again")
    assert content(tmp_path / "again") == content(folder)


def test_adding_them_touches_no_logits(tmp_path):
    folder = write_logits(tmp_path / "s")
    before, times = content(folder), {p.name: p.stat().st_mtime_ns for p in folder.glob("*.npy")}
    add_distances(folder)
    after = content(folder)
    assert set(after) - set(before) == {"val.densities.npy", "fog-1.densities.npy"}
    assert [name for name in before if before[name] != after[name]] == ["manifest.json"]
    assert times == {name: (folder / name).stat().st_mtime_ns for name in times}


def test_versions_of_the_format(tmp_path):
    """A suite that uses nothing of version 2 is written as version 1, which every reader opens."""
    folder = write_logits(tmp_path / "s")
    document = json.loads((folder / "manifest.json").read_text())
    assert document["version"] == 1
    assert not {"neighbours", "perturbation"} & set(document)
    assert all("densities" not in entry for entry in document["splits"])
    suite = Suite.open(folder)
    assert (suite.neighbours, suite.perturbation, suite.layers) == (None, None, ())
    assert not suite.split("val").has_densities
    add_distances(folder)
    assert json.loads((folder / "manifest.json").read_text())["version"] == VERSION == 2


def test_version_1_cannot_have_the_new_fields(folder):
    change(folder, lambda document: document.update(version=1))
    with pytest.raises(FileFormatError, match="the manifest has the unknown field 'neighbours'"):
        Suite.open(folder)


def test_a_suite_without_them_says_what_to_run(tmp_path):
    split = Suite.open(write_logits(tmp_path / "s")).split("val")
    with pytest.raises(FileFormatError) as error:
        split.densities()
    assert str(error.value) == (
        f"{tmp_path / 's'}: split val has no neighbour distances. Add them with `wildcal extract"
        " --features`, which computes only what is missing."
    )


def test_a_split_without_them(tmp_path):
    suite = Suite.open(add_distances(write_logits(tmp_path / "s"), ["val"]))
    assert suite.split("val").densities().shape == (6, 2)
    assert not suite.split("fog-1").has_densities
    with pytest.raises(ValueError, match="split fog-1 has no neighbour distances"):
        suite.split("fog-1").densities(1)


def test_another_rank(folder):
    split = Suite.open(folder).split("val")
    with pytest.raises(ValueError, match="to the neighbours 1, 50, not to 10;"):
        split.densities(10)


def test_perturbed_splits_are_for_nothing_else(tmp_path):
    writer = SuiteWriter(tmp_path, **HEADER)
    z, y = draw("val")
    writer.add("val", z, y, role="tune", shift="none")
    for level in (2, 1):
        words = {"shift": "covariate", "corruption": "perturbation", "severity": level}
        writer.add(f"noise-{level}", z, y, role="perturb", **words)
    writer.describe(perturbation={"levels": [0.1, 0.2]})
    writer.finish(writer.names)
    suite = Suite.open(tmp_path, verify=True)
    assert [s.name for s in suite.perturbed()] == ["noise-1", "noise-2"]
    assert [s.name for s in suite.tune()] == ["val"]
    assert suite.tests() == []
    assert suite.perturbation == {"levels": [0.1, 0.2]}
    with pytest.raises(ValueError, match="holds other perturbations .*choose another folder"):
        writer.describe(perturbation={"levels": [0.1, 0.3]})


def test_a_description_stays_while_it_describes_something(folder):
    writer = SuiteWriter(folder, **HEADER)
    before = content(folder)
    writer.describe(neighbours=ABOUT)
    assert content(folder) == before
    with pytest.raises(
        ValueError, match=r"other neighbour distances \(faiss: \"1.8\" there, \"9\""
    ):
        writer.describe(neighbours=ABOUT | {"faiss": "9"})
    assert content(folder) == before


def test_faiss_is_no_part_of_the_source(tmp_path):
    """A suite extracted before faiss was installed is still the same suite."""
    folder = add_distances(write_logits(tmp_path / "s"))
    assert Suite.open(folder).versions == {"numpy": "2.0"}
    assert SuiteWriter(folder, **HEADER).has_densities("val")


@pytest.mark.parametrize("damage", ["cut", "change", "remove"])
def test_damaged_distances_are_not_there(folder, damage):
    path = folder / "val.densities.npy"
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
        assert "val.densities.npy" in partial.damaged["the distances of val"]
        assert not partial.complete
        partial.split("val").verify()  # the logits are whole, and of use without distances
        assert not partial.split("val").has_densities
    else:
        changed = Suite.open(folder).split("val")
        changed.verify()
        with pytest.raises(FileFormatError, match="val.densities.npy, the distances of split val,"):
            changed.densities()
    writer = SuiteWriter(folder, **HEADER)
    assert writer.done("val")
    assert not writer.has_densities("val")
    assert writer.has_densities("fog-1")
    writer.add_densities("val", distances("val"))
    writer.finish(list(ROWS))
    assert (folder / "val.densities.npy").read_bytes() == raw
    Suite.open(folder, verify=True)


def test_new_logits_lose_their_distances(folder):
    writer = SuiteWriter(folder, **HEADER)
    z, y = draw("val")
    writer.add("val", z + 1, y, role="tune", shift="none")
    assert not writer.has_densities("val")
    assert not (folder / "val.densities.npy").exists()
    Suite.open(folder, verify=True)


def test_leftover_distances_are_removed(folder):
    (folder / "snow-1.densities.npy").write_bytes(b"of a killed run")
    (folder / ".val.densities.npy.abcd_123.npy").write_bytes(b"half")
    before = content(folder)
    SuiteWriter(folder, **HEADER)
    gone = set(before) - set(content(folder))
    assert gone == {"snow-1.densities.npy", ".val.densities.npy.abcd_123.npy"}


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros((6, 2)), r"split val: densities must be decimal numbers of shape \(6, 4\)"),
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
        writer.add_densities("val", array)
    assert content(folder) == before


def test_distances_need_logits_and_a_description(tmp_path):
    writer = SuiteWriter(write_logits(tmp_path / "s"), **HEADER)
    with pytest.raises(ValueError, match="must say which layers and ranks"):
        writer.add_densities("val", distances("val"))
    writer.describe(neighbours=ABOUT)
    with pytest.raises(ValueError, match="there is no split 'snow' yet"):
        writer.add_densities("snow", distances("val"))


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
def test_descriptions_from_strangers(folder, about, words):
    change(folder, lambda document: document["neighbours"].update(about))
    with pytest.raises(FileFormatError, match=words) as error:
        Suite.open(folder)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("densities", "../val.densities.npy", "plain name of a .npy file"),
        ("densities", "val.logits.npy", "the file name 'val.logits.npy' occurs twice"),
        ("densities", "missing.npy", "the file is not there"),
        ("densities", None, "densities need densities_dtype and densities_sha256"),
        ("densities_dtype", None, "densities need densities_dtype"),
        ("densities_dtype", "int8", "densities_dtype must be one of"),
        ("densities_dtype", "float64", "must hold <f8, got <f4"),
        ("densities_sha256", "x", "densities_sha256 must be 64 hexadecimal digits"),
    ],
)
def test_entries_from_strangers(folder, field, value, words):
    change(folder, lambda document: document["splits"][0].update({field: value}))
    with pytest.raises(FileFormatError, match=words) as error:
        Suite.open(folder)
    assert "\n" not in str(error.value)


def test_distances_without_a_description(folder):
    change(folder, lambda document: document.update(neighbours=None))
    with pytest.raises(FileFormatError, match="split val: densities need the field neighbours"):
        Suite.open(folder)


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
def test_values_from_strangers(folder, value):
    array = distances("val")
    array[3, 1] = value
    np.save(folder / "val.densities.npy", array)
    split = Suite.open(folder).split("val")
    with pytest.raises(FileFormatError, match="val.densities.npy of .*but row 3 is not"):
        split.densities(50)
    with pytest.raises(FileFormatError, match="row 3 is not"):
        Suite.open(folder, verify=True)


def test_packed_as_float16(folder, tmp_path):
    suite = Suite.open(folder)
    suite.pack(tmp_path / "a.npz", dtype="float16")
    packed = Suite.open(tmp_path / "a.npz", verify=True)
    assert packed.neighbours == ABOUT | {"significant_bits": 7}
    for name in ROWS:
        got, wanted = packed.split(name).densities(1), suite.split(name).densities(1)
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, wanted, rtol=0.008)
        assert (got != wanted).any()
    packed.pack(tmp_path / "b.npz", dtype="float16")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    packed.unpack(tmp_path / "u")
    Suite.open(tmp_path / "u", verify=True).pack(tmp_path / "c.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "c.npz").read_bytes()


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
    assert one.neighbours["ranks"] == [50]
    np.testing.assert_array_equal(one.split("val").densities(), suite.split("val").densities(50))
    with pytest.raises(ValueError, match="to the neighbours 50, not to 1;"):
        one.split("val").densities(1)
    suite.pack(tmp_path / "none.npz", ranks=[])
    none = Suite.open(tmp_path / "none.npz", verify=True)
    assert none.neighbours is None
    assert not none.split("val").has_densities
    with zipfile.ZipFile(tmp_path / "none.npz") as archive:
        assert "val.densities.npy" not in archive.namelist()
    with pytest.raises(ValueError, match="to the neighbours 1, 50, not to 7;"):
        suite.pack(tmp_path / "x.npz", ranks=[7])
    with pytest.raises(ValueError, match="has no neighbour distances"):
        none.pack(tmp_path / "x.npz", ranks=[50])
    assert not (tmp_path / "x.npz").exists()


def test_the_nearest_alone_does_not_pass_for_the_kth(folder, tmp_path):
    Suite.open(folder).pack(tmp_path / "first.npz", ranks=[1])
    first = Suite.open(tmp_path / "first.npz").split("val")
    assert first.densities(1).shape[1] == len(ABOUT["layers"])
    with pytest.raises(ValueError, match="to the neighbours 1, not to 50;"):
        first.densities()
    Suite.open(tmp_path / "first.npz").unpack(tmp_path / "again")
    with pytest.raises(ValueError, match="not to 50"):
        Suite.open(tmp_path / "again").split("val").densities()
