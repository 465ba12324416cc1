"""SVHN from MATLAB files: compressed or not, and hostile."""

import io
import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from scipy.io import savemat

from wildcal._old.core.errors import FileFormatError
from wildcal._old.vision.datasets import svhn
from wildcal._old.vision.datasets.mat import read_mat

FILE = "test_32x32.mat"


def make(n=6):
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (32, 32, 3, n), dtype=np.uint8)
    return pixels, np.array([[1], [10], [9], [5], [10], [2]], np.uint8)[:n]


def mat(compress=False, **variables):
    file = io.BytesIO()
    savemat(file, variables, do_compression=compress)
    return bytearray(file.getvalue())


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("dtype", [np.uint8, np.float64])
def test_both_kinds_of_file(tmp_path, compress, dtype):
    pixels, y = make()
    extra = {"note": "text", "table": {"a": [1, 2]}, "z": np.array([1 + 2j]), "e": np.zeros((0, 0))}
    content = mat(compress, X=pixels, y=y.astype(dtype), **extra)
    (tmp_path / "svhn").mkdir()
    (tmp_path / "svhn" / FILE).write_bytes(content)
    (tmp_path / "svhn" / "train_32x32.mat").write_bytes(content)
    for folder in (tmp_path, str(tmp_path / "svhn")):
        data = svhn(folder)
        assert data.name == "svhn-test"
        assert np.array_equal(data.read(slice(None)), pixels.transpose(3, 0, 1, 2))
        assert data.labels.tolist() == [1, 0, 9, 5, 0, 2]
        assert data.labels.dtype == np.int64
        assert data.class_names == tuple("0123456789")
    assert svhn(tmp_path, "train").name == "svhn-train"


def test_the_other_byte_order(tmp_path):
    pixels, y = make(1)

    def element(kind, content):
        return struct.pack(">II", kind, len(content)) + content + bytes(-len(content) % 8)

    def variable(name, array):
        return element(
            14,
            element(6, struct.pack(">II", 9, 0))
            + element(5, struct.pack(f">{array.ndim}i", *array.shape))
            + element(1, name)
            + element(2, array.tobytes("F")),
        )

    start = b"MATLAB 5.0 MAT-file".ljust(124) + b"\x01\x00MI"
    (tmp_path / FILE).write_bytes(start + variable(b"X", pixels) + variable(b"y", y))
    assert np.array_equal(svhn(tmp_path).read(slice(None)), pixels.transpose(3, 0, 1, 2))


def test_missing(tmp_path):
    with pytest.raises(
        FileNotFoundError, match="http://ufldl.stanford.edu/housenumbers/"
    ) as caught:
        svhn(tmp_path, "train")
    assert str(tmp_path / "svhn" / "train_32x32.mat") in str(caught.value)


def test_wrong_part(tmp_path):
    with pytest.raises(ValueError, match="part must be one of 'train', 'test', got 'extra'."):
        svhn(tmp_path, "extra")


def refused(tmp_path, content, message):
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(FileFormatError, match=message) as caught:
        svhn(tmp_path)
    assert str(tmp_path / FILE) in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.array([[1], [2]], np.uint8)}, "one label y for each of 6 images, got 2"),
        ({"y": np.array([[0, 1, 2, 3, 4, 5]], np.uint8)}, "labels y from 1 to 10"),
        ({"y": np.array([[11, 1, 2, 3, 4, 5]], np.uint8)}, "labels y from 1 to 10"),
        ({"y": np.array([[1.5, 1, 2, 3, 4, 5]])}, "labels y from 1 to 10"),
        ({"y": np.array([[np.nan, 1, 2, 3, 4, 5]])}, "labels y from 1 to 10"),
        ({"y": "123456"}, "must hold the arrays X and y, got 'X'"),
        ({"X": np.array([[1], ["a"]], object)}, "must hold the arrays X and y, got 'y'"),
        ({"X": np.zeros((6, 32, 32, 3), np.uint8)}, r"uint8 of shape \(32, 32, 3, n\), got uint8"),
        ({"X": np.zeros((32, 32, 3, 6))}, "got float64"),
        ({"X": np.zeros((32, 32, 3), np.uint8)}, r"got uint8 \(32, 32, 3\)"),
    ],
)
@pytest.mark.parametrize("compress", [False, True])
def test_wrong_content(tmp_path, change, message, compress):
    pixels, y = make()
    refused(tmp_path, mat(compress, **({"X": pixels, "y": y} | change)), message)


@pytest.mark.parametrize("content", [b"", b"MATLAB 5.0", bytes(500), b"\x89HDF\r\n\x1a\n" * 40])
def test_wrong_beginning(tmp_path, content):
    refused(tmp_path, content, "it does not begin as a MATLAB 5 file")


@pytest.mark.parametrize("compress", [False, True])
def test_every_cut_is_noticed(tmp_path, compress):
    whole = mat(compress, X=make(1)[0], y=make(1)[1])
    for size in [*range(len(whole) - 1, len(whole) - 90, -1), *range(129, len(whole), 97)]:
        refused(tmp_path, whole[:size], "cannot read|must hold the arrays")


def test_a_shape_larger_than_the_data(tmp_path):
    content = mat(X=make()[0], y=make()[1])
    at = content.index(struct.pack("<4i", 32, 32, 3, 6))
    content[at + 12 : at + 16] = struct.pack("<i", 2**31 - 1)
    refused(tmp_path, content, r"shape \(32, 32, 3, 2147483647\) .* does not fit its data")
    content[at + 12 : at + 16] = struct.pack("<i", -6)
    refused(tmp_path, content, "does not fit its data")


def test_a_size_larger_than_the_file(tmp_path):
    content = mat(X=make()[0], y=make()[1])
    content[132:136] = b"\xf8\xff\xff\xff"
    refused(tmp_path, content, "it is cut short")


def test_a_compressed_part_that_grows_without_end(tmp_path):
    bomb = zlib.compress(bytes(100_000_000))
    start = mat(X=make()[0])[:128]
    (tmp_path / FILE).write_bytes(start + struct.pack("<II", 15, len(bomb)) + bomb)
    tracemalloc.start()
    with pytest.raises(FileFormatError, match="larger than any published one"):
        read_mat(tmp_path / FILE, 1_000_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000


def test_the_same_variable_twice(tmp_path):
    content = mat(X=make()[0], y=make()[1])
    refused(tmp_path, content + content[128:], "it holds 'X' twice")


def test_elements_without_end(tmp_path):
    """Empty ones, of which a file of the right size holds 38 million."""
    header = mat(X=make()[0])[:128]
    (tmp_path / FILE).write_bytes(header + 10_001 * struct.pack("<II", 1, 0))
    with pytest.raises(FileFormatError, match="it has more than 10,000 elements"):
        svhn(tmp_path)


def test_too_large_a_file_is_not_read(tmp_path):
    with (tmp_path / FILE).open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(FileFormatError, match="1,073,741,824 bytes; a published file has at most"):
        svhn(tmp_path)


@pytest.mark.parametrize("compress", [False, True])
def test_changed_bytes_never_end_otherwise(tmp_path, compress):
    """A file is read or refused; SciPy's reader crashes the interpreter on some of these."""
    whole = mat(compress, X=make(1)[0], y=make(1)[1])
    rng = np.random.default_rng(0)
    places = [*range(100, 220), *range(len(whole) - 90, len(whole))]
    outcomes = set()
    for _ in range(500):
        content = bytearray(whole)
        for place in rng.choice(places, rng.integers(1, 4)):
            content[place] = rng.integers(256)
        (tmp_path / FILE).write_bytes(content)
        try:
            outcomes.add(f"read {len(svhn(tmp_path))}")
        except FileFormatError as error:
            outcomes.add("refused" if str(tmp_path / FILE) in str(error) else str(error))
    assert outcomes == {"read 1", "refused"}
