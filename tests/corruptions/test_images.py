"""Files of images: round trips, and one-line errors for damaged files."""

import numpy as np
import pytest
from PIL import Image

from wildcal.core.exceptions import FileFormatError
from wildcal.corruptions.images import (
    Batch,
    find_batch,
    find_pictures,
    read_batch,
    read_picture,
    write_batch,
    write_picture,
)


def save(path, batch):
    with path.open("wb") as file:
        write_batch(file, batch, path.suffix)


@pytest.mark.parametrize("n_labels", [1, 2])
def test_cifar_records(make, tmp_path, n_labels):
    images = make(7)
    labels = np.arange(7 * n_labels, dtype=np.uint8).reshape(7, n_labels)
    planes = images.transpose(0, 3, 1, 2).reshape(7, -1)
    path = tmp_path / "test_batch.bin"
    path.write_bytes(np.concatenate([labels, planes], axis=1).tobytes())
    batch = read_batch(path)
    assert np.array_equal(batch.images, images)
    assert np.array_equal(batch.others["labels"].reshape(7, -1), labels)
    save(tmp_path / "again.bin", batch)
    assert (tmp_path / "again.bin").read_bytes() == path.read_bytes()
    assert find_batch(tmp_path) == path


def test_npz(make, tmp_path):
    images = make(3, 40, 50)
    save(tmp_path / "x.npz", Batch(images, {"labels": np.arange(3), "names": np.array(["a", "b"])}))
    again = read_batch(tmp_path / "x.npz")
    assert np.array_equal(again.images, images)
    assert again.others["names"].tolist() == ["a", "b"]


def test_pictures_are_sorted_and_read_as_rgb(make, tmp_path):
    image = make(1, 40, 50)[0]
    (tmp_path / "b").mkdir()
    with (tmp_path / "b" / "1.png").open("wb") as file:
        write_picture(file, image)
    Image.fromarray(image).convert("L").save(tmp_path / "c.PNG")
    Image.fromarray(image).convert("RGBA").save(tmp_path / "a.webp", lossless=True)
    Image.fromarray(image).convert("P").save(tmp_path / "d.png")
    (tmp_path / "notes.txt").write_text("")
    paths = find_pictures(tmp_path)
    assert [p.as_posix() for p in paths] == ["a.webp", "b/1.png", "c.PNG", "d.png"]
    assert np.array_equal(read_picture(tmp_path / "b" / "1.png"), image)
    assert np.array_equal(read_picture(tmp_path / "a.webp"), image)
    assert all(read_picture(tmp_path / p).shape == (40, 50, 3) for p in paths)


def test_gray_pictures_of_16_bits_keep_their_levels(tmp_path):
    levels = np.arange(64 * 64, dtype=np.uint16).reshape(64, 64) * 16
    Image.fromarray(levels).save(tmp_path / "x.png")
    assert np.array_equal(read_picture(tmp_path / "x.png")[..., 0], levels >> 8)


@pytest.mark.parametrize(
    ("name", "make_file", "text"),
    [
        ("x.bin", lambda p: p.write_bytes(b"\0" * 3072), "its 3,072 bytes are not whole CIFAR"),
        ("x.npz", lambda p: p.write_bytes(b"PK\3\4 broken"), "cannot read"),
        ("x.npz", lambda p: p.write_bytes(b""), "cannot read"),
        ("x.npz", lambda p: np.savez(p, images=np.array([object()])), "allow_pickle=False"),
        ("x.npz", lambda p: np.savez(p, logits=np.ones(3)), "it has no array `images`"),
        ("x.npz", lambda p: np.savez(p, images=np.ones((1, 32, 32, 3))), "must be uint8"),
    ],
)
def test_damaged_batches(tmp_path, name, make_file, text):
    path = tmp_path / name
    make_file(path)
    with pytest.raises(FileFormatError, match="cannot read") as caught:
        read_batch(path)
    assert str(path) in str(caught.value)
    assert text in str(caught.value)


@pytest.mark.parametrize("name", ["x.png", "x.jpg", "x.webp"])
def test_damaged_pictures(make, tmp_path, name):
    path = tmp_path / name
    Image.fromarray(make(1, 64, 64)[0]).save(path)
    for damaged in (path.read_bytes()[:600], b"no picture", b""):
        path.write_bytes(damaged)
        with pytest.raises(FileFormatError, match="cannot read .*x\\."):
            read_picture(path)


def test_folders_without_pictures_and_with_equal_names(make, tmp_path):
    with pytest.raises(ValueError, match="must hold pictures"):
        find_pictures(tmp_path)
    for name in ("a.png", "a.jpg"):
        Image.fromarray(make(1)[0]).save(tmp_path / name)
    with pytest.raises(ValueError, match=r"got a\.jpg and a\.png"):
        find_pictures(tmp_path)
