"""The suites that come with the package."""

import numpy as np
import pytest

from wildcal import suites
from wildcal.io.suite import SuiteWriter


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
    assert suites.names() == ("tiny-a", "tiny-b")


def test_load(shipped):
    assert suites.load("tiny-b").split("val").y.tolist() == [1]


@pytest.mark.parametrize("name", ["tiny", "", "../work", "tiny-a.npz"])
def test_unknown_names(shipped, name):
    with pytest.raises(ValueError, match="comes with wildcal") as error:
        suites.load(name)
    assert str(error.value) == (
        f"no suite named {name!r} comes with wildcal; there are tiny-a, tiny-b."
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
