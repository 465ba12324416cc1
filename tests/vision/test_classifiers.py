"""Classifiers from torch modules, ONNX files and shipped weights, and features of their layers."""

import sys
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from wildcal.core.exceptions import FileFormatError
from wildcal.vision.classifiers import TorchClassifier, open_classifier
from wildcal.vision.features import pooled_axes
from wildcal.vision.images import Preprocess
from wildcal.vision.networks import build


@pytest.fixture
def pixels():
    return np.random.default_rng(0).normal(size=(6, 32, 32, 3)).astype(np.float32)


def logits_of(module, pixels):
    with torch.no_grad():
        x = torch.from_numpy(pixels.transpose(0, 3, 1, 2).copy())
        return module.eval()(x).numpy()


@pytest.fixture
def module_file(tmp_path, monkeypatch):
    """Write a module with some functions and change to its folder."""

    def write(text, name="ownnet"):
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.chdir(tmp_path)
        monkeypatch.delitem(__import__("sys").modules, name, raising=False)

    return write


CODE = """
from torch import nn

def net():
    return nn.Sequential(nn.Conv2d(3, 4, 5, stride=4), nn.ReLU(), nn.Flatten(), nn.Linear(196, 10))

def timm_like():
    model = net()
    model.pretrained_cfg = {"input_size": (3, 40, 40), "crop_pct": 0.8, "interpolation": "bicubic",
                            "mean": (0.5, 0.5, 0.5), "std": (0.2, 0.2, 0.2)}
    return model

def nothing():
    return 3
"""


def test_module_and_weights(module_file, pixels, tmp_path):
    module_file(CODE)
    torch.manual_seed(3)
    net = nn.Sequential(nn.Conv2d(3, 4, 5, stride=4), nn.ReLU(), nn.Flatten(), nn.Linear(196, 10))
    save_file(net.state_dict(), tmp_path / "w.safetensors")
    found = open_classifier("ownnet:net", weights=tmp_path / "w.safetensors")
    logits, features = found.outputs(pixels, ["0"])
    np.testing.assert_allclose(logits, logits_of(net, pixels), atol=1e-5)
    assert features["0"].shape == (6, 4)
    assert found.about["kind"] == "module"
    assert found.preprocess is None


def test_preprocessing_is_read_from_the_model(module_file):
    module_file(CODE, "ownnet2")
    found = open_classifier("ownnet2:timm_like").preprocess
    assert found == Preprocess(
        crop=40, resize=50, interpolation="bicubic", mean=(0.5,) * 3, std=(0.2,) * 3
    )


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        (  # ConvNeXT and ResNet: the crop is a part of the resized picture
            {
                "size": {"shortest_edge": 224},
                "crop_pct": 0.875,
                "resample": 3,
                "image_mean": [0.5, 0.5, 0.5],
                "image_std": [0.2, 0.2, 0.2],
            },
            Preprocess(
                crop=224, resize=256, interpolation="bicubic", mean=(0.5,) * 3, std=(0.2,) * 3
            ),
        ),
        (  # MobileViT: blue first, not normalized
            {
                "size": {"shortest_edge": 288},
                "do_center_crop": True,
                "crop_size": {"height": 256, "width": 256},
                "do_flip_channel_order": True,
            },
            Preprocess(crop=256, resize=288, mean=(0.0,) * 3, std=(1.0,) * 3, channels="bgr"),
        ),
        (  # ViT
            {
                "size": {"height": 224, "width": 224},
                "resample": 2,
                "do_normalize": True,
                "image_mean": [0.5, 0.5, 0.5],
                "image_std": [0.5, 0.5, 0.5],
            },
            Preprocess(crop=224, resize=224, mean=(0.5,) * 3, std=(0.5,) * 3),
        ),
    ],
)
def test_preprocessing_of_hugging_face(monkeypatch, config, wanted):
    processor = SimpleNamespace(to_dict=lambda: config)
    library = SimpleNamespace(
        AutoImageProcessor=SimpleNamespace(from_pretrained=lambda name: processor),
        AutoModelForImageClassification=SimpleNamespace(from_pretrained=lambda name: nn.Flatten()),
    )
    monkeypatch.setitem(sys.modules, "transformers", library)
    assert open_classifier("hf:some/network").preprocess == wanted


def test_shipped_weights(pixels):
    found = open_classifier("wildcal:cifar10-densenet-45")
    assert found.about["name"] == "densenet-45"
    assert found.preprocess.crop == 32
    logits, features = found.outputs(pixels, found.layers[:-1])
    assert logits.shape == (6, 10)
    assert next(iter(features)) == "stem"
    with pytest.raises(ValueError, match=r"network must be one of 'wildcal:.*, got 'wildcal:nope'"):
        open_classifier("wildcal:nope")


@pytest.mark.parametrize("batch", [None, 8])
def test_onnx_equals_torch(small_network, export, tmp_path, pixels, batch):
    network = small_network()
    path = export(network, tmp_path / "net.onnx", batch)
    found = open_classifier(str(path))
    assert found.size == 32
    assert found.batch_size == batch
    logits, features = found.outputs(pixels)
    np.testing.assert_allclose(logits, logits_of(network, pixels), atol=1e-5)
    assert features == {}


def test_layers_of_onnx(export, tmp_path, pixels):
    torch.manual_seed(0)
    network = build("resnet20", 10)
    path = export(network, tmp_path / "net.onnx")
    found = open_classifier(str(path))
    assert found.layers is None
    nodes = onnx.load(path).graph.node
    pooled = next(node.input[0] for node in nodes if node.op_type == "Gemm")
    _, features = found.outputs(pixels, [pooled])
    _, wanted = TorchClassifier(network, {}).outputs(pixels, ["pool"])
    np.testing.assert_allclose(features[pooled], wanted["pool"], atol=1e-4)
    with pytest.raises(ValueError, match=r"layers must be in the network, got 'nope'"):
        found.outputs(pixels, ["nope"])


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        ("resnet20", ("stem", "stages.0", "stages.1", "stages.2", "logits")),
        ("wrn-16-2", ("stem", "stages.0", "stages.1", "stages.2", "pool", "logits")),
        ("vgg11-half", (*(f"features.{i}" for i in (3, 7, 14, 21, 28)), "logits")),
        ("densenet-45", ("stem", "stages.5", "stages.13", "stages.23", "pool", "logits")),
    ],
)
def test_layers_of_our_networks(name, layers):
    assert TorchClassifier(build(name, 10), {}).layers == layers


def test_layers_of_other_networks():
    assert TorchClassifier(nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten()), {}).layers is None


def test_features_before_an_in_place_layer(pixels):
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(inplace=True), nn.Flatten())
    classifier = TorchClassifier(module, {})
    _, features = classifier.outputs(pixels, ["0"])
    with torch.no_grad():
        x = torch.from_numpy(pixels.transpose(0, 3, 1, 2).copy())
        wanted = module[0](x).mean((2, 3)).numpy()
    np.testing.assert_allclose(features["0"], wanted, atol=1e-5)
    classifier.outputs(pixels)
    assert not module[0]._forward_hooks


def test_layers_that_run_twice(pixels):
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.act = nn.ReLU()

        def forward(self, x):
            return self.act(self.act(x)).mean((2, 3))

    with pytest.raises(ValueError, match="layers must run once per image, got 12 outputs of act"):
        TorchClassifier(Twice(), {}).outputs(pixels, ["act"])


def test_pooled_axes():
    assert pooled_axes((2, 8, 4, 4), "x") == (2, 3)
    assert pooled_axes((2, 4, 4, 8), "x") == (1, 2)
    assert pooled_axes((2, 9, 8), "x") == (1,)
    assert pooled_axes((2, 8), "x") == ()
    with pytest.raises(ValueError, match="layers must give 2 to 4 axes"):
        pooled_axes((2,), "x")


@pytest.mark.parametrize(
    ("network", "error", "text"),
    [
        ("nothing", ValueError, "network must be a .safetensors or .onnx file"),
        ("ownnet3:nothing", ValueError, "network must return a torch module, got int"),
        ("ownnet3:absent", ValueError, "network must be a callable"),
        ("absent_module:net", ValueError, "network must be importable"),
        ("timm:resnet18", ImportError, "pip install timm"),
        ("net.onnx", FileNotFoundError, r"there is no network net\.onnx"),
        ("damaged.onnx", FileFormatError, r"cannot read damaged\.onnx as an ONNX network"),
    ],
)
def test_networks_that_cannot_be_used(module_file, tmp_path, network, error, text):
    if network.startswith("timm"):
        try:
            import timm  # noqa: F401
        except ImportError:
            pass
        else:
            pytest.skip("timm is installed")
    module_file(CODE, "ownnet3")
    (tmp_path / "damaged.onnx").write_bytes(b"nothing")
    with pytest.raises(error, match=text):
        open_classifier(network)


def test_weights_that_cannot_be_used(module_file, tmp_path):
    module_file(CODE, "ownnet4")
    save_file({"x": torch.zeros(1)}, tmp_path / "w.safetensors")
    (tmp_path / "w.pt").write_bytes(b"")
    for name, text in (("w.pt", "must be a .safetensors file"), ("w.safetensors", "must fit")):
        with pytest.raises(ValueError, match=text):
            open_classifier("ownnet4:net", weights=tmp_path / name)
    with pytest.raises(ValueError, match="weights are for module:function"):
        open_classifier("wildcal:cifar10-densenet-45", weights=tmp_path / "w.pt")
    with pytest.raises(ValueError, match="device must be usable, got 'nope'"):
        open_classifier("ownnet4:net", device="nope")
