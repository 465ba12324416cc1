"""Suites from elsewhere: whatever the files say, one clear sentence and no harm."""

import os
import struct
import zipfile

import numpy as np
import pytest

from wildcal._old.core.errors import FileFormatError
from wildcal._old.io.suite import Suite, SuiteWriter
from wildcal._old.io.suite import files as suite_files
from wildcal._old.io.suite.manifest import LARGEST_MANIFEST


def write(folder):
    writer = SuiteWriter(
        folder,
        network={"name": "tiny"},
        data={},
        seed=0,
        versions={},
        n_classes=3,
        class_names=["a", "b", "c"],
    )
    z = np.random.default_rng(0).normal(size=(50, 3))
    writer.add("val", z, z.argmax(axis=1), role="tune", shift="none")
    writer.add("ood", z, np.full(50, -1), role="test", shift="semantic")
    writer.finish(["val", "ood"])
    return folder


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "suite")


@pytest.fixture
def packed(folder, tmp_path):
    Suite.open(folder).pack(tmp_path / "s.npz")
    return tmp_path / "s.npz"


def repack(path, members):
    """Write an archive anew, with some members replaced, added, or (None) left out."""
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()} | members
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, raw in content.items():
            if raw is not None:
                archive.writestr(name, raw)


def refuse(path, words):
    with pytest.raises(FileFormatError, match=words) as error:
        Suite.open(path)
    assert "\n" not in str(error.value)
    assert str(error.value).startswith((str(path), "cannot read"))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"format": "wildcal-suite", "version": NaN}',
        b'{"format": "wildcal-suite", "version": ' + b"9" * 5000 + b"}",
        b" " * (LARGEST_MANIFEST + 1),
    ],
    ids=range(8),
)
def test_manifests_that_are_none(folder, packed, raw):
    (folder / "manifest.json").write_bytes(raw)
    refuse(folder, "manifest.json is not valid: it ")
    repack(packed, {"manifest.json": raw})
    refuse(packed, "manifest.json is not valid: it ")


def test_no_suite_at_all(tmp_path):
    refuse(tmp_path / "nowhere", "does not exist")
    refuse(tmp_path, "is not a suite: it has no manifest.json")
    (tmp_path / "x.npz").write_bytes(b"PK")
    refuse(tmp_path / "x.npz", "neither a folder nor a whole .npz")
    np.savez(tmp_path / "x.npz", logits=np.zeros((2, 2)))
    refuse(tmp_path / "x.npz", "x.npz is not a suite: it has no manifest.json. `wildcal suite make")


def head(text, version=1, claim=None):
    form = "<H" if version == 1 else "<I"
    length = struct.pack(form, len(text) if claim is None else claim)
    return b"\x93NUMPY" + bytes([version, 0]) + length + text.encode()


GOOD = "{'descr': '<f4', 'fortran_order': False, 'shape': (50, 3), }\n"


@pytest.mark.parametrize("y", [3, 255])
def test_labels_out_of_range(folder, y):
    np.save(folder / "val.labels.npy", np.full(50, y, np.uint8))
    split = Suite.open(folder).split("val")
    with pytest.raises(FileFormatError, match=r"val.labels.npy of .*y must lie in \[-1, 2\], got"):
        _ = split.y


def test_wrong_hash(folder, packed):
    suite = Suite.open(folder)
    np.save(folder / "val.logits.npy", np.zeros((50, 3), np.float32))
    assert Suite.open(folder).split("val").logits.any() == np.False_
    text = (
        f"{folder}: split val was changed after it was written (its SHA-256 does not match)."
        " Extract it again, or restore the file."
    )
    for verify in (suite.verify, lambda: Suite.open(folder, verify=True)):
        with pytest.raises(FileFormatError) as error:
            verify()
        assert str(error.value) == text
    repack(packed, {"ood.logits.npy": (folder / "val.logits.npy").read_bytes()})
    with pytest.raises(FileFormatError, match="split ood was changed"):
        Suite.open(packed, verify=True)


def test_links_and_other_kinds_of_files(folder, tmp_path):
    path = folder / "val.logits.npy"
    path.rename(folder / "elsewhere.npy")
    path.symlink_to("elsewhere.npy")
    Suite.open(folder, verify=True)
    (folder / "elsewhere.npy").rename(tmp_path / "outside.npy")
    path.unlink()
    path.symlink_to(tmp_path / "outside.npy")
    refuse(folder, "val.logits.npy of .*it is a link that leads out of the folder")
    path.unlink()
    path.symlink_to(path)
    refuse(folder, "cannot read val.logits.npy")
    path.unlink()
    path.mkdir()
    refuse(folder, "it is not a regular file")
    path.rmdir()
    os.mkfifo(path)
    refuse(folder, "it is not a regular file")


def test_bombs(packed, monkeypatch):
    """A member is as long as its header says, and neither is longer than can be wanted."""
    claim = GOOD.replace("(50,", "(80000000,")
    repack(packed, {"val.logits.npy": head(GOOD) + b"\0" * (1 << 26)})
    refuse(packed, "it must have 671 bytes, got 67108935")
    repack(packed, {"val.logits.npy": head(claim) + b"\0" * 600})
    refuse(packed, r"it must have shape \(50, 3\), got \(80000000, 3\)")
    repack(packed, {"val.logits.npy": head(GOOD) + b"\0" * 600})
    Suite.open(packed)
    monkeypatch.setattr(suite_files, "LARGEST_MEMBER", 670)
    refuse(packed, "it claims .* bytes, more than 670")


def test_damaged_archives(packed):
    raw = packed.read_bytes()
    with zipfile.ZipFile(packed) as archive:
        start = archive.getinfo("val.logits.npy").header_offset
    for at in range(start + 200, start + 400, 40):
        packed.write_bytes(raw[:at] + bytes([raw[at] ^ 255]) + raw[at + 1 :])
        with pytest.raises(FileFormatError):
            Suite.open(packed, verify=True)
    for keep in (0, 10, len(raw) // 2, len(raw) - 1):
        packed.write_bytes(raw[:keep])
        refuse(packed, "neither a folder nor a whole .npz")
