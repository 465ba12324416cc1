"""wildcal corrupt: folders of pictures, .npz files and CIFAR batches."""

import numpy as np
import pytest
from PIL import Image

from wildcal.cli.main import run
from wildcal.corruptions import CORRUPTIONS, corrupt, transform


@pytest.fixture
def images(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = np.random.default_rng(0).integers(0, 256, (5, 32, 32, 3), dtype=np.uint8)
    np.savez("x.npz", images=found, labels=np.arange(5))
    return found


def test_npz(images, capsys):
    assert run(["corrupt", "x.npz", "--name", "fog", "--severity", "3", "-o", "fog.npz"]) == 0
    assert "Wrote 5 images to fog.npz" in capsys.readouterr().err
    found = np.load("fog.npz")
    np.testing.assert_array_equal(found["images"], corrupt(images, "fog", 3))
    assert found["labels"].tolist() == [0, 1, 2, 3, 4]


def test_all(images):
    assert run(["corrupt", "x.npz", "--name", "all", "--severity", "5", "-o", "out"]) == 0
    for name in CORRUPTIONS:
        found = np.load(f"out/{name}-5.npz")["images"]
        np.testing.assert_array_equal(found, corrupt(images, name, 5))


def test_cifar_batch(images, tmp_path):
    planes = images.transpose(0, 3, 1, 2).reshape(5, -1)
    labels = np.arange(5, dtype=np.uint8)
    (tmp_path / "cifar").mkdir()
    np.column_stack([labels, planes]).tofile("cifar/test_batch.bin")
    assert run(["corrupt", "cifar", "--name", "snow", "--severity", "1", "-o", "snow.bin"]) == 0
    records = np.fromfile("snow.bin", np.uint8).reshape(5, 3073)
    wanted = corrupt(images, "snow", 1).transpose(0, 3, 1, 2).reshape(5, -1)
    np.testing.assert_array_equal(records[:, 1:], wanted)
    np.testing.assert_array_equal(records[:, 0], labels)


def test_folder_of_pictures(images, tmp_path):
    for i, image in enumerate(images):
        folder = tmp_path / "in" / ("a" if i < 3 else "b")
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / f"{i}.png")
    assert run(["corrupt", "in", "--name", "rotation", "--severity", "2", "-o", "out"]) == 0
    for i, image in enumerate(transform(images, "rotation", 2)):
        found = np.asarray(Image.open(f"out/{'a' if i < 3 else 'b'}/{i}.png"))
        np.testing.assert_array_equal(found, image)
    assert run(["corrupt", "in", "--name", "fog", "--severity", "all", "-o", "many"]) == 0
    found = np.asarray(Image.open("many/fog/4/b/3.png"))
    np.testing.assert_array_equal(found, corrupt(images, "fog", 4)[3])


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["x.npz", "--name", "smog", "--severity", "1", "-o", "o.npz"], "--name must be one of"),
        (["x.npz", "--name", "fog", "--severity", "9", "-o", "o.npz"], "--severity must be one"),
        (["x.npz", "--name", "shear", "--severity", "3", "-o", "o.npz"], "'1', '2', got '3'"),
        (["x.npz", "--name", "fog", "--severity", "1", "-o", "o.png"], "--output must end in .npz"),
        (["x.npz", "--name", "fog", "--severity", "1", "-o", "x.npz"], "must not be"),
        (["none", "--name", "fog", "--severity", "1", "-o", "o.npz"], "none does not exist"),
        ([".", "--name", "fog", "--severity", "1", "-o", "below"], "--output must not be inside"),
    ],
)
def test_wrong_words(images, capsys, words, text):
    assert run(["corrupt", *words]) == 1
    assert text in capsys.readouterr().err
