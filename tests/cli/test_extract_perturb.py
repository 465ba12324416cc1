"""`wildcal extract --perturb` on folders of pictures, with a network written by hand."""

import json
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest

from wildcal.cli.main import run
from wildcal.io.suite import Suite

pytest.importorskip("torch")
Image = pytest.importorskip("PIL.Image")

NETWORKS = """
import torch

class Sides(torch.nn.Module):
    def forward(self, x):
        left = x[:, :, 20, 10].sum(1) - x[:, :, 20, 30].sum(1)
        return torch.stack([left, -left], 1)

class Blind(torch.nn.Module):
    def forward(self, x):
        return torch.tensor([[3.0, 1.0]]).repeat(len(x), 1)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Pictures of 40 x 40 pixels, lighter on the left or on the right, and networks for them."""
    root = tmp_path_factory.mktemp("place")
    (root / "side_networks.py").write_text(NETWORKS)
    rng = np.random.default_rng(0)
    for part, n in (("validation", 40), ("test", 4)):
        for name in ("left", "right"):
            folder = root / "data" / part / name
            folder.mkdir(parents=True)
            for i in range(n):
                picture = rng.integers(60, 100, (40, 40, 3), dtype=np.uint8)
                picture[:, :20] += 40
                if name == "right":
                    picture = picture[:, ::-1]
                Image.fromarray(picture).save(folder / f"{i}.png")
    # A network that always says "left" is right on 40 of these 44.
    folder = root / "one-sided" / "validation"
    folder.mkdir(parents=True)
    (folder / "left").symlink_to(root / "data" / "validation" / "left")
    (folder / "right").symlink_to(root / "data" / "test" / "right")
    (root / "one-sided" / "test").symlink_to(root / "data" / "test")
    return root


def words(place, output, *more, network="Sides", data="data"):
    return [
        *(
            "--threads",
            "1",
            "extract",
            str(place / data),
            "--dataset",
            "folders",
            "--size",
            "40",
            "-o",
            str(output),
        ),
        *("--network", f"side_networks:{network}", "--ood", "none", "--transforms", "none"),
        *more,
    ]


@pytest.fixture
def here(place, monkeypatch):
    monkeypatch.chdir(place)
    yield place
    sys.modules.pop("side_networks", None)


@pytest.fixture(scope="module")
def noisy(place, tmp_path_factory):
    """A finished suite with noise."""
    folder = tmp_path_factory.mktemp("noisy") / "s"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        assert run(words(place, folder, "--perturb")) == 0
    sys.modules.pop("side_networks", None)
    return folder


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_noise_is_off_by_default_and_can_be_added(here, tmp_path, capsys):
    assert run(words(here, tmp_path / "s")) == 0
    assert "in 117 splits to " in capsys.readouterr().err
    assert Suite.open(tmp_path / "s").perturbation is None
    assert run(words(here, tmp_path / "s", "--perturb")) == 0
    said = capsys.readouterr().err.splitlines()
    suite = Suite.open(tmp_path / "s", verify=True)
    assert suite.complete
    about = suite.perturbation
    assert (about["space"], about["rows"], about["clean_accuracy"]) == ("pixels", 80, 1.0)
    assert [s.name for s in suite.perturbed()] == [f"validation-perturbed-{j}" for j in range(1, 6)]
    for split, level in zip(suite.perturbed(), about["levels"], strict=True):
        found = (split.logits.argmax(axis=1) == split.y).mean()
        assert level["target"] == pytest.approx(1 - split.severity / 10)
        assert abs(found - level["target"]) <= (0.05 if split.severity == 5 else 0.03)
    # 122 splits: 26 with 80 rows and 96 with 8; the search is counted with them.
    total = 26 * 80 + 96 * 8
    searched = 80 * len(about["tried"])
    assert said[-2] == f"{total + searched:,} of {total + searched:,} rows."
    assert said[-1].startswith(f"Wrote {total:,} rows in 122 splits to ")
    assert run(words(here, tmp_path / "s")) == 1
    assert "holds validation-perturbed-1, which was not asked for" in capsys.readouterr().err


def test_levels_that_were_found_are_not_searched_again(here, noisy, tmp_path, capsys):
    shutil.copytree(noisy, tmp_path / "s")
    before = contents(noisy)
    for path in (tmp_path / "s").glob("validation-perturbed-4*"):
        path.unlink()
    capsys.readouterr()
    assert run(words(here, tmp_path / "s", "--perturb")) == 0
    assert "2,848 of 2,848 rows." in capsys.readouterr().err
    assert contents(tmp_path / "s") == before


def test_network_that_does_not_look(here, tmp_path, capsys):
    assert run(words(here, tmp_path / "s", "--perturb", network="Blind", data="one-sided")) == 0
    notes = [line for line in capsys.readouterr().err.splitlines() if line.startswith("Noise")]
    assert len(notes) == 5
    assert notes[4] == (
        "Noise level 5: no sigma tried brings accuracy near 50.0%; the split has 90.9%, at sigma"
        " 0.125."
    )


def test_network_at_chance(here, tmp_path, capsys):
    assert run(words(here, tmp_path / "s", "--perturb", network="Blind")) == 1
    said = capsys.readouterr().err
    assert "better than chance: it is right on 50.0% of the clean tuning rows, of 2 cl" in said
    assert run(words(here, tmp_path / "s", network="Blind")) == 0


def test_killed_in_the_search(here, noisy, tmp_path):
    """Killed between trials, again and again, it ends with the files of a run that was not."""
    n_tried = len(Suite.open(noisy).perturbation["tried"])
    folder = tmp_path / "s"
    command = [sys.executable, "-m", "wildcal", *words(here, folder, "--perturb")]
    for target in (0, n_tried // 2, n_tried - 1):
        process = subprocess.Popen(command, stderr=subprocess.PIPE)
        while _tried(folder) <= target and process.poll() is None:
            time.sleep(0.01)
        ended = process.poll()
        process.kill()
        said = process.communicate()[1].decode()
        assert ended is None, said
        assert not Suite.open(folder, verify=True).complete
    assert run(words(here, folder, "--perturb")) == 0
    assert contents(folder) == contents(noisy)


def _tried(folder):
    path = folder / "manifest.json"
    about = json.loads(path.read_bytes()).get("perturbation") if path.exists() else None
    return len(about["tried"]) if about else 0
