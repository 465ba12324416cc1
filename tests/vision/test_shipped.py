"""Weights that come with wildcal: packed in float16, opened by name, named when absent."""

import numpy as np
import pytest
import torch

from wildcal._old.vision import shipped
from wildcal._old.vision.batches import Normalizer
from wildcal._old.vision.checkpoint import Checkpoint
from wildcal._old.vision.classifiers import open_classifier
from wildcal._old.vision.networks import build
from wildcal.cli.main import run

NORMALIZE = Normalizer((0.5,) * 3, (0.25,) * 3)


def checkpoint(epochs=1):
    torch.manual_seed(0)
    return Checkpoint(
        network="resnet20",
        data="cifar10",
        class_names=tuple("abcdefghij"),
        mean=NORMALIZE.mean,
        std=NORMALIZE.std,
        recipe={"epochs": 1},
        history=[{"loss": 1.0, "accuracy": 0.5, "watched": 0.5}] * epochs,
        weights=build("resnet20", 10).state_dict(),
        momentum={"fc.weight": torch.zeros(2)},
    )


@pytest.fixture
def weights(tmp_path, monkeypatch):
    """A data package with one network."""
    package = tmp_path / f"data_{tmp_path.name}"  # a name of its own: modules are remembered
    (package / "weights").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(shipped, "_PACKAGE", package.name)
    return package / "weights"


def test_half_the_bytes_and_nearly_the_same_logits(weights, tmp_path):
    whole = checkpoint()
    whole.save(tmp_path / "whole.safetensors")
    whole.packed().save(weights / "cifar10-resnet20.safetensors")
    small = (weights / "cifar10-resnet20.safetensors").stat().st_size
    assert small < 0.6e6 < (tmp_path / "whole.safetensors").stat().st_size
    assert shipped.shipped_names() == ("cifar10-resnet20",)
    images = np.random.default_rng(0).integers(0, 256, (4, 32, 32, 3), dtype=np.uint8)
    found = open_classifier("wildcal:cifar10-resnet20", NORMALIZE)
    there = open_classifier(str(tmp_path / "whole.safetensors"), NORMALIZE)
    assert found.about["name"] == "resnet20"
    assert {p.dtype for p in found.module.parameters()} == {torch.float32}
    apart = np.abs(found.logits(images) - there.logits(images)).max()
    assert 0 < apart < 2e-3


def test_without_the_data_package(monkeypatch):
    monkeypatch.setattr(shipped, "_PACKAGE", "wildcal_absent")
    assert shipped.shipped_names() == ()
    with pytest.raises(FileNotFoundError, match=r'pip install "wildcal\[suites\]"'):
        open_classifier("wildcal:cifar10-resnet20", NORMALIZE)


def test_a_name_that_is_not_there(weights):
    with pytest.raises(FileNotFoundError, match=r'pip install "wildcal\[suites\]"'):
        open_classifier("wildcal:cifar10-resnet20", NORMALIZE)
    checkpoint().packed().save(weights / "cifar10-resnet20.safetensors")
    with pytest.raises(ValueError, match="no weights 'vgg' come with wildcal; there are cifar10-r"):
        open_classifier("wildcal:vgg", NORMALIZE)


def test_at_the_command_line(weights, small_data, tmp_path, capsys):
    words = ["extract", str(small_data), "--network", "wildcal:cifar10-resnet20"]
    words += ["-o", str(tmp_path / "s")]
    assert run(words) == 1
    assert 'pip install "wildcal[suites]"' in capsys.readouterr().err
    assert run([*words, "--mean", "0,0,0"]) == 2
    assert "a checkpoint knows its own colors" in capsys.readouterr().err


def test_what_cannot_be_packed():
    with pytest.raises(ValueError, match="not trained to its end"):
        checkpoint(epochs=0).packed()
    large = checkpoint()
    next(iter(large.weights.values()))[0] = 1e6
    with pytest.raises(ValueError, match="float16 cannot hold"):
        large.packed()
