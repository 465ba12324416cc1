"""Format version 5, that of the shipped suites, read with the reader of version 4."""

import json
import zipfile

import numpy as np
import pytest

from wildcal._old import suites
from wildcal._old.core.errors import FileFormatError
from wildcal._old.io.suite import Suite
from wildcal._old.io.suite.version_5 import split_hash

KNN = {
    "n_neighbors": 50,
    "layers": [{"name": "stem", "n_features": 16}, {"name": "logits", "n_features": 3}],
    "metric": "squared Euclidean distance of L2-normalized features",
    "index": "exact",
    "n_train": 900,
    "train": {"name": "tiny-train"},
    "significant_bits": 7,
}
SPLITS = {
    "calibration": ("calibration", "source", None, None),
    "fog-3": ("test", "fog-3", "fog", 3),
    "night": ("test", "night", None, None),
    "svhn-calibration": ("calibration", None, None, None),
}


def arrays_of(seed, domain):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(20, 3)).astype(np.float16)
    y = np.full(20, -1) if domain is None else rng.integers(3, size=20)
    return {"logits": z, "y": y, "knn_distances": rng.random((20, 2)).astype(np.float16)}


@pytest.fixture
def content():
    """The arrays and the manifest of a small suite."""
    arrays, splits = {}, []
    for seed, (name, (role, domain, corruption, severity)) in enumerate(SPLITS.items()):
        mine = arrays_of(seed, domain)
        arrays |= {f"{name}/{key}": array for key, array in mine.items()}
        splits.append(
            {
                "name": name,
                "role": role,
                "domain": domain,
                "corruption": corruption,
                "severity": severity,
                "n_samples": 20,
                "arrays": {key: array.dtype.name for key, array in mine.items()},
                "sha256": split_hash(mine),
            }
        )
    manifest = {
        "format": "wildcal suite",
        "format_version": 5,
        "input": "logits",
        "class_names": ["a", "b", "c"],
        "model": {"name": "tiny"},
        "data": {"name": "drawn"},
        "seed": 0,
        "versions": {"numpy": "2.0"},
        "knn": KNN,
        "complete": True,
        "splits": splits,
    }
    return arrays, manifest


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tiny.npz"


def write(path, content):
    arrays, manifest = content
    np.savez_compressed(path, **arrays)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
    return path


def test_every_field_has_its_meaning(path, content):
    suite = Suite.open(write(path, content), verify=True)
    assert (suite.network, suite.data["name"], suite.complete) == ({"name": "tiny"}, "drawn", True)
    assert (suite.class_names, suite.layers) == (("a", "b", "c"), ("stem", "logits"))
    found = [(s.name, s.role, s.shift, s.corruption, s.severity) for s in suite.splits]
    assert found == [
        ("tune", "tune", "none", None, None),
        ("fog-3", "test", "covariate", "fog", 3),
        ("night", "test", "covariate", None, None),
        ("svhn-tune", "tune", "semantic", None, None),
    ]
    for split, (name, (_, domain, *_rest)) in zip(suite.splits, SPLITS.items(), strict=True):
        wanted = arrays_of(list(SPLITS).index(name), domain)
        assert (split.logits.dtype, split.y.dtype) == (np.float32, np.int64)
        np.testing.assert_array_equal(split.logits, wanted["logits"])
        np.testing.assert_array_equal(split.y, wanted["y"])
        np.testing.assert_array_equal(split.distances(), wanted["knn_distances"])


@pytest.mark.parametrize("name", ["logits", "y", "knn_distances"])
def test_the_hash_covers_every_array(path, content, name):
    array = content[0][f"fog-3/{name}"]
    array[0] = (array[0] + 1) % 3
    suite = Suite.open(write(path, content))
    suite.split("night").verify()
    with pytest.raises(FileFormatError, match="split fog-3 was changed after it was written"):
        suite.verify()


def test_an_array_that_is_missing(path, content):
    del content[0]["night/knn_distances"]
    with pytest.raises(FileFormatError, match="night/knn_distances.npy of .* is not there"):
        Suite.open(write(path, content))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format_version": 6}, "format_version must be 5, got 6"),
        ({"format_version": True}, "format_version must be 5, got True"),
        ({"splits": [{}]}, "a field is missing or of another type"),
        ({"splits": 3}, "a field is missing or of another type"),
        ({"data": None}, "a field is missing or of another type"),
        ({"class_names": ["a", "b", 3]}, "class_names must be 3 texts"),
        ({"model": []}, "network must be an object"),
    ],
)
def test_manifests_that_cannot_be(path, content, change, words):
    with pytest.raises(FileFormatError, match=words) as error:
        Suite.open(write(path, (content[0], content[1] | change)))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("change", [{"name": "../x"}, {"role": "perturb"}, {"domain": []}])
def test_splits_that_cannot_be(path, content, change):
    content[1]["splits"][1].update(change)
    with pytest.raises(FileFormatError, match=r"manifest.json is not valid"):
        Suite.open(write(path, content))


def test_pack_writes_version_4(path, content, tmp_path):
    suite = Suite.open(write(path, content))
    suite.pack(tmp_path / "packed.npz")
    with np.load(tmp_path / "packed.npz") as arrays:
        assert json.loads(arrays["manifest.json"])["version"] == 4
        assert "svhn-tune.distances" in arrays
    packed = Suite.open(tmp_path / "packed.npz", verify=True)
    for mine, theirs in zip(packed.splits, suite.splits, strict=True):
        np.testing.assert_array_equal(mine.logits, theirs.logits)
        np.testing.assert_array_equal(mine.y, theirs.y)
        np.testing.assert_array_equal(mine.distances(), theirs.distances())


@pytest.mark.parametrize("name", suites.names())
def test_shipped_suites_have_it(name):
    with np.load(suites.load(name).path) as arrays:
        manifest = json.loads(arrays["manifest.json"])
    assert (manifest["format"], manifest["format_version"]) == ("wildcal suite", 5)
    assert {split["role"] for split in manifest["splits"]} == {"calibration", "test"}
