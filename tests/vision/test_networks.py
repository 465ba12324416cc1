"""Networks and their training: shapes, one epoch, and a run that was killed."""

import dataclasses
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from torch import nn

from wildcal.cli.main import run
from wildcal.core.exceptions import FileFormatError
from wildcal.vision.checkpoint import Checkpoint
from wildcal.vision.networks import NETWORKS, build
from wildcal.vision.train import Recipe, augmented_batches, read_training_data, train

pytestmark = pytest.mark.slow

FEW = ["--epochs", "3", "--batch-size", "32", "--learning-rate", "0.05"]


@pytest.mark.parametrize("name", NETWORKS)
def test_shapes(name):
    with torch.device("meta"):
        network = build(name, 7).eval()
    for side in (24, 32):
        assert network(torch.zeros(3, 3, side, side, device="meta")).shape == (3, 7)


def test_densenet201_is_that_of_the_published_checkpoint():
    """1,202 tensors, and transitions of normalization, convolution and pooling only."""
    with torch.device("meta"):
        network = build("densenet201", 10)
    assert len(network.state_dict()) == 1202
    stages = list(network.stages)
    transitions = [i for i, layer in enumerate(stages) if isinstance(layer, nn.AvgPool2d)]
    assert len(transitions) == 3
    for i in transitions:
        assert [type(layer) for layer in stages[i - 2 : i]] == [nn.BatchNorm2d, nn.Conv2d]
    assert any(isinstance(layer, nn.ReLU) for layer in build("densenet-45", 10).stages)


def test_unknown_network():
    with pytest.raises(ValueError, match=r"network must be one of 'vgg19', .*, got 'alexnet'"):
        build("alexnet", 10)


def test_one_epoch(small_data, tmp_path):
    data = read_training_data("cifar10", small_data)
    few = dataclasses.replace(data, images=data.images[:64], labels=data.labels[:64])
    path = tmp_path / "net.safetensors"
    recipe = Recipe(epochs=1, batch_size=32, learning_rate=0.05)
    made = train("vgg11-half", few, path, recipe=recipe)
    assert 0.5 < made.history[0]["loss"] < 3
    found = Checkpoint.load(path)
    assert all(torch.equal(found.weights[n], t) for n, t in made.weights.items())
    with pytest.raises(ValueError, match=r"seed must be that of the training in .*, 0, got 1"):
        train("vgg11-half", few, path, recipe=dataclasses.replace(recipe, seed=1))
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(FileFormatError, match=r"cannot read .* as a checkpoint"):
        Checkpoint.load(path)


@pytest.mark.parametrize("crop", [24, 32])
def test_augmentation_shows_every_image_once(small_data, crop):
    data = read_training_data("cifar10", small_data)
    batches = list(augmented_batches(data, np.random.default_rng(0), size=50, crop=crop))
    assert [len(labels) for _, labels in batches] == [50, 50, 50, 30]
    assert {images.shape[1:] for images, _ in batches} == {(crop, crop, 3)}
    labels = np.concatenate([labels for _, labels in batches])
    np.testing.assert_array_equal(np.bincount(labels), np.bincount(data.labels))


def test_killed_and_resumed(small_data, tmp_path, capsys):
    """kill -9 after the first checkpoint; --resume ends with the weights of a run in one piece."""
    once, path = tmp_path / "once.safetensors", tmp_path / "net.safetensors"
    words = ["train", str(small_data), "--network", "vgg11-half", *FEW]
    assert run([*words, "-o", str(once)]) == 0
    assert "epoch 3 of 3" in capsys.readouterr().err
    words += ["-o", str(path), "--resume"]
    process = subprocess.Popen([sys.executable, "-m", "wildcal", *words], stderr=subprocess.PIPE)
    while not path.exists() and process.poll() is None:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert len(Checkpoint.load(path).history) < 3
    extract = ["extract", str(small_data), "--network", str(path), "-o", str(tmp_path / "s")]
    assert run(extract) == 1
    assert "--network must be trained to its end" in capsys.readouterr().err
    assert run(words) == 0
    whole, found = Checkpoint.load(once).weights, Checkpoint.load(path).weights
    assert all(torch.allclose(found[name], whole[name], atol=1e-6) for name in whole)
    assert run(words[:-1]) == 1
    assert "--output must not exist" in capsys.readouterr().err
