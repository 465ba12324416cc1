"""The readers on published files, where WILDCAL_DATA names the folder that holds them."""

import os
from pathlib import Path

import numpy as np
import pytest

from wildcal._old.vision.datasets import cifar10, cifar100, imagenet, make_split, svhn, textures
from wildcal._old.vision.datasets.order import stratified_order

ROOT = Path(os.environ.get("WILDCAL_DATA", "."))
pytestmark = pytest.mark.skipif(
    "WILDCAL_DATA" not in os.environ, reason="WILDCAL_DATA does not name a folder of data sets"
)


def there(path):
    if not (ROOT / path).exists():
        pytest.skip(f"{path} is not in WILDCAL_DATA")
    return ROOT / path


@pytest.mark.parametrize("version", ["cifar-10-batches-bin", "cifar-10-batches-py"])
def test_cifar10(version):
    folder = there(version)
    train, test = cifar10(folder, "train"), cifar10(folder, "test")
    assert np.bincount(train.labels).tolist() == [5000] * 10
    assert np.bincount(test.labels).tolist() == [1000] * 10
    # The first images of the test set are known: a cat, two ships, a plane, two frogs.
    assert [test.class_names[k] for k in test.labels[:6]] == [
        "cat",
        "ship",
        "ship",
        "airplane",
        "frog",
        "frog",
    ]
    # The usual normalization of CIFAR-10, from the training images.
    mean = train.read(slice(None)).mean((0, 1, 2)) / 255
    assert mean == pytest.approx([0.4914, 0.4822, 0.4465], abs=1e-4)


def test_both_versions_of_cifar10_are_equal():
    binary, python = there("cifar-10-batches-bin"), there("cifar-10-batches-py")
    for part in ("train", "test"):
        one, two = cifar10(binary, part), cifar10(python, part)
        assert np.array_equal(one.labels, two.labels)
        assert np.array_equal(one.read(slice(None)), two.read(slice(None)))


@pytest.mark.parametrize("version", ["cifar-100-binary", "cifar-100-python"])
def test_cifar100(version):
    folder = there(version)
    assert np.bincount(cifar100(folder, "train").labels).tolist() == [500] * 100
    assert np.bincount(cifar100(folder, "test").labels).tolist() == [100] * 100


def test_svhn():
    from scipy.io import loadmat

    data = svhn(there("svhn"))
    reference = loadmat(there("svhn") / "test_32x32.mat")
    assert np.array_equal(data.read(slice(None)), reference["X"].transpose(3, 0, 1, 2))
    assert np.array_equal(data.labels, reference["y"].ravel() % 10)
    assert np.bincount(data.labels).argmax() == 1  # house numbers begin with small digits


def test_textures(needs):
    needs("PIL")
    data = textures(there("dtd"))
    assert np.bincount(data.labels).tolist() == [120] * len(data.class_names)
    rows = make_split(len(data), {"some": 100}, 0).rows("some")
    images = data.read(rows)
    assert images.shape == (100, 32, 32, 3)
    assert images.std(axis=(1, 2, 3)).mean() > 20  # textures, not gray squares


def test_imagenet(needs):
    """Any number of its validation images; every class is in the parts to tune and to test on."""
    needs("PIL")
    data = imagenet(there("imagenet"))
    counts = np.bincount(data.labels, minlength=1000)
    assert counts.min() >= 2
    order = stratified_order(data.labels, seed=0)
    assert set(data.labels[order[:1000]]) == set(data.labels[order[-1000:]]) == set(range(1000))
    images = data.read(order[:16])
    assert images.shape == (16, 224, 224, 3)
    # Photographs: not far from the mean and standard deviation that everybody normalizes by.
    assert images.mean((0, 1, 2)) / 255 == pytest.approx([0.485, 0.456, 0.406], abs=0.1)


@pytest.mark.parametrize(
    ("name", "reader", "folder", "apart"),
    [
        ("cifar100-resnet20", cifar100, "cifar-100-binary", 0.04),  # steps of 1/16
        ("cifar10-se-resnet20", cifar10, "cifar-10-batches-bin", 0.02),  # steps of 1/64
        ("cifar10-densenet-45", cifar10, "cifar-10-batches-bin", 0.03),  # steps of 1/32
    ],
)
def test_shipped_weights_give_the_shipped_logits(needs, name, reader, folder, apart):
    needs("torch")
    from wildcal._old import suites
    from wildcal._old.vision.batches import Normalizer
    from wildcal._old.vision.classifiers import open_classifier

    images = reader(there(folder), "test").read(slice(0, 40))
    other = Normalizer((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))  # the file has its own
    logits = open_classifier(f"wildcal:{name}", other).logits(images)
    shipped = suites.load(name).split("test").logits
    np.testing.assert_allclose(logits, shipped[:40], atol=apart)
