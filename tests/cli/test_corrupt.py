"""`wildcal corrupt`: the three layouts, the gallery, and what can go wrong."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

if not os.environ.get("WILDCAL_REQUIRE_EXTRAS"):
    pytest.importorskip("cv2")
    pytest.importorskip("PIL")

from wildcal._old.shift import CORRUPTIONS, corrupt, transform
from wildcal._old.shift.images import read_batch, read_picture, write_picture
from wildcal.cli.main import run


def draw(n, height=32, width=32):
    return np.random.default_rng(n).integers(0, 256, (n, height, width, 3), dtype=np.uint8)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder as a user would have it, and the shell standing in it."""
    images = draw(6)
    np.savez(tmp_path / "test.npz", images=images, labels=np.arange(6))
    batch = tmp_path / "cifar-10-batches-bin"
    batch.mkdir()
    planes = images.transpose(0, 3, 1, 2).reshape(6, -1)
    labels = np.arange(6, dtype=np.uint8)[:, None]
    np.concatenate([labels, planes], axis=1).tofile(batch / "test_batch.bin")
    for name, size in (("b/x.png", (40, 50)), ("a.png", (32, 32)), ("b/y.png", (64, 33))):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_picture(path, draw(1, *size)[0])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files(folder):
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def test_npz(folder, capsys):
    assert run("corrupt test.npz --name fog --severity 3 --seed 2 -o foggy.npz".split()) == 0
    assert capsys.readouterr() == ("", "Wrote 6 images to foggy.npz.\n")
    with np.load("foggy.npz") as got:
        assert sorted(got) == ["images", "labels"]
        assert np.array_equal(got["images"], corrupt(draw(6), "fog", 3, seed=2))
        assert np.array_equal(got["labels"], np.arange(6))


@pytest.mark.parametrize("source", ["cifar-10-batches-bin", "cifar-10-batches-bin/test_batch.bin"])
def test_cifar(folder, source):
    assert run(["corrupt", source, *"--name snow --severity 5 -o snow.bin".split()]) == 0
    batch = read_batch(folder / "snow.bin")
    assert np.array_equal(batch.images, corrupt(draw(6), "snow", 5))
    assert batch.others["labels"].ravel().tolist() == list(range(6))
    assert run(["corrupt", source, *"--name snow --severity 5 -o snow.npz".split()]) == 0
    with np.load("snow.npz") as got:
        assert np.array_equal(got["images"], batch.images)
        assert got["labels"].tolist() == list(range(6))


def test_folder(folder, capsys):
    assert run("corrupt photos --name shot_noise --severity 2 -o noisy".split()) == 0
    assert capsys.readouterr().err == "Wrote 3 images to noisy.\n"
    assert files(folder / "noisy") == ["a.png", "b/x.png", "b/y.png"]
    for number, name in enumerate(files(folder / "noisy")):
        clean = read_picture(folder / "photos" / name)
        expected = corrupt(clean[None], "shot_noise", 2, indices=[number])[0]
        assert np.array_equal(read_picture(folder / "noisy" / name), expected)


def test_all(folder, capsys):
    assert run("corrupt test.npz --name all --severity 2 -o out".split()) == 0
    assert files(folder / "out") == sorted(f"{name}-2.npz" for name in CORRUPTIONS)
    assert run("corrupt photos --name fog --severity all -o out2".split()) == 0
    assert files(folder / "out2")[:3] == ["fog/1/a.png", "fog/1/b/x.png", "fog/1/b/y.png"]
    assert len(files(folder / "out2")) == 15
    assert capsys.readouterr().err.endswith("Wrote 3 images for each of 5 cells to out2.\n")


def test_transforms(folder, capsys):
    assert run("corrupt test.npz --name rotation --severity 2 --seed 2 -o turned.npz".split()) == 0
    assert capsys.readouterr() == ("", "Wrote 6 images to turned.npz.\n")
    expected = transform(draw(6), "rotation", 2, seed=2)
    assert np.array_equal(read_batch(folder / "turned.npz").images, expected)
    assert run("corrupt test.npz --name cutout --severity all -o cut".split()) == 0
    assert files(folder / "cut") == [f"cutout-{level}.npz" for level in (1, 2, 3)]


def test_chunks_are_invisible(folder, monkeypatch):
    monkeypatch.setattr("wildcal._old.cli.corrupt._CHUNK", 4)
    assert run("corrupt test.npz --name frost --severity 1 -o x.npz".split()) == 0
    assert np.array_equal(read_batch(folder / "x.npz").images, corrupt(draw(6), "frost", 1))


@pytest.mark.parametrize("source", [[], ["test.npz"], ["photos"], ["photos/b/x.png"]])
def test_gallery(folder, capsys, source):
    assert run(["corrupt", "--gallery", "sheet.png", *source]) == 0
    assert capsys.readouterr() == ("", "Wrote sheet.png.\n")
    assert read_picture(folder / "sheet.png").shape[0] > 3600


@pytest.mark.parametrize(
    ("line", "code", "text"),
    [
        ("test.npz", 2, "give IMAGES, --name, --severity and -o, or --gallery FILE."),
        ("test.npz --name smog --severity 1 -o x.npz", 1, "name must be one of gaussian_noise,"),
        ("test.npz --name fog --severity 6 -o x.npz", 2, "give 1, 2, 3, 4, 5 or all."),
        ("test.npz --name rotation --severity 4 -o x.npz", 2, "give 1, 2, 3 or all."),
        ("test.npz --name gray --severity 2 -o x.npz", 2, "give 1 or all."),
        ("test.npz --name gray --severity 1 --scale cifar -o x.npz", 2, "--scale is for"),
        ("test.npz --name fog --severity 1 -o x.png", 1, "the result of test.npz is a .npz."),
        ("test.npz --name fog --severity 1 -o x.bin", 1, "the result of test.npz is a .npz."),
        ("test.npz --name fog --severity 1 -o no/x.npz", 1, "the folder no does not exist."),
        ("test.npz --name all --severity 1 -o test.npz", 2, "would replace a file that is read"),
        ("none.npz --name fog --severity 1 -o x.npz", 1, "none.npz does not exist."),
        ("photos --name fog --severity 1 -o photos/out", 1, "it lies inside photos, which is read"),
        ("photos --name fog --severity 1 -o test.npz", 1, "it is a file, and a folder is needed"),
        ("--gallery x.jpg", 1, "cannot write x.jpg: a gallery is a .png."),
        ("--gallery x.png --name fog", 2, "--gallery shows every type"),
        ("test.npz --name frost --severity 1 --frost-textures no -o x.npz", 1, "must be a folder"),
    ],
)
def test_errors_are_one_line(folder, capsys, line, code, text):
    before = files(folder)
    assert run(["corrupt", *line.split()]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert text in err
    assert code == 2 or err.count("\n") == 1
    assert files(folder) == before


@pytest.mark.parametrize("content", [b"garbage", b"", None])
def test_a_damaged_picture_is_one_line(folder, capsys, content):
    path = folder / "photos" / "b" / "x.png"
    path.write_bytes(path.read_bytes()[:500] if content is None else content)
    assert run("corrupt photos --name fog --severity 1 -o out".split()) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: cannot read photos/b/x.png: ")
    assert err.count("\n") == 1
    assert files(folder / "out") == ["a.png"]


def test_without_the_extra(folder, capsys, monkeypatch):
    for name in [n for n in sys.modules if n.startswith("wildcal._old.shift")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cv2", None)
    assert run("corrupt test.npz --name fog --severity 1 -o x.npz".split()) == 1
    assert capsys.readouterr().err == (
        "error: wildcal._old.shift needs Pillow and OpenCV."
        ' Install them with: pip install "wildcal[shift]"\n'
    )


SLOW = """
import sys
from wildcal.cli.main import main
main(sys.argv[1:])
"""


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_whole_files_only(folder, stop):
    np.savez("large.npz", images=np.zeros((3000, 32, 32, 3), np.uint8))
    words = "corrupt large.npz --name all --severity all -o out".split()
    process = subprocess.Popen([sys.executable, "-c", SLOW, *words], stderr=subprocess.PIPE)
    deadline = time.monotonic() + 120
    while not (folder / "out" / "gaussian_noise-2.npz").exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(stop)
    err = process.communicate(timeout=120)[1].decode()
    assert process.returncode == 128 + stop
    assert err.strip() == "interrupted; no unfinished file was left."
    left = list((folder / "out").iterdir())
    assert 2 <= len(left) < 95
    assert all(len(read_batch(path).images) == 3000 for path in left)
