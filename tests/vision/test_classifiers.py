import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from wildcal._old.core.errors import FileFormatError
from wildcal._old.vision.batches import Normalizer
from wildcal._old.vision.classifiers import open_classifier
from wildcal._old.vision.classifiers.torch_module import TorchClassifier
from wildcal._old.vision.networks import build

USUAL = Normalizer((0.4915, 0.4821, 0.4464), (0.2472, 0.2437, 0.2617))


@pytest.fixture
def images(rng):
    return rng.integers(0, 256, (7, 32, 32, 3), dtype=np.uint8)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    return build("resnet20", 10).eval()


def by_hand(network, images):
    """Channels first, in float64, an image at a time."""
    x = (images / 255 - np.array(USUAL.mean)) / np.array(USUAL.std)
    x = torch.from_numpy(x.transpose(0, 3, 1, 2))
    with torch.no_grad():
        return torch.cat([network.double()(row[None]) for row in x]).numpy()


@pytest.fixture
def module(network, tmp_path, monkeypatch):
    """A module of the user's own, in the working folder, and its weights."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_networks.py").write_text(
        "from types import SimpleNamespace\n"
        "from torch import nn\n"
        "from wildcal._old.vision.networks import build\n"
        "def small():\n    return build('resnet20', 10)\n"
        "def nothing():\n    return 3\n"
        "def sized(size):\n    return size\n"
        "class Plain(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        self.fc = nn.Linear(3072, 2)\n"
        "    def forward(self, x):\n"
        "        return SimpleNamespace(logits=self.fc(x.view(-1, 3072)))\n"
        "number = 7\n"
    )
    save_file(network.float().state_dict(), tmp_path / "w.safetensors")
    yield "my_networks:small"
    import sys

    sys.modules.pop("my_networks", None)


def test_module_and_weights(module, network, images):
    classifier = open_classifier(module, USUAL, weights="w.safetensors")
    logits = classifier.logits(images)
    assert logits.dtype == np.float32
    np.testing.assert_allclose(logits, by_hand(network, images), atol=1e-4)
    assert classifier.about["n_parameters"] == 272474
    assert len(classifier.about["sha256"]) == 64


@pytest.mark.parametrize("batch", [None, 3])
def test_onnx_equals_torch(network, images, export, tmp_path, batch):
    """With a free batch size, and with a fixed one that does not divide the images."""
    path = export(network.float(), tmp_path / "net.onnx", batch)
    logits = open_classifier(str(path), USUAL).logits(images)
    assert logits.dtype == np.float32
    np.testing.assert_allclose(logits, by_hand(network, images), atol=1e-4)


def test_onnx_with_channels_last(images, tmp_path):
    import onnx
    from onnx import TensorProto, helper

    # The mean of each color.
    node = helper.make_node("ReduceMean", ["x", "axes"], ["y"], keepdims=0)
    graph = helper.make_graph(
        [node],
        "means",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 32, 32, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])],
        [helper.make_tensor("axes", TensorProto.INT64, [2], [1, 2])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, tmp_path / "means.onnx")
    logits = open_classifier(str(tmp_path / "means.onnx"), USUAL).logits(images)
    np.testing.assert_allclose(logits, USUAL(images).mean((1, 2)), atol=1e-5)


def test_damaged_onnx(tmp_path, export, network):
    path = export(network.float(), tmp_path / "net.onnx")
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(FileFormatError, match="cannot read .*net.onnx as an ONNX network"):
        open_classifier(str(path), USUAL)
    with pytest.raises(FileNotFoundError, match="there is no network"):
        open_classifier(str(tmp_path / "no.onnx"), USUAL)


def test_onnx_that_takes_no_images(tmp_path):
    import onnx
    from onnx import TensorProto, helper

    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "rows",
        [value("x", TensorProto.FLOAT, ["n", 5])],
        [value("y", TensorProto.FLOAT, ["n", 5])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, tmp_path / "rows.onnx")
    with pytest.raises(ValueError, match=r"must take float images of shape \(n, 3, H, W\)"):
        open_classifier(str(tmp_path / "rows.onnx"), USUAL)


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("my_networks:absent", "my_networks has no callable 'absent'"),
        ("my_networks:number", "my_networks has no callable 'number'"),
        ("my_networks:sized", "must be callable without arguments"),
        ("my_networks:nothing", "must return a torch module, got int"),
        ("not_there:small", "cannot import 'not_there' for not_there:small"),
        ("resnet20", "cannot tell what resnet20 is: give a checkpoint"),
    ],
)
def test_modules_that_cannot_be_used(module, target, text):
    with pytest.raises(ValueError, match=text):
        open_classifier(target, USUAL)


def test_weights_that_cannot_be_used(module, tmp_path, export, network):
    with pytest.raises(FileFormatError, match=r"weights must be a .safetensors file, because"):
        open_classifier(module, USUAL, weights="w.pt")
    with pytest.raises(FileNotFoundError, match="there are no weights"):
        open_classifier(module, USUAL, weights="x.safetensors")
    save_file({"a": torch.zeros(1)}, "small.safetensors")
    with pytest.raises(ValueError, match="do not fit my_networks:small"):
        open_classifier(module, USUAL, weights="small.safetensors")
    (tmp_path / "cut.safetensors").write_bytes((tmp_path / "w.safetensors").read_bytes()[:999])
    with pytest.raises(FileFormatError, match=r"cannot read cut.safetensors"):
        open_classifier(module, USUAL, weights="cut.safetensors")
    path = export(network.float(), tmp_path / "net.onnx")
    with pytest.raises(ValueError, match="weights are for module:callable"):
        open_classifier(str(path), USUAL, weights="w.safetensors")


def test_modules_that_look_at_the_layout_of_memory(module, images):
    """`view` works, and so do outputs with the logits inside."""
    classifier = open_classifier("my_networks:Plain", USUAL)
    assert classifier.logits(images).shape == (7, 2)


def test_module_without_a_file_is_known_by_its_weights(module):
    hashes = set()
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        hashes.add(open_classifier(module, USUAL).about["sha256"])
    assert len(hashes) == 2


def test_weights_beside_an_onnx_file_are_refused(network, export, tmp_path):
    import onnx

    path = export(network.float(), tmp_path / "net.onnx")
    model = onnx.load(path)
    onnx.save(model, path, save_as_external_data=True, location="net.data", size_threshold=0)
    with pytest.raises(FileFormatError, match="keeps weights in other files"):
        open_classifier(str(path), USUAL)


@pytest.mark.parametrize("part", ["input", "output"])
def test_networks_that_take_or_give_nothing(part, tmp_path):
    from onnx import TensorProto, helper

    shape = ["n", 3, 8, 8]
    ends = {
        "input": [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        "output": [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    }
    node = helper.make_node("Relu", ["x"], ["y"])
    if part == "input":
        node = helper.make_node("Constant", [], ["y"], value_float=1.0)
        ends["output"] = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])]
    ends[part] = []
    graph = helper.make_graph([node], "net", ends["input"], ends["output"])
    opset = helper.make_opsetid("", 17)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=8)
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ValueError, match="it has no input or output|cannot read"):
        open_classifier(str(path), USUAL)


def test_networks_that_do_not_run_on_what_they_say_they_take(tmp_path):
    """Another library's errors come out as one line that names the file."""
    from onnx import TensorProto, helper

    ends = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 2, "w"]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
    ]
    node = helper.make_node("Flatten", ["x"], ["y"])
    graph = helper.make_graph([node], "net", ends[:1], ends[1:])
    opset = helper.make_opsetid("", 17)
    path = tmp_path / "net.onnx"
    model = helper.make_model(graph, opset_imports=[opset], ir_version=8)
    path.write_bytes(model.SerializeToString())
    images = np.zeros((2, 8, 8, 3), np.uint8)
    with pytest.raises(FileFormatError, match="cannot run .*net.onnx on images of shape"):
        open_classifier(str(path), USUAL).logits(images)


def test_unknown_device(module):
    with pytest.raises(ValueError, match="cannot use the device 'abacus'"):
        open_classifier(module, USUAL, device="abacus")


def test_modules_of_users_read_channels_last(tmp_path, monkeypatch):
    """Those that cannot, because they look at the memory, get what they can read."""
    seen = []

    class Watching(torch.nn.Module):
        def __init__(self, views):
            super().__init__()
            self.conv, self.fc = torch.nn.Conv2d(3, 4, 3), torch.nn.Linear(4 * 900, 2)
            self.views = views

        def forward(self, x):
            x = self.conv(x)
            seen.append(x.is_contiguous(memory_format=torch.channels_last))
            return self.fc(x.view(len(x), -1) if self.views else x.flatten(1))

    images = np.random.default_rng(0).integers(0, 256, (3, 32, 32, 3), dtype=np.uint8)
    torch.manual_seed(0)
    plain, viewing = Watching(False), Watching(True)
    viewing.load_state_dict(plain.state_dict())
    found = TorchClassifier(plain, USUAL, {}).logits(images)
    assert seen == [True, True]
    seen.clear()
    picky = TorchClassifier(viewing, USUAL, {})
    np.testing.assert_allclose(picky.logits(images), found, atol=1e-5)
    assert seen == [True, False]
    picky.logits(images)
    assert seen == [True, False, False]
