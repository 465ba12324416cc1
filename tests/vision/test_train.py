"""Networks and their training: shapes, one epoch, and a run that was killed."""

import dataclasses
import os
import signal
import subprocess
import sys
import time

import pytest
import torch

from wildcal._old.core.errors import FileFormatError
from wildcal._old.vision.checkpoint import Checkpoint
from wildcal._old.vision.networks import NETWORKS, build
from wildcal._old.vision.recipe import Recipe
from wildcal._old.vision.train import train
from wildcal._old.vision.training_data import read_training_data
from wildcal.cli.main import run


@pytest.mark.parametrize("name", NETWORKS)
def test_shapes(name):
    with torch.device("meta"):
        network = build(name, 7).eval()
    for side in (24, 32):
        assert network(torch.zeros(3, 3, side, side, device="meta")).shape == (3, 7)


def test_one_epoch(small_data, tmp_path):
    data = read_training_data("cifar10", small_data)
    few = dataclasses.replace(data, images=data.images[:64], labels=data.labels[:64])
    path = tmp_path / "net.safetensors"
    recipe = Recipe(epochs=1, batch_size=32, learning_rate=0.05)
    made = train("vgg11-half", few, path, recipe=recipe)
    assert 0.5 < made.history[0]["loss"] < 3
    found = Checkpoint.load(path)
    assert all(torch.equal(found.weights[n], t) for n, t in made.weights.items())
    with pytest.raises(ValueError, match="was trained with seed = 0, not 1; give the same options"):
        train("vgg11-half", few, path, recipe=dataclasses.replace(recipe, seed=1))
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(FileFormatError, match=r"cannot read .* as a checkpoint"):
        Checkpoint.load(path)


def test_killed_and_resumed(small_data, tmp_path, capsys):
    """kill -9 after the first checkpoint; --resume ends with the weights of a run in one piece."""
    once, path = tmp_path / "once.safetensors", tmp_path / "net.safetensors"
    words = ["--threads", "1", "train", str(small_data), "--network", "vgg11-half"]
    words += ["--epochs", "3", "--batch-size", "32", "--learning-rate", "0.05"]
    assert run([*words, "-o", str(once)]) == 0
    words += ["-o", str(path), "--resume"]
    process = subprocess.Popen([sys.executable, "-m", "wildcal", *words], stderr=subprocess.PIPE)
    while not path.exists() and process.poll() is None:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert len(Checkpoint.load(path).history) < 3
    extract = ["extract", str(small_data), "--network", str(path), "-o", str(tmp_path / "s")]
    assert run(extract) == 1
    assert "is not trained to its end" in capsys.readouterr().err
    assert run(words) == 0
    whole, found = Checkpoint.load(once).weights, Checkpoint.load(path).weights
    assert all(torch.allclose(found[name], whole[name]) for name in whole)
    assert run(words[:-1]) == 1
    assert "exists; --resume goes on with it." in capsys.readouterr().err
