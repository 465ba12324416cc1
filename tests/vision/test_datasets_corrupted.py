"""CIFAR-10-C and CIFAR-100-C: five severities in one mapped file."""

import numpy as np
import pytest

from wildcal._old.core.errors import FileFormatError
from wildcal._old.vision.datasets import cifar10_c, cifar100_c
from wildcal._old.vision.datasets.corrupted import CORRUPTIONS

READERS = {10: (cifar10_c, "CIFAR-10-C", "2535967"), 100: (cifar100_c, "CIFAR-100-C", "3555552")}


def write(folder, n=4, n_classes=10, name="fog"):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (5 * n, 32, 32, 3), dtype=np.uint8)
    labels = np.tile(rng.integers(0, n_classes, n), 5).astype(np.uint8)
    np.save(folder / f"{name}.npy", images)
    np.save(folder / "labels.npy", labels)
    return images, labels


@pytest.mark.parametrize("n_classes", READERS)
def test_a_cell(tmp_path, n_classes):
    read, folder, _ = READERS[n_classes]
    home = tmp_path / folder
    home.mkdir()
    images, labels = write(home, n_classes=n_classes)
    for severity in range(1, 6):
        for place in (tmp_path, home, str(home)):
            data = read(place, "fog", severity)
            cell = slice(4 * severity - 4, 4 * severity)
            assert data.name == f"cifar{n_classes}-c-fog-{severity}"
            assert np.array_equal(data.read(slice(None)), images[cell])
            assert np.array_equal(data.read(np.array([3, 1])), images[cell][[3, 1]])
            assert np.array_equal(data.labels, labels[cell])
            assert data.labels.dtype == np.int64
            assert len(data.class_names) == n_classes == len(data.classes)
            assert type(data.read(slice(2))) is np.ndarray  # not a map, and free to write to


def test_the_images_are_mapped_not_read(tmp_path):
    write(tmp_path)
    assert isinstance(cifar10_c(tmp_path, "fog", 3).images, np.memmap)


def test_the_names_are_those_of_shift(needs):
    needs("cv2")
    needs("PIL")
    from wildcal._old.shift import CORRUPTIONS as SHIFT

    assert CORRUPTIONS == SHIFT


@pytest.mark.parametrize("n_classes", READERS)
def test_missing(tmp_path, n_classes):
    read, folder, record = READERS[n_classes]
    with pytest.raises(
        FileNotFoundError, match=f"{folder}.* at https://zenodo.org/records/{record}"
    ):
        read(tmp_path, "fog", 1)
    write(tmp_path)
    (tmp_path / "labels.npy").unlink()
    with pytest.raises(FileNotFoundError, match="labels.npy. It is published"):
        read(tmp_path, "fog", 1)


@pytest.mark.parametrize(
    ("name", "severity", "message"),
    [
        ("fgo", 1, "name must be one of 'gaussian_noise', .* got 'fgo'."),
        ("../fog", 1, "name must be one of"),
        ("fog", 0, "severity must be a whole number of at least 1, got 0."),
        ("fog", 6, "severity must be an integer from 1 to 5, got 6."),
        ("fog", 1.0, "severity must be a whole number"),
        ("fog", True, "severity must be a whole number"),
    ],
)
def test_wrong_cell(tmp_path, name, severity, message):
    with pytest.raises(ValueError, match=message):
        cifar10_c(tmp_path, name, severity)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.zeros((6, 32, 32, 3), np.uint8), "as many images for each of the 5 severities, got 6"),
        (np.zeros((5, 3, 32, 32), np.uint8), r"uint8 of shape \(n, 32, 32, 3\), got uint8 \(5, 3"),
        (np.zeros((5, 32, 32, 3), np.int16), "got int16"),
        (np.zeros((5, 32, 32, 3)), "must hold integers, got dtype float64"),
        (np.zeros((0, 32, 32, 3), np.uint8), "cut short"),
        (np.zeros(5, np.uint8), r"got uint8 \(5,\)"),
        (np.zeros((), np.uint8), r"got uint8 \(\)"),
    ],
)
def test_wrong_images(tmp_path, images, message):
    write(tmp_path, n=1)
    np.save(tmp_path / "fog.npy", images)
    with pytest.raises(FileFormatError, match=message):
        cifar10_c(tmp_path, "fog", 1)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1, 2, 3, 1, 2, 3, 1, 2, 3, 1], "must repeat the same labels for each severity"),
        ([1, 2] * 4 + [2, 1], "must repeat the same labels for each severity"),
        ([1, 2] * 4, "10 rows, 8 labels"),
        ([1, 10] * 5, r"y must lie in \[0, 9\], got \[1, 10\]"),
        ([1, -1] * 5, r"y must lie in \[0, 9\]"),
    ],
)
def test_wrong_labels(tmp_path, labels, message):
    write(tmp_path, n=2)
    np.save(tmp_path / "labels.npy", np.array(labels))
    with pytest.raises(FileFormatError, match=message):
        cifar10_c(tmp_path, "fog", 1)


def test_images_and_labels_swapped(tmp_path):
    write(tmp_path)
    (tmp_path / "fog.npy").rename(tmp_path / "x")
    (tmp_path / "labels.npy").rename(tmp_path / "fog.npy")
    (tmp_path / "x").rename(tmp_path / "labels.npy")
    with pytest.raises(FileFormatError, match="fog.npy must be uint8 of shape"):
        cifar10_c(tmp_path, "fog", 1)


def header(text, version=b"\x01\x00"):
    body = text.encode() + b"\n"
    size = len(body).to_bytes(2 if version == b"\x01\x00" else 4, "little")
    return b"\x93NUMPY" + version + size + body


LAYOUT = "{'descr': '|u1', 'fortran_order': False, 'shape': "


@pytest.mark.parametrize("name", ["fog.npy", "labels.npy"])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        b"\x80\x02]q\x00.",
        header(LAYOUT + "(50000000000000, 32, 32, 3)}") + bytes(100),
        header(LAYOUT + "(9223372036854775807, 9223372036854775807, 32, 3)}") + bytes(100),
        header(LAYOUT + f"({'9' * 4000}, {'9' * 4000})}}") + bytes(100),
        header(LAYOUT + "(-5, 32, 32, -3)}") + bytes(5 * 32 * 32 * 3),
        header(LAYOUT + "(5, 32, 32, 3)}") + bytes(5 * 32 * 32 * 3 - 1),
        header(LAYOUT + "(5, 32, 32, 3)}") + bytes(5 * 32 * 32 * 3 + 1),
        header(LAYOUT.replace("|u1", "|O") + "(5, 32, 32, 3)}") + b"cos\nsystem\n(S'x'\ntR.",
        header(LAYOUT.replace("|u1", "<f8") + "(5,)}") + bytes(40),
        header("(" * 5000),
        header("__import__('os').system('touch owned')"),
        header(LAYOUT + "(5,)}", b"\x09\x00") + bytes(5),
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + bytes(100),
    ],
)
def test_hostile_headers(tmp_path, name, content):
    write(tmp_path, n=1)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FileFormatError, match=name):
        cifar10_c(tmp_path, "fog", 1)
