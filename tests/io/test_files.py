"""Files are written whole, and what a killed writer left is swept by the next."""

import os
from pathlib import Path

import numpy as np
import pytest

from wildcal._old.io.files import replacing
from wildcal._old.io.suite import SuiteWriter


def _left(folder: Path, name: str, *, old: bool = True) -> Path:
    path = folder / name
    path.write_text("half")
    if old:
        os.utime(path, (1e9, 1e9))
    return path


def test_leftovers_of_a_killed_writer_are_swept(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    left = _left(tmp_path, ".cal.json.abcd_012.json")
    fresh = _left(tmp_path, ".cal.json.abcd_013.json", old=False)
    other = _left(tmp_path, ".other.json.abcd_012.json")
    longer = _left(tmp_path, ".cal.json.abcd_0123.json")
    with replacing(tmp_path / "cal.json") as path:
        path.write_text("whole")
    assert not left.exists()
    assert fresh.exists()
    assert other.exists()
    assert longer.exists()
    assert (tmp_path / "cal.json").read_text() == "whole"


def test_a_living_writer_keeps_its_file(tmp_path: Path) -> None:
    with replacing(tmp_path / "cal.json") as first:
        first.write_text("first")
        os.utime(first, (1e9, 1e9))
        with replacing(tmp_path / "cal.json") as second:
            second.write_text("second")
        assert first.exists()
    assert (tmp_path / "cal.json").read_text() == "first"
    assert sorted(f.name for f in tmp_path.iterdir()) == ["cal.json"]


def test_an_exception_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), replacing(tmp_path / "cal.json"):
        raise RuntimeError
    assert not list(tmp_path.iterdir())


def test_what_is_kept_is_on_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finished suites survive a power cut: the bytes first, then the names."""
    synced: list[str] = []
    monkeypatch.setattr("wildcal._old.io.files.to_disk", lambda path: synced.append(path.suffix))
    monkeypatch.setattr(
        "wildcal._old.io.suite.writer.to_disk", lambda path: synced.append(path.name)
    )
    logits = 3 * np.eye(3, dtype=np.float32)
    writer = SuiteWriter(tmp_path / "s", class_names=list("abc"))
    writer.add("test", logits, np.arange(3))
    writer.finish()
    assert synced == ["test.logits.npy", "test.labels.npy", ".json", ""]
