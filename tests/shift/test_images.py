"""Reading and writing: what comes back, and one clear line for what cannot be read."""

import tracemalloc
import zipfile
from contextlib import suppress

import numpy as np
import pytest
from PIL import Image

from wildcal._old.core.errors import FileFormatError
from wildcal._old.shift.gallery import gallery
from wildcal._old.shift.images import (
    Batch,
    batch_file,
    find_pictures,
    read_batch,
    read_picture,
    write_batch,
    write_picture,
)
from wildcal._old.shift.scene import scene
from wildcal._old.vision.datasets.decode import read_square


def records(images, labels):
    planes = images.transpose(0, 3, 1, 2).reshape(len(images), -1)
    return np.concatenate([labels, planes], axis=1).astype(np.uint8).tobytes()


@pytest.mark.parametrize("n_labels", [1, 2])
def test_cifar_records(make, tmp_path, n_labels):
    images = make(7)
    labels = np.arange(7 * n_labels, dtype=np.uint8).reshape(7, n_labels)
    path = tmp_path / "test_batch.bin"
    path.write_bytes(records(images, labels))
    batch = read_batch(path)
    assert np.array_equal(batch.images, images)
    assert np.array_equal(batch.others["labels"], labels)
    write_batch(tmp_path / "again.bin", batch)
    assert (tmp_path / "again.bin").read_bytes() == path.read_bytes()
    assert batch_file(tmp_path) == path


def test_npz(make, tmp_path):
    images = make(3, 40, 50)
    batch = Batch(images, {"labels": np.arange(3), "names": np.array(["a", "b", "c"])})
    write_batch(tmp_path / "x.npz", batch)
    again = read_batch(tmp_path / "x.npz")
    assert np.array_equal(again.images, images)
    assert again.others["names"].tolist() == ["a", "b", "c"]


def test_pictures_are_found_in_order_and_read_as_rgb(make, tmp_path):
    image = make(1, 40, 50)[0]
    (tmp_path / "b").mkdir()
    write_picture(tmp_path / "b" / "1.png", image)
    Image.fromarray(image).convert("L").save(tmp_path / "c.PNG")
    Image.fromarray(image).convert("RGBA").save(tmp_path / "a.webp", lossless=True)
    Image.fromarray(image).convert("P").save(tmp_path / "d.png")
    (tmp_path / "notes.txt").write_text("")
    paths = find_pictures(tmp_path)
    assert [p.as_posix() for p in paths] == ["a.webp", "b/1.png", "c.PNG", "d.png"]
    assert np.array_equal(read_picture(tmp_path / "b" / "1.png"), image)
    assert np.array_equal(read_picture(tmp_path / "a.webp"), image)
    assert all(read_picture(tmp_path / p).shape == (40, 50, 3) for p in paths)


def write_pickle(path):
    np.savez(path, images=np.array([object()], dtype=object))


@pytest.mark.parametrize(
    ("name", "make_file", "text"),
    [
        ("x.bin", lambda p: p.write_bytes(b"\0" * 3072), "its 3,072 bytes are not whole CIFAR"),
        ("x.bin", lambda p: p.write_bytes(b""), "its 0 bytes are not whole CIFAR records"),
        ("x.npz", lambda p: p.write_bytes(b"PK\3\4 broken"), "cannot read"),
        ("x.npz", lambda p: p.write_bytes(b"hello"), "cannot read"),
        ("x.npz", lambda p: p.write_bytes(b""), "cannot read"),
        ("x.npz", write_pickle, "allow_pickle=False"),
        (
            "x.npz",
            lambda p: np.savez(p, logits=np.ones(3)),
            "it has no array `images`, only logits.",
        ),
        ("x.npz", lambda p: np.savez(p, images=np.ones((1, 32, 32, 3))), "must be uint8"),
        ("x.npz", lambda p: np.savez(p, images=np.ones((32, 32, 3), np.uint8)), "(N, H, W, 3)"),
    ],
)
def test_damaged_batches(tmp_path, name, make_file, text):
    path = tmp_path / name
    make_file(path)
    with pytest.raises(ValueError, match="cannot read") as caught:
        read_batch(path)
    assert str(path) in str(caught.value)
    assert text in str(caught.value)


def test_damaged_pictures(make, tmp_path):
    image = make(1, 64, 64)[0]
    for name, options in (("x.png", {}), ("x.jpg", {}), ("x.webp", {"lossless": True})):
        path = tmp_path / name
        Image.fromarray(image).save(path, **options)
        whole = path.read_bytes()
        for damaged in (whole[: len(whole) // 2], b"no picture", b""):
            path.write_bytes(damaged)
            with pytest.raises(ValueError, match="cannot read .*x\\."):
                read_picture(path)
    write_picture(tmp_path / "small.png", image[:20])
    with pytest.raises(ValueError, match="small.png: images must be at least 32 x 32"):
        read_picture(tmp_path / "small.png")


def test_folders_without_pictures_and_with_twins(make, tmp_path):
    with pytest.raises(ValueError, match="holds no pictures"):
        find_pictures(tmp_path)
    for name in ("a.png", "a.jpg"):
        Image.fromarray(make(1)[0]).save(tmp_path / name)
    with pytest.raises(ValueError, match="both be written as .png"):
        find_pictures(tmp_path)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        batch_file(tmp_path / "nothing")
    with pytest.raises(ValueError, match="give a folder of pictures, an .npz"):
        batch_file(tmp_path / "a.png")


def test_scene_and_gallery(make):
    picture = scene()
    assert (picture.shape, picture.dtype) == ((224, 224, 3), np.uint8)
    assert picture.std() > 40
    rows = []
    sheet = gallery(make(1)[0], advance=lambda: rows.append(1))
    assert len(rows) == 19 + 12
    assert sheet.shape[0] > 31 * 112
    assert sheet.shape[1] > 6 * 112
    wide = gallery(make(1, 60, 90)[0])
    assert wide.shape == sheet.shape


def test_hostile_batches_are_refused_in_a_line(tmp_path):
    """Archives made to fill a memory, damaged inside, or with a header that lies."""
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("images.npy", "w") as member:
            for _ in range(200):
                member.write(bytes(1 << 20))
    with pytest.raises(ValueError, match=r"its [\d,]+ bytes would grow to 209,715,200"):
        read_batch(path)
    np.savez_compressed(path, images=np.arange(3 * 40 * 40 * 3).reshape(3, 40, 40, 3))
    data = bytearray(path.read_bytes())
    data[200:400] = bytes(range(200))
    path.write_bytes(data)
    with pytest.raises(ValueError, match="cannot read .*x.npz: "):
        read_batch(path)


def test_pictures_of_other_formats_are_not_opened(tmp_path, monkeypatch):
    """PostScript in a .png would be handed to another program."""
    monkeypatch.setattr("subprocess.check_call", lambda *_, **__: pytest.fail("it was started"))
    path = tmp_path / "x.png"
    Image.new("RGB", (40, 40)).save(path, format="EPS")
    with pytest.raises(ValueError, match="cannot identify image file"):
        read_picture(path)


def test_pictures_of_too_many_pixels(tmp_path, monkeypatch):
    monkeypatch.setattr("wildcal._old.shift.images._MOST_PIXELS", 1000)
    Image.new("RGB", (40, 40)).save(tmp_path / "x.png")
    with pytest.raises(ValueError, match="it has 40 x 40 pixels, too many"):
        read_picture(tmp_path / "x.png")


def test_claims_of_a_damaged_picture_take_no_memory(make, tmp_path):
    """A chunk of 3.8 GB: Pillow asks for it, and it must not be set aside."""
    path = tmp_path / "x.png"
    write_picture(path, make(1, 64, 64)[0])
    data = bytearray(path.read_bytes())
    at = data.index(b"IDAT")
    data[at - 4 : at] = (0xE0000000).to_bytes(4, "big")
    path.write_bytes(data)
    tracemalloc.start()
    try:
        with suppress(ValueError):  # its pixels are there, so it may be read
            read_picture(path)
        with suppress(FileFormatError):
            read_square(path, 32, 32)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_pictures_of_too_many_bytes(tmp_path):
    path = tmp_path / "x.png"
    with path.open("wb") as file:
        file.truncate(300 << 30)
    with pytest.raises(ValueError, match="it has 322,122,547,200 bytes"):
        read_picture(path)
    with pytest.raises(FileFormatError, match="it has 322,122,547,200 bytes"):
        read_square(path, 32, 32)
