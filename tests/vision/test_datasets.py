"""Readers of published data sets in their layouts, and of folders of classes."""

import pickle

import numpy as np
import pytest
import scipy.io
from PIL import Image

from wildcal.core.exceptions import FileFormatError
from wildcal.vision.datasets import (
    CIFAR10_NAMES,
    CIFAR100_NAMES,
    cifar10,
    cifar100,
    cifar_c,
    image_folder,
    svhn,
    textures,
)
from wildcal.vision.imagenet import imagenet, imagenet_c, imagenet_relative, imagenet_wnids
from wildcal.vision.images import CIFAR10, IMAGENET, ArrayImages, Preprocess, common_size

# tench, goldfish, toilet tissue: 0, 1 and 999
WNIDS = ("n01440764", "n01443537", "n15075141")
SMALL = Preprocess(crop=28, resize=32)


def everything(images):
    return images.read(np.arange(len(images)))


def random_images(n, height=32, width=32, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (n, height, width, 3), dtype=np.uint8)


def planes(images):
    return images.transpose(0, 3, 1, 2).reshape(len(images), -1)


def save_pictures(folder, names, n=1, size=(40, 30), ending="png"):
    for k, name in enumerate(names):
        (folder / name).mkdir(parents=True)
        for i, image in enumerate(random_images(n, size[1], size[0], seed=k)):
            Image.fromarray(image).save(folder / name / f"{i}.{ending}")


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("keys", [str, str.encode])
def test_cifar_of_both_archives(tmp_path, protocol, keys):
    images, labels = random_images(20), np.arange(20) % 10
    for k in range(5):
        part = slice(4 * k, 4 * k + 4)
        content = {keys("data"): planes(images[part]), keys("labels"): labels[part].tolist()}
        folder = tmp_path / "python" / "cifar-10-batches-py"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"data_batch_{k + 1}").write_bytes(pickle.dumps(content, protocol))
        records = np.column_stack([labels[part], planes(images[part])]).astype(np.uint8)
        folder = tmp_path / "binary"
        folder.mkdir(exist_ok=True)
        records.tofile(folder / f"data_batch_{k + 1}.bin")
    for folder in ("python", "binary", "python/cifar-10-batches-py"):
        found = cifar10(tmp_path / folder, "train")
        assert found.class_names == CIFAR10_NAMES
        np.testing.assert_array_equal(everything(found), images)
        np.testing.assert_array_equal(found.labels, labels)


def test_cifar100_has_the_fine_labels(tmp_path):
    images, fine = random_images(3), np.array([0, 42, 99])
    records = np.column_stack([[1, 2, 3], fine, planes(images)]).astype(np.uint8)
    records.tofile(tmp_path / "test.bin")
    found = cifar100(tmp_path, "test")
    np.testing.assert_array_equal(found.labels, fine)
    np.testing.assert_array_equal(everything(found), images)
    assert found.class_names == CIFAR100_NAMES


class Call:
    def __reduce__(self):
        return eval, ("1 + 1",)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"data": Call(), "labels": [1]}, "it refers to builtins.eval"),
        ({"data": np.array([Call()]), "labels": [1]}, "it refers to builtins.eval"),
        ({"data": np.zeros((2, 3072), np.uint8), "labels": [1]}, "must hold `data` and as many"),
        ({"data": np.zeros((1, 3072), np.uint8), "labels": [10]}, "has wrong labels"),
        ({"labels": [1]}, "must hold `data` and as many"),
        ([1, 2], "Unpack the published archive again"),
    ],
)
def test_pickles_that_are_refused(tmp_path, content, text):
    (tmp_path / "test_batch").write_bytes(pickle.dumps(content))
    with pytest.raises(FileFormatError, match=text):
        cifar10(tmp_path, "test")


def test_cifar_that_is_missing_or_cut(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"CIFAR10 was not found: looked for .*test_batch"):
        cifar10(tmp_path, "test")
    (tmp_path / "test_batch.bin").write_bytes(bytes(3000))
    with pytest.raises(FileFormatError, match="must have records of 3073 bytes"):
        cifar10(tmp_path, "test")


def test_cifar_c_is_mapped(tmp_path):
    images, labels = random_images(15), np.tile([1, 2, 3], 5).astype(np.uint8)
    np.save(tmp_path / "fog.npy", images)
    np.save(tmp_path / "labels.npy", labels)
    found = cifar_c("cifar10", tmp_path, "fog", 4)
    assert isinstance(found.images, np.memmap)
    np.testing.assert_array_equal(everything(found), images[9:12])
    assert found.labels.tolist() == [1, 2, 3]
    with pytest.raises(FileNotFoundError, match=r"snow\.npy"):
        cifar_c("cifar10", tmp_path, "snow", 4)
    np.save(tmp_path / "labels.npy", labels[:14])
    with pytest.raises(FileFormatError, match="as many labels"):
        cifar_c("cifar10", tmp_path, "fog", 4)


def test_svhn(tmp_path):
    images = random_images(4)
    path = tmp_path / "test_32x32.mat"
    digits = np.array([[10], [1], [9], [10]], np.uint8)
    scipy.io.savemat(path, {"X": images.transpose(1, 2, 3, 0), "y": digits})
    found = svhn(tmp_path, CIFAR10)
    assert found.labels.tolist() == [0, 1, 9, 0]
    np.testing.assert_array_equal(everything(found), images)
    assert everything(svhn(tmp_path, SMALL)).shape == (4, 28, 28, 3)
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(FileFormatError, match="as SVHN"):
        svhn(tmp_path, CIFAR10)


def test_textures_are_no_other_folders(tmp_path):
    save_pictures(tmp_path / "dtd" / "images", ["banded", "cracked"], 2)
    assert everything(textures(tmp_path, CIFAR10)).shape == (4, 32, 32, 3)
    save_pictures(tmp_path / "other", ["banded", "cats"])
    with pytest.raises(FileNotFoundError, match="DTD was not found"):
        textures(tmp_path / "other", CIFAR10)


def test_folders_of_classes(tmp_path):
    save_pictures(tmp_path, ["dog", "cat"], 2, size=(50, 40))
    (tmp_path / "cat" / "notes.txt").write_text("")
    found = image_folder(tmp_path, SMALL)
    assert found.class_names == ("cat", "dog")
    assert found.labels.tolist() == [0, 0, 1, 1]
    again = image_folder(tmp_path, SMALL, ("dog", "fox", "cat"))
    assert again.labels.tolist() == [2, 2, 0, 0]
    # The short side of 40 becomes 32, then the center.
    picture = Image.open(tmp_path / "cat" / "0.png").resize((40, 32), Image.Resampling.BILINEAR)
    np.testing.assert_array_equal(
        found.read(np.array([0]))[0], np.asarray(picture.crop((6, 2, 34, 30)))
    )
    with pytest.raises(FileFormatError, match="named after one of the 1 classes"):
        image_folder(tmp_path, SMALL, ("cat",))
    with pytest.raises(FileFormatError, match="one folder of pictures"):
        image_folder(tmp_path / "cat", SMALL)


def test_common_size(tmp_path):
    save_pictures(tmp_path, ["a"], 3, size=(48, 48))
    assert common_size(tmp_path) == 48
    Image.fromarray(random_images(1, 30, 40)[0]).save(tmp_path / "a" / "x.png")
    assert common_size(tmp_path) is None


@pytest.mark.parametrize("names", [WNIDS, ("0", "1", "999")])
def test_imagenet(tmp_path, names):
    save_pictures(tmp_path / "val", names, ending="jpg")
    found = imagenet(tmp_path, SMALL)
    assert found.labels.tolist() == [0, 1, 999]
    assert len(found.class_names) == 1000
    assert everything(found).shape == (3, 28, 28, 3)


def test_wnids_are_sorted():
    wnids = imagenet_wnids()
    assert list(wnids) == sorted(set(wnids))
    assert [wnids.index(wnid) for wnid in WNIDS] == [0, 1, 999]


@pytest.mark.parametrize(
    ("name", "folder"),
    [("imagenet-r", "imagenet-r"), ("imagenet-a", "imagenet-a"), ("imagenet-sketch", "sketch")],
)
def test_relatives_of_imagenet(tmp_path, name, folder):
    save_pictures(tmp_path / folder, WNIDS[:2])
    for place in (tmp_path, tmp_path / folder):
        assert imagenet_relative(name, place, SMALL).labels.tolist() == [0, 1]


def test_imagenet_c_is_not_cropped(tmp_path):
    save_pictures(tmp_path / "weather" / "fog" / "3", WNIDS, size=(64, 64))
    found = imagenet_c(tmp_path, "fog", 3, Preprocess(crop=64, resize=73))
    saved = np.asarray(Image.open(tmp_path / "weather" / "fog" / "3" / WNIDS[0] / "0.png"))
    np.testing.assert_array_equal(found.read(np.array([0]))[0], saved)


def test_imagenet_layouts_that_are_refused(tmp_path):
    (tmp_path / "val").mkdir()
    (tmp_path / "val" / "ILSVRC2012_val_00000001.JPEG").write_bytes(b"")
    with pytest.raises(FileFormatError, match="Move each into the folder of its class"):
        imagenet(tmp_path)
    save_pictures(tmp_path / "other", [*WNIDS, "n00000001"])
    with pytest.raises(FileFormatError, match="must be named by a WordNet id"):
        imagenet(tmp_path / "other")


def test_damaged_picture(tmp_path):
    save_pictures(tmp_path, ["a"])
    (tmp_path / "a" / "0.png").write_bytes(b"nothing")
    with pytest.raises(FileFormatError, match=r"cannot read .*0\.png"):
        everything(image_folder(tmp_path, SMALL))


def test_array_images_are_checked():
    good = {"name": "x", "labels": np.zeros(2, int), "class_names": ("a", "b")}
    with pytest.raises(ValueError, match=r"images must be uint8 of shape \(n, height, width, 3\)"):
        ArrayImages(images=np.zeros((2, 8, 8, 3)), **good)
    with pytest.raises(ValueError, match=r"labels must have shape \(3,\)"):
        ArrayImages(images=random_images(3), **good)


def test_preprocess_by_hand():
    pixels = np.array([[[[255, 0, 51]]]], np.uint8)
    plain = Preprocess(mean=(0.5, 0.5, 0.5), std=(0.5, 0.25, 1.0))
    np.testing.assert_allclose(plain.normalize(pixels)[0, 0, 0], [1, -2, -0.3], atol=1e-6)
    bgr = Preprocess(mean=(5.0, 0, 1), std=(1.0, 1, 1), channels="bgr", scale=255.0)
    np.testing.assert_allclose(bgr.normalize(pixels)[0, 0, 0], [50, 0, 250], atol=1e-4)
    assert IMAGENET.with_crop(112).resize == 128
    with pytest.raises(ValueError, match=r"resize must be an integer in \[224, inf\], got 100"):
        Preprocess(resize=100)
