"""Suites from elsewhere: whatever the files say, one clear sentence and no harm."""

import os
import struct
import zipfile

import numpy as np
import pytest

from wildcal.core.errors import FileFormatError
from wildcal.io.suite import Suite, SuiteWriter
from wildcal.io.suite import files as suite_files
from wildcal.io.suite.manifest import LARGEST_MANIFEST


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


def change(folder, edit):
    """Edit a manifest and seal it anew."""
    path = folder / "manifest.json"
    document = json.loads(path.read_text())
    del document["seal"]
    edit(document)
    document["seal"] = digest(document)
    path.write_text(json.dumps(document))


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
    ("field", "value", "words"),
    [
        ("format", "zip", "it does not say 'wildcal-suite'"),
        ("version", 3, "version must be 4, got 3; make the suite again"),
        ("version", "4", "version must be 4, got '4'"),
        ("version", True, "version must be 4, got True"),
        ("network", [], "network must be an object"),
        ("data", None, "data must be an object"),
        ("seed", 1.0, "seed must be a whole number"),
        ("seed", -1, "seed must be a whole number of at least 0"),
        ("versions", {"numpy": 2}, "versions must map package names to texts"),
        ("n_classes", 1, "n_classes must be a whole number of at least 2"),
        ("n_classes", "3", "n_classes must be a whole number, got '3'"),
        ("n_classes", 4, "class_names must be 4 texts"),
        ("class_names", "abc", "class_names must be a list"),
        ("class_names", ["a", "b", 3], "class_names must be 3 texts"),
        ("complete", 1, "complete must be true or false"),
        ("splits", {}, "splits must be a list"),
        ("splits", ["val"], "a split must be an object"),
        ("splits", [{}], "a split must have the field 'corruption'"),
        ("extra", 1, "the manifest has the unknown field 'extra'"),
    ],
)
def test_manifest_values(folder, field, value, words):
    change(folder, lambda document: document.update({field: value}))
    refuse(folder, f"manifest.json is not valid: .*{words}")


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("name", "../x", "a split's name must be"),
        ("name", None, "a split's name must be"),
        ("name", "OOD", "the split name 'ood' occurs twice"),
        ("role", "train", "split val: role must be one of"),
        ("role", ["tune"], "split val: role must be one of"),
        ("shift", "some", "split val: shift must be one of"),
        ("severity", 1, "together or not at all"),
        ("rows", -1, "split val: rows must be a whole number of at least 1, got -1"),
        ("rows", 0, "rows must be a whole number"),
        ("rows", 50.0, "rows must be a whole number"),
        ("rows", 10**30, "must have shape"),
        ("rows", 49, r"must have shape \(49, 3\), got \(50, 3\)"),
        ("dtype", "object", "dtype must be one of"),
        ("dtype", "float64", "val.logits.npy .* must hold <f8, got <f4"),
        ("logits", "../suite/val.logits.npy", "plain name of a .npy file"),
        ("logits", "/etc/passwd", "plain name of a .npy file"),
        ("logits", "..", "plain name of a .npy file"),
        ("logits", "a\\b.npy", "plain name of a .npy file"),
        ("logits", "C:x.npy", "plain name of a .npy file"),
        ("logits", "val.logits.npy\n", "plain name of a .npy file"),
        ("logits", ["val.logits.npy"], "plain name of a .npy file"),
        ("logits", "ood.logits.npy", "the file name 'ood.logits.npy' occurs twice"),
        ("logits", "missing.npy", "missing.npy of .*: the file is not there"),
        ("labels", ".hidden.npy", "plain name of a .npy file"),
        ("sha256", "x", "sha256 must be 64 hexadecimal digits"),
        ("color", "red", "a split has the unknown field 'color'"),
    ],
)
def test_split_values(folder, field, value, words):
    change(folder, lambda document: document["splits"][0].update({field: value}))
    refuse(folder, words)


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


def test_two_entries_that_lost_what_stood_between_them(folder):
    """What is left is JSON, in which one split has taken the other's place."""
    text = (folder / "manifest.json").read_text()
    start = text.index("},", text.index('"splits"'))
    end = text.index("{", start) + 1
    (folder / "manifest.json").write_text(text[:start].rstrip() + "," + text[end:])
    json.loads((folder / "manifest.json").read_text())
    refuse(folder, "manifest.json is not valid: it gives .* twice in one object")


@pytest.mark.parametrize(
    "edit",
    [
        lambda document: document["splits"].pop(),
        lambda document: document["splits"].reverse(),
        lambda document: document["splits"][0].update(name="vbl"),
        lambda document: document["class_names"].reverse(),
        lambda document: document["network"].update(family="other"),
        lambda document: document.update(seed=document["seed"] + 1),
        lambda document: document.update(seal=1),
        lambda document: document.pop("seal"),
    ],
    ids=["lost", "turned", "renamed", "classes", "network", "seed", "seal", "no seal"],
)
def test_a_change_that_leaves_the_manifest_possible_is_seen(folder, packed, edit):
    document = json.loads((folder / "manifest.json").read_text())
    edit(document)
    raw = json.dumps(document).encode()
    (folder / "manifest.json").write_bytes(raw)
    repack(packed, {"manifest.json": raw})
    for path in (folder, packed):
        refuse(path, "manifest.json is not valid: it was changed after it was written")


def test_layout_is_no_change(folder):
    path = folder / "manifest.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document, indent=1, sort_keys=False))
    assert len(Suite.open(folder, verify=True).splits) == 2


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
