"""An extraction on a cluster of real processes writes the bytes of one machine."""

import shutil
from functools import partial

import numpy as np
import pytest

pytest.importorskip("distributed", reason="dask and distributed are not installed")
pytest.importorskip("torch", reason="torch is not installed")

from wildcal.cli.main import run
from wildcal.core.errors import EngineError, FileFormatError
from wildcal.engine import use
from wildcal.vision.classifiers import open_classifier
from wildcal.vision.elsewhere import Elsewhere, Recipe
from wildcal.vision.extract import extract
from wildcal.vision.sizes import Sizes
from wildcal.vision.sources import make_plan
from wildcal.vision.training_data import NORMALIZERS

# Right more often than not: a class has a bright line at a height of its own.
NETWORK = """
import torch
from torch import nn

class Lines(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.first = nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, images):
        rows = (images + 0.1 * self.first(images)).mean((1, 3))
        return rows[:, :30].reshape(-1, 10, 3).sum(2)

def net():
    return Lines()
"""


def write_cifar10(folder, n, rng):
    """Write a small CIFAR-10: five batches of training images and one to test on."""
    folder.mkdir(parents=True)
    for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
        labels = np.arange(n) % 10
        images = rng.integers(0, 40, (n, 3, 32, 32))
        images[np.arange(n), :, 3 * labels, :] += 200  # a bright line for each class
        images[np.arange(n), :, 3 * labels + 1, :] += 200
        records = np.column_stack([labels, images.reshape(n, -1)]).astype(np.uint8)
        records.tofile(folder / f"{name}.bin")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Images, and published corrupted ones of one type, so that cells are few."""
    root = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    write_cifar10(root / "cifar-10-batches-bin", 70, rng)
    (root / "CIFAR-10-C").mkdir()
    foggy = rng.integers(0, 256, (350, 32, 32, 3)).astype(np.uint8)
    np.save(root / "CIFAR-10-C" / "fog.npy", foggy)
    np.save(root / "CIFAR-10-C" / "labels.npy", np.tile(np.arange(70) % 10, 5).astype(np.uint8))
    return root


@pytest.fixture(scope="module")
def network(processes):
    """A module of the user's, which workers find in their working folder."""
    (processes.folder / "tiny_network.py").write_text(NETWORK)
    return "tiny_network:net"


@pytest.fixture
def openers(data, network, processes, monkeypatch):
    """What opens the network and the plan, here and there."""
    monkeypatch.chdir(processes.folder)
    plan = partial(
        make_plan,
        "cifar10",
        data,
        ood={},
        extra={},
        corrupted=data / "CIFAR-10-C",
        sizes=Sizes(tuning=35),
        seed=0,
        transforms=(),
    )
    return partial(open_classifier, network, NORMALIZERS["cifar10"]), plan


@pytest.fixture
def expected(openers, tmp_path):
    """The bytes of one machine."""
    opened, plan = openers
    return contents(extract(opened(), plan(), tmp_path / "here").path)


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_the_bytes_of_one_machine(openers, expected, cluster, tmp_path):
    opened, plan = openers
    folder, before = tmp_path / "there", cluster.bytes_moved
    done = []
    there = Elsewhere(cluster, opened, plan)
    extract(opened(), plan(), folder, elsewhere=there, on_rows=lambda cell, rows: done.append(cell))
    assert contents(folder) == expected
    # Noise was searched there too; logits came back, and images did not travel.
    assert len(done) > len(plan().cells)
    assert 0 < cluster.bytes_moved - before < 1_000_000


def test_a_worker_killed_in_the_middle(openers, expected, cluster, processes, tmp_path):
    opened, plan = openers
    killed = []

    def on_rows(cell, rows):
        if cell == "validation-gaussian_blur-2" and not killed:
            killed.append(processes.workers.pop(0))
            killed[0].kill()

    folder = tmp_path / "there"
    extract(opened(), plan(), folder, elsewhere=Elsewhere(cluster, opened, plan), on_rows=on_rows)
    killed[0].wait()
    processes.worker()
    assert contents(folder) == expected


def test_the_scheduler_killed_and_a_rerun(openers, expected, processes, tmp_path):
    opened, plan = openers
    mine = type(processes)(tmp_path)
    (tmp_path / "tiny_network.py").write_text(NETWORK)
    folder = tmp_path / "there"
    try:
        mine.worker()

        def on_rows(cell, rows):
            if cell == "test":
                mine.scheduler.kill()

        with use(mine.address) as cluster, pytest.raises(EngineError, match="is gone. Nothing is"):
            extract(
                opened(),
                plan(),
                folder,
                elsewhere=Elsewhere(cluster, opened, plan),
                on_rows=on_rows,
            )
    finally:
        mine.end()
    found = contents(folder)
    assert "validation.logits.npy" in found
    assert "fog-5.logits.npy" not in found
    done = []
    extract(opened(), plan(), folder, on_rows=lambda cell, rows: done.append(cell))
    assert "validation" not in done
    assert done[-1] == "fog-5"
    assert contents(folder) == expected


def test_the_command(data, network, cluster, processes, tmp_path, monkeypatch, capsys):
    """Paths may be relative: the workers have another working folder."""
    monkeypatch.chdir(data.parent)
    monkeypatch.syspath_prepend(str(processes.folder))
    words = ["extract", data.name, "--network", network, "--corrupted", f"{data.name}/CIFAR-10-C"]
    words += ["--transforms", "none", "--tuning-rows", "5", "--ood", "none"]
    there, here = tmp_path / "there", tmp_path / "here"
    assert run([*words, "-o", str(there), "--scheduler", processes.address]) == 0
    said = capsys.readouterr().err
    assert "tasks on 2 workers" in said
    assert "moved, and no images" in said
    assert run([*words, "-o", str(here)]) == 0
    assert contents(there) == contents(here)
    # Nothing is left to do, so nothing is sent.
    assert run([*words, "-o", str(there), "--scheduler", processes.address]) == 0
    assert "Did 0 tasks" in capsys.readouterr().err
    together = ["--features", "--scheduler", processes.address]
    assert run([*words, "-o", str(tmp_path / "x"), *together]) == 2
    assert "then run the command again with --features" in capsys.readouterr().err


def test_images_that_only_the_client_can_see(openers, data, cluster, tmp_path):
    opened, plan = openers
    hidden = tmp_path / "hidden"
    shutil.copytree(data, hidden)
    elsewhere = partial(plan.func, "cifar10", hidden, **plan.keywords)
    known = elsewhere()
    shutil.rmtree(hidden)  # what a worker on another machine finds
    with pytest.raises(FileFormatError, match=r"on the worker tcp.*CIFAR-10"):
        extract(opened(), known, tmp_path / "s", elsewhere=Elsewhere(cluster, opened, elsewhere))


def changed(recipe, **values):
    return Recipe(**(vars(recipe) | values))


def test_what_would_change_the_bits_is_refused(openers):
    from wildcal.vision.versions import versions

    opened, plan = openers
    same = Recipe(opened, plan, 1, opened().about, dict(plan().data), versions())
    same.open()
    with pytest.raises(FileFormatError, match='numpy 0.1: .* pip install "numpy==0.1"'):
        changed(same, versions=versions() | {"numpy": "0.1"}).open()
    with pytest.raises(FileFormatError, match="no other-package, and"):
        changed(same, versions={"other-package": "1"}).open()
    with pytest.raises(FileFormatError, match="its weights differ"):
        changed(same, about=same.about | {"sha256": "0"}).open()
    with pytest.raises(FileFormatError, match="their number or pixels differ"):
        changed(same, data=same.data | {"seed": 1}).open()
