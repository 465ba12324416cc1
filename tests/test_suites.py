"""The suites that come with the package."""

import numpy as np
import pytest

from wildcal._old import suites
from wildcal._old.calibrators import PAPER_METHODS
from wildcal._old.core.errors import MissingExtraError
from wildcal._old.evaluation.protocol import run_protocol
from wildcal._old.io.suite import SuiteWriter
from wildcal._old.io.suite.summary import grouped, summarize
from wildcal._old.shift import CORRUPTIONS, TUNING_TRANSFORMS, VALIDATION_CORRUPTIONS


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """Stand-ins: two suites, and files that are none."""
    writer = SuiteWriter(
        tmp_path / "work", network={}, data={}, seed=0, versions={}, n_classes=2, class_names="ab"
    )
    writer.add("val", [[0.0, 2.0]], [1], role="tune", shift="none")
    writer.finish(["val"])
    folder = tmp_path / "package"
    folder.mkdir()
    for name in ("tiny-b", "tiny-a"):
        suites.Suite.open(tmp_path / "work").pack(folder / f"{name}.npz")
    (folder / "__init__.py").touch()
    monkeypatch.setattr(suites, "_folder", lambda: folder)


def test_names(shipped):
    assert suites.names() == suites.names("tiny") == ("tiny-a", "tiny-b")
    assert suites.names("cifar10") == ()


def test_load(shipped):
    assert suites.load("tiny-b").split("val").y.tolist() == [1]


@pytest.mark.parametrize("name", ["tiny", "", "../work", "tiny-a.npz"])
def test_unknown_names(shipped, name):
    with pytest.raises(ValueError, match="comes with wildcal") as error:
        suites.load(name)
    assert str(error.value) == (
        f"no suite named {name!r} comes with wildcal; there are tiny-a, tiny-b."
    )


def test_without_the_data_package(monkeypatch):
    monkeypatch.setattr(suites, "_folder", lambda: None)
    assert suites.names() == ()
    with pytest.raises(MissingExtraError) as error:
        suites.load("x")
    assert str(error.value) == (
        "the suite 'x' is not installed. Install the suites with: pip install \"wildcal[suites]\""
    )


def test_a_package_without_suites(tmp_path, monkeypatch):
    monkeypatch.setattr(suites, "_folder", lambda: tmp_path)
    assert suites.names() == ()
    with pytest.raises(ValueError, match="no suite named 'x' comes with wildcal; there are none."):
        suites.load("x")


@pytest.mark.parametrize("name", suites.names())
def test_every_shipped_suite_is_whole(name):
    suite = suites.load(name)
    suite.verify()
    assert suite.complete
    assert suite.network
    assert suite.tune("none")
    assert suite.tests("none")
    for split in suite.splits:
        assert np.isfinite(split.logits).all()
        assert split.logits.shape == (split.rows, suite.n_classes)


@pytest.fixture(scope="module")
def results():
    """The paper's protocol on every shipped suite."""
    return run_protocol({name: suites.load(name) for name in suites.names("cifar10")})


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("cifar10-resnet20", 0.90),
        ("cifar10-se-resnet20", 0.88),
        ("cifar10-densenet-45", 0.86),
        ("cifar10-wrn-16-2", 0.90),
        ("cifar10-vgg11-half", 0.88),
    ],
)
def test_networks_are_well_trained(name, least):
    test = suites.load(name).split("test")
    assert (test.logits.argmax(1) == test.y).mean() >= least


@pytest.mark.parametrize("name", suites.names("cifar10"))
def test_accuracy_falls_and_energy_rises_with_severity(name):
    summaries = grouped(summarize(suites.load(name)))
    clean = [s for s in summaries if (s.role, s.shift) == ("test", "none")]
    levels = [s for s in summaries if s.role == "test" and s.severity]
    assert [s.severity for s in levels] == [1, 2, 3, 4, 5]
    accuracy = [s.accuracy for s in clean + levels]
    energy = [s.mean_energy for s in clean + levels]
    assert accuracy == sorted(accuracy, reverse=True)
    assert energy == sorted(energy)


@pytest.mark.parametrize("name", suites.names("cifar10"))
def test_energy_scaling_beats_the_baselines_under_shift(results, name):
    """By the paper's average over severities; the rivals are those of its first table."""
    average = {m.name: results.average(name, m.name).value for m in results.suites[name].methods}
    assert set(average) == set(PAPER_METHODS)
    assert min(average, key=average.get) == "energy", average


@pytest.mark.parametrize("name", suites.names("cifar10"))
def test_shipped_suites_have_what_studies_need(name):
    suite = suites.load(name)
    assert suite.split("validation").rows == 5000
    assert suite.split("test").rows == 10000
    assert {s.name for s in suite.tune("semantic")} == {"svhn-tune", "textures-tune"}
    assert {s.name for s in suite.tests("semantic")} == {"svhn-test", "textures-test"}
    cells = {(s.corruption, s.severity): s.rows for s in suite.tests("covariate")}
    assert set(cells) == {(kind, level) for kind in CORRUPTIONS for level in range(1, 6)}
    assert set(cells.values()) == {1000 if name == "cifar10-densenet-45" else 2000}
    cells = {(s.corruption, s.severity): s.rows for s in suite.tune("covariate")}
    transformed = {(k, s) for k, row in TUNING_TRANSFORMS.items() for s in range(1, len(row) + 1)}
    corrupted = {(k, s) for k in VALIDATION_CORRUPTIONS for s in range(1, 6)}
    assert set(cells) == corrupted | transformed
    assert set(cells.values()) == {1000}


@pytest.mark.parametrize(("name", "layers"), [("cifar10-resnet20", 5), ("cifar10-vgg11-half", 6)])
def test_shipped_distances_grow_with_shift(name, layers):
    suite = suites.load(name)
    assert len(suite.layers) == layers
    assert suite.layers[-1] == "logits"
    assert suite.neighbors["ranks"] == [50]
    assert suite.neighbors["train_rows"] == 45_000
    assert all(split.has_distances for split in suite.splits)
    clean = suite.split("test").distances().mean(axis=0)
    severe = [split.distances().mean(axis=0) for split in suite.tests(severity=5)]
    assert (np.mean(severe, axis=0) > 1.1 * clean).all()


def accuracy(split):
    return (split.logits.argmax(1) == split.y).mean()


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("imagenet-resnet18", 0.6976),
        ("imagenet-vit-tiny", 0.755),
        ("imagenet-efficientnet-lite0", 0.751),
    ],
)
def test_a_thousand_classes(name, published):
    suite = suites.load(name)
    assert suite.n_classes == 1000
    assert suite.data["logits_step"] == 0.125
    test = suite.split("test")
    # Three standard errors of 1,000 or 1,500 rows.
    assert abs(accuracy(test) - published) < 3 * np.sqrt(published * (1 - published) / test.rows)
    cells = {(s.corruption, s.severity) for s in suite.tests("covariate")}
    assert cells == {(kind, level) for kind in CORRUPTIONS for level in range(1, 6)}
    assert {s.name for s in suite.tune("semantic")} == {"svhn-tune", "textures-tune"}


def test_a_hundred_classes():
    suite = suites.load("cifar100-resnet20")
    assert suite.n_classes == 100
    # 65.4 % of all 10,000 test images; three standard errors of these 5,000 are 2.
    assert abs(accuracy(suite.split("test")) - 0.654) < 0.02
    by_level = [
        np.mean([accuracy(s) for s in suite.tests(severity=level)]) for level in range(1, 6)
    ]
    assert by_level == sorted(by_level, reverse=True)
    assert {s.corruption for s in suite.tests("covariate")} == set(CORRUPTIONS)


def test_sentences_with_typos():
    suite = suites.load("banking77-minilm")
    assert suite.n_classes == 77
    for kind in ("typos", "missing-words"):
        names = ["test", *(f"{kind}-{level}" for level in range(1, 6))]
        found = [accuracy(suite.split(name)) for name in names]
        assert found[0] > 0.9
        assert found == sorted(found, reverse=True)


def test_natural_shift_of_pacs():
    suite = suites.load("pacs-resnet18")
    assert [split.name for split in suite.tests("covariate")] == ["art", "cartoon", "sketch"]
    clean = accuracy(suite.split("test"))
    assert all(accuracy(split) < clean for split in suite.tests("covariate"))
