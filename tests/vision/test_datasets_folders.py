"""Folders of pictures: labels from names, squares from pictures, sentences for the rest."""

import os
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest

from wildcal._old.core.errors import FileFormatError
from wildcal._old.vision.datasets import image_folder, textures


@pytest.fixture(autouse=True)
def _pillow(needs):
    needs("PIL")


def picture(width, height, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (height, width, 3), dtype=np.uint8)


def save(path, pixels, mode="RGB", **options):
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).convert(mode).save(path, **options)
    return path


def resized(pixels, width, height):
    from PIL import Image

    return np.asarray(Image.fromarray(pixels).resize((width, height), Image.Resampling.BILINEAR))


def test_labels_follow_the_sorted_folders(tmp_path):
    save(tmp_path / "dog" / "b.png", picture(8, 8, 1))
    save(tmp_path / "dog" / "a.JPG", picture(8, 8, 2))
    save(tmp_path / "cat" / "z.png", picture(8, 8, 3))
    save(tmp_path / ".hidden" / "x.png", picture(8, 8))
    (tmp_path / "dog" / ".a.png").write_bytes(b"")
    (tmp_path / "dog" / "notes.txt").write_text("")
    (tmp_path / "dog" / "folder.png").mkdir()
    (tmp_path / "readme.txt").write_text("")
    data = image_folder(tmp_path, 8)
    assert data.name == tmp_path.name
    assert data.class_names == ("cat", "dog")
    assert data.files == ("cat/z.png", "dog/a.JPG", "dog/b.png")
    assert data.labels.tolist() == [0, 1, 1]
    assert data.labels.dtype == data.classes.dtype == np.int64
    assert data.classes.tolist() == [0, 1]
    assert len(data) == 3
    got = data.read(np.array([2, 0, 2]))
    assert np.array_equal(got, np.stack([picture(8, 8, k) for k in (1, 3, 1)]))
    assert got.flags.c_contiguous
    assert data.read(slice(1)).shape == (1, 8, 8, 3)
    assert data.read(np.arange(0)).shape == (0, 8, 8, 3)


def test_given_classes(tmp_path):
    save(tmp_path / "dog" / "a.png", picture(8, 8))
    save(tmp_path / "ant" / "a.png", picture(8, 8))
    data = image_folder(tmp_path, 8, class_names=["dog", "cat", "ant"])
    assert data.labels.tolist() == [2, 0]
    assert data.classes.tolist() == [0, 2]
    assert data.class_names == ("dog", "cat", "ant")
    with pytest.raises(FileFormatError, match="ant must be named after one of the 2 classes"):
        image_folder(tmp_path, 8, class_names=["dog", "cat"])
    with pytest.raises(ValueError, match="class_names must differ"):
        image_folder(tmp_path, 8, class_names=["dog", "ant", "dog"])


@pytest.mark.parametrize(("width", "height"), [(50, 40), (40, 50), (40, 40), (301, 77), (77, 300)])
@pytest.mark.parametrize(("size", "resize"), [(32, None), (32, 37), (40, 40), (64, 64)])
def test_short_side_then_center(tmp_path, width, height, size, resize):
    pixels = picture(width, height)
    save(tmp_path / "a" / "a.png", pixels)
    short = resize or size
    long = int(short * max(width, height) / min(width, height))
    w, h = (long, short) if width > height else (short, long)
    left, top = round((w - size) / 2), round((h - size) / 2)
    expected = resized(pixels, w, h)[top : top + size, left : left + size]
    got = image_folder(tmp_path, size, resize).read(slice(None))
    assert np.array_equal(got[0], expected)


def test_small_detail_is_averaged_not_skipped(tmp_path):
    """Without antialiasing, a fine chequerboard would come out black and white."""
    board = (np.indices((256, 256)).sum(0) % 2 * 255).astype(np.uint8)
    save(tmp_path / "a" / "a.png", np.repeat(board[..., None], 3, axis=2))
    got = image_folder(tmp_path, 32).read(slice(None))
    assert abs(got.astype(int) - 127).max() <= 3


@pytest.mark.parametrize("mode", ["L", "RGBA", "CMYK", "P", "1"])
def test_every_mode_becomes_rgb(tmp_path, mode):
    ending = "jpg" if mode == "CMYK" else "png"
    save(tmp_path / "a" / f"a.{ending}", picture(16, 16), mode)
    assert image_folder(tmp_path, 16).read(slice(None)).shape == (1, 16, 16, 3)


def test_a_palette_with_transparency(tmp_path):
    save(tmp_path / "a" / "a.png", picture(16, 16), "P", transparency=bytes([0, 128] * 128))
    assert image_folder(tmp_path, 16).read(slice(None)).shape == (1, 16, 16, 3)


def test_threads_give_the_same(tmp_path):
    from wildcal._old.core.parallel import use_threads

    for k in range(9):
        save(tmp_path / "a" / f"{k}.png", picture(20, 30, k))
    data = image_folder(tmp_path, 16)
    with use_threads(1):
        one = data.read(slice(None))
    with use_threads(4):
        assert np.array_equal(data.read(slice(None)), one)


def test_wrong_folders(tmp_path):
    with pytest.raises(FileNotFoundError, match="none was not found; give a folder"):
        image_folder(tmp_path / "none", 8)
    with pytest.raises(FileFormatError, match="one folder for each class, and holds no folder"):
        image_folder(tmp_path, 8)
    (tmp_path / "cat").mkdir()
    with pytest.raises(FileFormatError, match=r"cat must hold pictures \(.jpeg, .*holds none."):
        image_folder(tmp_path, 8)


@pytest.mark.parametrize(
    ("size", "resize", "message"),
    [
        (0, None, "must be a whole number of at least 1, got 0"),
        (8.0, None, "must be a whole number"),
        (8, 7, "resize must be at least size = 8, got 7."),
        (8, 0, "resize must be a whole number of at least 1, got 0"),
    ],
)
def test_wrong_sizes(tmp_path, size, resize, message):
    save(tmp_path / "a" / "a.png", picture(8, 8))
    with pytest.raises(ValueError, match=message):
        image_folder(tmp_path, size, resize)


def unreadable(tmp_path, message):
    with pytest.raises(FileFormatError, match=message) as caught:
        image_folder(tmp_path, 8).read(slice(None))
    text = str(caught.value)
    assert text.startswith(f"cannot read {tmp_path / 'a' / 'a.'}")
    assert text.count("\n") == 0


@pytest.mark.parametrize("ending", ["png", "jpg", "webp", "bmp"])
def test_pictures_that_are_cut_short(tmp_path, ending):
    path = save(tmp_path / "a" / f"a.{ending}", picture(64, 64))
    whole = path.read_bytes()
    for size in (0, 1, 20, len(whole) // 2):
        path.write_bytes(whole[:size])
        unreadable(tmp_path, "Unpack the published archive again.")


@pytest.mark.parametrize("content", [b"", b"not a picture", b"\xff\xd8\xff\xe0" + bytes(50)])
def test_files_that_are_no_pictures(tmp_path, content):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "a.jpg").write_bytes(content)
    unreadable(tmp_path, "Unpack the published archive again.")


@pytest.mark.parametrize("kind", ["TIFF", "PCX", "TGA", "EPS"])
def test_other_formats_are_not_opened(tmp_path, kind):
    """By their content, whatever the ending; EPS would be handed to Ghostscript."""
    save(tmp_path / "a" / "a.png", picture(16, 16), format=kind)
    unreadable(tmp_path, "cannot identify image file")


@pytest.mark.parametrize("kind", ["PNG", "GIF", "WEBP", "BMP"])
def test_other_pictures_named_jpeg(tmp_path, kind):
    save(tmp_path / "a" / "a.JPEG", picture(16, 16), format=kind)
    assert image_folder(tmp_path, 16).read(slice(None)).shape == (1, 16, 16, 3)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "BMP"])
def test_changed_bytes_never_end_otherwise(tmp_path, kind):
    path = save(tmp_path / "a" / "a.png", picture(20, 24), format=kind)
    whole, data, rng = path.read_bytes(), image_folder(tmp_path, 16), np.random.default_rng(0)
    outcomes = set()
    for _ in range(200):
        content = bytearray(whole)
        for place in rng.integers(0, min(400, len(whole)), rng.integers(1, 4)):
            content[place] = rng.integers(256)
        path.write_bytes(content)
        try:
            outcomes.add(data.read(slice(None)).shape)
        except FileFormatError as error:
            outcomes.add("refused" if str(path) in str(error) else str(error))
    assert outcomes <= {(1, 16, 16, 3), "refused"}


def png(width, height):
    """A PNG that claims a size and holds next to nothing."""

    def chunk(kind, body):
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = chunk(b"IDAT", zlib.compress(bytes(1000)))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + data + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("width", "height", "message"),
    [
        (8000, 8000, "8000 x 8000 pixels, more than 60 million"),
        (10_000, 10_000, "decompression bomb|more than 60 million"),
        (30_000, 30_000, "decompression bomb"),
        (2, 60_000, "a stripe of 2 x 60000 pixels"),
        (101, 2, "a stripe of 101 x 2 pixels"),
    ],
)
def test_pictures_that_claim_too_much(tmp_path, width, height, message):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "a.png").write_bytes(png(width, height))
    unreadable(tmp_path, message)


def test_a_picture_that_went_away(tmp_path):
    path = save(tmp_path / "a" / "a.png", picture(8, 8))
    data = image_folder(tmp_path, 8)
    path.unlink()
    with pytest.raises(FileNotFoundError, match="a.png does not exist any more."):
        data.read(slice(None))


def test_a_pipe_is_no_picture(tmp_path):
    save(tmp_path / "a" / "a.png", picture(8, 8))
    os.mkfifo(tmp_path / "a" / "b.png")  # opening it would wait for ever
    assert len(image_folder(tmp_path, 8)) == 1


def test_textures(tmp_path):
    home = tmp_path / "dtd" / "images"
    for name in ("waffled", "banded"):
        save(home / name / f"{name}_0002.jpg", picture(60, 40))
    (home / "banded" / ".directory").write_text("")
    (tmp_path / "dtd" / "labels").mkdir()
    for folder in (tmp_path, tmp_path / "dtd", home):
        data = textures(folder)
        assert data.name == "textures"
        assert data.class_names == ("banded", "waffled")
        assert data.labels.tolist() == [0, 1]
        assert data.read(slice(None)).shape == (2, 32, 32, 3)
    assert textures(home, 224).read(slice(1)).shape == (1, 224, 224, 3)


def test_missing_textures(tmp_path):
    (tmp_path / "labels").mkdir()
    with pytest.raises(
        FileNotFoundError, match="https://www.robots.ox.ac.uk/~vgg/data/dtd/"
    ) as got:
        textures(tmp_path)
    assert f"looked for {tmp_path / 'dtd' / 'images'}, {tmp_path / 'images'}, " in str(got.value)


def test_without_pillow(tmp_path):
    """Everything but pictures works without Pillow, and pictures say what to install."""
    save(tmp_path / "a" / "a.png", picture(8, 8))
    (tmp_path / "test_batch.bin").write_bytes(bytes(3073))
    program = f"""
import sys
sys.modules["PIL"] = sys.modules["cv2"] = sys.modules["torch"] = None
from wildcal._old.core.errors import MissingExtraError
from wildcal._old.vision.datasets import cifar10, image_folder
print(len(cifar10({str(tmp_path)!r}, "test")))
try:
    image_folder({str(tmp_path)!r}, 8)
except MissingExtraError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout == (
        '1\nreading pictures needs Pillow. Install it with: pip install "wildcal[shift]"\n'
    )
