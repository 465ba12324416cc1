"""CIFAR in every published layout, and damaged in many ways."""

import pickle
import struct

import numpy as np
import pytest

from wildcal._old.core.errors import FileFormatError
from wildcal._old.vision.datasets import cifar10, cifar100
from wildcal._old.vision.datasets.cifar_names import CIFAR10_NAMES, CIFAR100_NAMES

READERS = {10: cifar10, 100: cifar100}


def make(n, n_classes, seed=0):
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8)
    return images, rng.integers(0, n_classes, n)


def planes(images):
    return images.transpose(0, 3, 1, 2).reshape(len(images), -1)


def write_binary(folder, stem, images, labels, n_classes):
    coarse = [np.zeros((len(labels), 1))] if n_classes == 100 else []
    parts = [*coarse, np.asarray(labels)[:, None], planes(images)]
    path = folder / f"{stem}.bin"
    path.write_bytes(np.concatenate(parts, axis=1).astype(np.uint8).tobytes())
    return path


def write_python3(folder, stem, images, labels, n_classes):
    """Protocol 2 as Python 3 writes it: bytes are text that is to be encoded as latin-1."""
    key = b"fine_labels" if n_classes == 100 else b"labels"
    content = {
        b"batch_label": b"one of five",
        key: [int(k) for k in labels],
        b"data": np.ascontiguousarray(planes(images)),
        b"filenames": [b"caf\xe9_%d.png" % k for k in range(len(labels))],
    }
    path = folder / stem
    path.write_bytes(pickle.dumps(content, 2))
    return path


def string(text):
    return b"U" + bytes([len(text)]) + text


def python2(content):
    """Protocol 2 as Python 2 and an old NumPy wrote it, by hand: such are the published files."""
    out = b"\x80\x02}q\x01("
    for key, value in content.items():
        out += string(key)
        if isinstance(value, bytes):
            out += string(value)
        elif isinstance(value, int):
            out += b"J" + struct.pack("<i", value)
        elif isinstance(value, list):
            items = [string(v) if isinstance(v, bytes) else b"K" + bytes([v]) for v in value]
            out += b"]q\x02(" + b"".join(items) + b"e"
        else:
            raw = value.tobytes()
            out += b"cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nq\x04K\x00\x85"
            out += b"U\x01b\x87Rq\x05(K\x01"
            out += b"".join(b"M" + struct.pack("<H", k) for k in value.shape) + b"\x86"
            out += b"cnumpy\ndtype\nq\x06U\x02u1K\x00K\x01\x87Rq\x07(K\x03U\x01|NNN"
            out += b"J\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
            out += b"T" + struct.pack("<I", len(raw)) + raw + b"tb"
    return out + b"u."


def write_python2(folder, stem, images, labels, n_classes):
    key = b"fine_labels" if n_classes == 100 else b"labels"
    content = {
        b"batch_label": b"one of five",
        key: [int(k) for k in labels],
        b"data": planes(images),
        b"filenames": [b"%d.png" % k for k in range(len(labels))],
    }
    path = folder / stem
    path.write_bytes(python2(content))
    return path


WRITERS = {
    "bin": (write_binary, {10: "cifar-10-batches-bin", 100: "cifar-100-binary"}),
    "py3": (write_python3, {10: "cifar-10-batches-py", 100: "cifar-100-python"}),
    "py2": (write_python2, {10: "cifar-10-batches-py", 100: "cifar-100-python"}),
}


@pytest.mark.parametrize("n_classes", [10, 100])
@pytest.mark.parametrize("kind", WRITERS)
def test_every_layout(tmp_path, kind, n_classes):
    write, folders = WRITERS[kind]
    home = tmp_path / folders[n_classes]
    home.mkdir()
    images, labels = make(11, n_classes)
    stems = [f"data_batch_{k}" for k in range(1, 6)] if n_classes == 10 else ["train"]
    pieces = np.array_split(np.arange(11), len(stems))
    for stem, rows in zip(stems, pieces, strict=True):
        write(home, stem, images[rows], labels[rows], n_classes)
    write(home, "test_batch" if n_classes == 10 else "test", images[:3], labels[:3], n_classes)
    read = READERS[n_classes]
    for folder in (tmp_path, home, str(home)):
        train, test = read(folder, "train"), read(folder, "test")
        assert train.name == f"cifar{n_classes}-train"
        assert np.array_equal(train.read(slice(None)), images)
        assert np.array_equal(train.labels, labels)
        assert test.labels.dtype == np.int64
        assert np.array_equal(test.read(np.array([2, 0])), images[[2, 0]])
        assert len(test.class_names) == n_classes == len(test.classes)


def test_the_binary_version_goes_first(tmp_path):
    for folder, write, seed in [("py", write_python3, 1), ("bin", write_binary, 2)]:
        home = tmp_path / f"cifar-10-batches-{folder}"
        home.mkdir()
        write(home, "test_batch", *make(2, 10, seed), 10)
    assert np.array_equal(cifar10(tmp_path, "test").read(slice(None)), make(2, 10, 2)[0])


def test_names():
    assert len(set(CIFAR10_NAMES)) == 10
    assert len(set(CIFAR100_NAMES)) == 100
    assert list(CIFAR100_NAMES) == sorted(CIFAR100_NAMES)


@pytest.mark.parametrize("n_classes", [10, 100])
def test_the_list_of_names_is_compared(tmp_path, n_classes):
    names = list(CIFAR10_NAMES if n_classes == 10 else CIFAR100_NAMES)
    write_binary(
        tmp_path, "test_batch" if n_classes == 10 else "test", *make(2, n_classes), n_classes
    )
    listed = tmp_path / ("batches.meta.txt" if n_classes == 10 else "fine_label_names.txt")
    listed.write_text("\n".join(names) + "\n\n")
    assert len(READERS[n_classes](tmp_path, "test")) == 2
    names[3], names[5] = names[5], names[3]
    listed.write_text("\n".join(names))
    with pytest.raises(FileFormatError, match=f"{listed.name} must name the {n_classes} classes"):
        READERS[n_classes](tmp_path, "test")


@pytest.mark.parametrize("swapped", [False, True])
def test_the_pickled_list_of_names_is_compared(tmp_path, swapped):
    names = [name.encode() for name in CIFAR100_NAMES]
    if swapped:
        names[0], names[1] = names[1], names[0]
    write_python2(tmp_path, "test", *make(2, 100), 100)
    (tmp_path / "meta").write_bytes(python2({b"fine_label_names": names, b"num_vis": 3072}))
    if swapped:
        with pytest.raises(FileFormatError, match="meta must name the 100 classes of CIFAR-100"):
            cifar100(tmp_path, "test")
    else:
        assert len(cifar100(tmp_path, "test")) == 2


def test_missing_files_say_where_and_whence(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        cifar10(tmp_path, "test")
    text = str(caught.value)
    assert text.startswith(f"CIFAR-10 was not found: looked for {tmp_path / 'test_batch.bin'}, ")
    assert str(tmp_path / "cifar-10-batches-py" / "test_batch") in text
    assert "published at https://www.cs.toronto.edu/~kriz/cifar.html" in text
    for k in (1, 2, 4, 5):
        write_binary(tmp_path, f"data_batch_{k}", *make(1, 10), 10)
    with pytest.raises(FileNotFoundError, match="data_batch_3.bin. It is published"):
        cifar10(tmp_path, "train")


def test_wrong_part(tmp_path):
    with pytest.raises(ValueError, match="part must be one of 'train', 'test', got 'val'."):
        cifar10(tmp_path, "val")


@pytest.mark.parametrize("size", [0, 1, 3072, 3073 * 2 - 1, 3073 * 2 + 1])
def test_cut_binary(tmp_path, size):
    (tmp_path / "test_batch.bin").write_bytes(bytes(size))
    with pytest.raises(FileFormatError, match="not whole CIFAR-10 records of 3073 bytes"):
        cifar10(tmp_path, "test")


def test_labels_out_of_range(tmp_path):
    write_binary(tmp_path, "test_batch", make(2, 10)[0], [3, 10], 10)
    with pytest.raises(FileFormatError, match=r"test_batch.bin has wrong labels: y must lie in"):
        cifar10(tmp_path, "test")


def test_swapped_labels_of_cifar100(tmp_path):
    path = write_binary(tmp_path, "test", make(1, 100)[0], [0], 100)
    path.write_bytes(bytes([77, 4]) + path.read_bytes()[2:])  # the fine label first
    with pytest.raises(FileFormatError, match="coarse label below 20.* got 77. Are the two"):
        cifar100(tmp_path, "test")


def test_too_large_a_file_is_not_read(tmp_path):
    for name in ("test_batch.bin", "py/test_batch"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        with path.open("wb") as file:
            file.truncate(400_000_001)  # a hole, which takes no space
        with pytest.raises(FileFormatError, match="at most 400,000,000"):
            cifar10(path.parent, "test")


GOOD = {b"labels": [1, 2], b"data": np.zeros((2, 3072), np.uint8)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({b"labels": [1]}, "y must have one label per row: 2 rows, 1 labels"),
        ({b"labels": [1, 10]}, r"y must lie in \[0, 9\], got \[1, 10\]"),
        ({b"labels": [1, b"two"]}, "must be integers"),
        ({b"labels": [1, [2]]}, "must be integers"),
        ({b"labels": [1, True]}, "must be integers"),
        ({b"labels": [1, 2**70]}, "y must be integers"),
        ({b"labels": []}, "y must be|y must have"),
        ({b"labels": b"12"}, "must hold `data` and `labels`"),
        ({b"data": [[0] * 3072] * 2}, "must hold `data` and `labels`"),
        ({b"data": np.zeros((2, 3071), np.uint8)}, r"shape \(n, 3072\), got \(2, 3071\)"),
        ({b"data": np.zeros((2, 3, 32, 32), np.uint8)}, r"got \(2, 3, 32, 32\)"),
        ({b"data": np.zeros((2, 3072))}, "another type than uint8"),
    ],
)
def test_wrong_content_of_a_pickle(tmp_path, change, message):
    (tmp_path / "test_batch").write_bytes(pickle.dumps(GOOD | change, 2))
    with pytest.raises(FileFormatError, match=message):
        cifar10(tmp_path, "test")


def test_a_pickle_without_images(tmp_path):
    content = {b"labels": [], b"data": np.zeros((0, 3072), np.uint8)}
    (tmp_path / "test_batch").write_bytes(python2(content))
    with pytest.raises(FileFormatError, match=r"shape \(n, 3072\), got \(0, 3072\)"):
        cifar10(tmp_path, "test")


def test_a_batch_of_the_other_set(tmp_path):
    write_python2(tmp_path, "test", *make(2, 10), 10)
    with pytest.raises(FileFormatError, match="`fine_labels`, as CIFAR-100 does"):
        cifar100(tmp_path, "test")


def test_an_array_by_columns(tmp_path):
    images, _ = make(2, 10)
    content = {b"labels": [1, 2], b"data": np.asfortranarray(planes(images))}
    (tmp_path / "test_batch").write_bytes(pickle.dumps(content, 2))
    assert np.array_equal(cifar10(tmp_path, "test").read(slice(None)), images)
