"""Contents of the installed suites."""

import numpy as np
import pytest

from wildcal import suites
from wildcal.core.exceptions import InputError, MissingExtraError
from wildcal.corruptions import CORRUPTIONS, VALIDATION_CORRUPTIONS, VALIDATION_TRANSFORMS

CIFAR10 = suites.list("cifar10")
IMAGES = [name for name in suites.list() if name.startswith(("cifar", "imagenet"))]


def accuracy(split):
    return (split.logits.argmax(axis=1) == split.y).mean()


@pytest.mark.parametrize("name", suites.list())
def test_every_suite_is_complete(name):
    suite = suites.load(name)
    suite.verify()
    assert suite.complete
    assert suite.model["name"]
    assert any(split.is_source for split in suite.calibration)
    assert any(split.is_source for split in suite.test)
    for split in suite.splits:
        assert np.isfinite(split.logits).all()
        assert split.logits.shape == (split.n_samples, suite.n_classes)
        assert (split.y == -1).all() == split.is_ood


@pytest.mark.parametrize("name", IMAGES)
def test_every_corruption_at_every_severity(name):
    suite = suites.load(name)
    wanted = {(kind, level) for kind in CORRUPTIONS for level in range(1, 6)}
    assert {(s.corruption, s.severity) for s in suite.test if s.is_shifted} == wanted
    assert [s.name for s in suite.test if s.is_ood] == ["svhn-test", "textures-test"]
    found = {(s.corruption, s.severity) for s in suite.calibration if s.is_shifted}
    corrupted = {(kind, level) for kind in VALIDATION_CORRUPTIONS for level in range(1, 6)}
    assert found >= corrupted
    if name in CIFAR10:
        levels = {(k, s + 1) for k, row in VALIDATION_TRANSFORMS.items() for s in range(len(row))}
        assert found == corrupted | levels
        assert suite.split("validation").n_samples == 5000
        assert suite.split("test").n_samples == 10_000


@pytest.mark.parametrize("name", IMAGES)
def test_accuracy_falls_with_severity(name):
    suite = suites.load(name)
    levels = [[s for s in suite.test if s.severity == level] for level in range(1, 6)]
    means = [np.mean([accuracy(split) for split in splits]) for splits in levels]
    assert means == sorted(means, reverse=True)
    assert accuracy(suite.split("test")) > means[0]


@pytest.mark.parametrize(
    ("name", "published", "error"),
    [
        ("imagenet-resnet18", 0.6976, 0.036),
        ("imagenet-vit-tiny", 0.755, 0.042),
        ("imagenet-efficientnet-lite0", 0.751, 0.042),
        ("cifar100-resnet20", 0.654, 0.02),
    ],
)
def test_accuracy_is_the_published_one(name, published, error):
    """Within three standard errors of the stored samples."""
    assert abs(accuracy(suites.load(name).split("test")) - published) < error


@pytest.mark.parametrize(("name", "layers"), [("cifar10-resnet20", 5), ("cifar10-vgg11-half", 6)])
def test_distances_grow_with_shift(name, layers):
    suite = suites.load(name)
    assert len(suite.layers) == layers
    assert suite.knn["n_neighbors"] == 50
    source = suite.split("test").knn_distances.mean(axis=0)
    severe = [s.knn_distances.mean(axis=0) for s in suite.test if s.severity == 5]
    assert (np.mean(severe, axis=0) > 1.1 * source).all()


def test_domains_of_photographs():
    suite = suites.load("pacs-resnet18")
    assert [s.domain for s in suite.test if s.is_shifted] == ["art", "cartoon", "sketch"]


def test_unknown_and_not_installed(monkeypatch):
    with pytest.raises(InputError, match="name must be one of banking77-minilm, .*, got 'x'"):
        suites.load("x")
    monkeypatch.setattr(suites, "_folder", lambda: None)
    assert suites.list() == ()
    with pytest.raises(MissingExtraError, match=r'pip install "wildcal\[suites\]"'):
        suites.load("cifar10-resnet20")
