"""Pooled features of layers: of torch modules by hooks, of ONNX files by further outputs."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn

from wildcal._old.vision.batches import Normalizer
from wildcal._old.vision.classifiers import Classifier, open_classifier
from wildcal._old.vision.classifiers.torch_module import TorchClassifier
from wildcal._old.vision.features import make_reader, unit_rows
from wildcal._old.vision.networks import build
from wildcal._old.vision.pooling import pooled_axes

NORMALIZE = Normalizer((0.5,) * 3, (0.25,) * 3)
NAMES = tuple("abcdefghij")
FAMILIES = {
    "resnet20": ("stem", "stages.0", "stages.1", "stages.2", "logits"),
    "se-resnet20": ("stem", "stages.0", "stages.1", "stages.2", "logits"),
    "wrn-16-2": ("stem", "stages.0", "stages.1", "stages.2", "pool", "logits"),
    "vgg11-half": (*(f"features.{i}" for i in (3, 7, 14, 21, 28)), "logits"),
    "densenet-small": ("stem", "stages.9", "stages.25", "stages.53", "pool", "logits"),
}


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).integers(0, 256, (6, 32, 32, 3), dtype=np.uint8)


def ours(name):
    torch.manual_seed(0)
    return TorchClassifier(build(name, 10), NORMALIZE, {}, class_names=NAMES)


def strange(module):
    return TorchClassifier(module, NORMALIZE, {})


def pixels(images):
    return torch.from_numpy(NORMALIZE(images)).permute(0, 3, 1, 2)


def hook_count(module):
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in module.modules())


@pytest.mark.parametrize("name", FAMILIES)
def test_layers_and_bits_of_our_families(name, images):
    classifier = ours(name)
    before = classifier.logits(images)
    reader = make_reader(classifier, images)
    assert reader.layers == FAMILIES[name]
    logits, vectors = reader(images)
    np.testing.assert_array_equal(logits, before)
    np.testing.assert_array_equal(classifier.logits(images), before)
    assert hook_count(classifier.module) == 0
    for vector, width in zip(vectors, reader.widths, strict=True):
        assert vector.shape == (6, width)
        assert vector.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(vector, axis=1), 1, rtol=1e-5)


def test_features_by_hand(images):
    """The stem's output and the second stage's, computed by calling the modules."""
    classifier = ours("resnet20")
    network = classifier.module
    _, (stem, stage, logits) = make_reader(classifier, images, ["stem", "stages.1", "logits"])(
        images
    )
    with torch.inference_mode():
        x = network.stem(pixels(images))
        y = network.stages[1](network.stages[0](x))
    for found, output in ((stem, x), (stage, y)):
        mean = output.mean((2, 3)).numpy()
        wanted = mean / np.linalg.norm(mean, axis=1, keepdims=True)
        np.testing.assert_allclose(found, wanted, atol=1e-6)
    z = classifier.logits(images)
    np.testing.assert_allclose(logits, z / np.linalg.norm(z, axis=1, keepdims=True), atol=1e-6)


def test_of_many_batches(images):
    classifier = ours("vgg11-half")
    many = np.concatenate([images] * 90)  # 540 images in batches of 500
    _, one = make_reader(classifier, images)(images)
    logits, all_of_them = make_reader(classifier, images)(many)
    np.testing.assert_array_equal(logits, classifier.logits(many))
    for few, found in zip(one, all_of_them, strict=True):
        assert len(found) == 540
        np.testing.assert_allclose(found[504:510], few, atol=1e-5)


class InPlace(nn.Module):
    """What `conv` gives is overwritten by the ReLU behind it."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.conv = nn.Conv2d(3, 5, 3)
        self.relu = nn.ReLU(inplace=True)
        self.norm = nn.BatchNorm1d(5)
        self.head = nn.Linear(5, 10)

    def forward(self, x):
        return self.head(self.norm(self.relu(self.conv(x)).mean((2, 3))))


def test_before_an_in_place_layer(images):
    classifier = strange(InPlace())
    before = classifier.logits(images)
    logits, (conv, relu) = classifier.features(images, ["conv", "relu"])
    np.testing.assert_array_equal(logits, before)
    with torch.inference_mode():
        plain = classifier.module.conv(pixels(images).contiguous())
    np.testing.assert_allclose(conv, plain.mean((2, 3)), atol=1e-6)
    np.testing.assert_allclose(relu, plain.relu().mean((2, 3)), atol=1e-6)
    assert (plain < 0).any()


def test_two_axes_are_copied(images):
    """A vector that is overwritten in place behind the layer is kept as it was."""
    module = nn.Sequential(
        nn.Flatten(), nn.Linear(3072, 6), nn.ReLU(inplace=True), nn.Linear(6, 10)
    )
    classifier = strange(module)
    _, (linear,) = classifier.features(images, ["1"])
    assert (linear < 0).any()


class Tokens(nn.Module):
    """A small transformer: tokens of patches, two blocks, a norm, a linear layer."""

    def __init__(self, norm_first=False, width=8):
        super().__init__()
        torch.manual_seed(2)
        self.patches = nn.Conv2d(3, width, 8, 8)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 2, 2 * width, batch_first=True, norm_first=norm_first)
            for _ in range(2)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


def test_tokens(images):
    classifier = strange(Tokens())
    reader = make_reader(classifier, images)
    # A norm of what is normalized already, as the blocks end, shows nothing new.
    assert reader.layers == ("patches", "blocks.0", "blocks.1", "logits")
    kept = []
    handle = classifier.module.norm.register_forward_hook(lambda m, i, o: kept.append(o.clone()))
    _, (norm,) = classifier.features(images, ["norm"])
    handle.remove()
    np.testing.assert_allclose(norm, kept[0].mean(1), atol=1e-6)


@pytest.mark.parametrize("norm_first", [False, True])
def test_bits_of_a_transformer(images, norm_first, monkeypatch):
    """torch has a fast path that it leaves where there are hooks: it must not be on it without.

    Whether the last bits differ depends on the processor, so the fast path is blocked here.
    """

    def blocked(*arguments):
        raise RuntimeError("on the fast path")

    for kernel in ("_transformer_encoder_layer_fwd", "_native_multi_head_attention"):
        monkeypatch.setattr(torch, kernel, blocked)
    classifier = strange(Tokens(norm_first, width=64))
    with torch.inference_mode(), pytest.raises(RuntimeError, match="on the fast path"):
        classifier.module(pixels(images))
    before = classifier.logits(images)
    for layers in (None, ["blocks.0", "logits"], ["blocks.0.linear1"], ["logits"]):
        logits, _ = make_reader(classifier, images, layers)(images)
        np.testing.assert_array_equal(logits, before)
    assert torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        np.testing.assert_array_equal(classifier.logits(images), before)
        assert not torch.backends.mha.get_fastpath_enabled()
    finally:
        torch.backends.mha.set_fastpath_enabled(True)


def test_channels_last_outputs(images):
    class Turned(nn.Module):
        def forward(self, x):
            return x.permute(0, 2, 3, 1)

    module = nn.Sequential(nn.Conv2d(3, 5, 3), Turned(), nn.Flatten(), nn.Linear(4500, 10))
    _, (conv, turned) = strange(module).features(images, ["0", "1"])
    assert turned.shape == (6, 5)
    np.testing.assert_allclose(turned, conv, atol=1e-6)


def test_pooled_axes():
    assert pooled_axes((2, 64, 8, 8), "x") == (2, 3)
    assert pooled_axes((2, 8, 8, 8), "x") == (2, 3)
    assert pooled_axes((2, 8, 8, 64), "x") == (1, 2)
    assert pooled_axes((2, 64, 1, 1), "x") == (2, 3)
    assert pooled_axes((2, 50, 64), "x") == (1,)
    assert pooled_axes((2, 64), "x") == ()
    for shape in ((2,), (2, 3, 4, 5, 6)):
        with pytest.raises(ValueError, match="layer x must give 2 to 4 axes"):
            pooled_axes(shape, "x")


def test_half_precision(images):
    class Half(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(3)
            self.inner = nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(inplace=True)).to(torch.bfloat16)
            self.head = nn.Linear(5, 10)

        def forward(self, x):
            return self.head(self.inner(x.to(torch.bfloat16)).float().mean((2, 3)))

    classifier = strange(Half())
    before = classifier.logits(images)
    logits, (inner,) = classifier.features(images, ["inner"])
    np.testing.assert_array_equal(logits, before)
    assert inner.dtype == np.float32
    with torch.inference_mode():
        wanted = classifier.module.inner(pixels(images).to(torch.bfloat16)).float().mean((2, 3))
    np.testing.assert_allclose(inner, wanted, rtol=1e-4)


class Odd(nn.Module):
    """Layers that no features can be taken of."""

    class Two(nn.Module):
        def forward(self, x):
            return x, x

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.relu = nn.ReLU()
        self.two = self.Two()
        self.unused = nn.Linear(4, 4)
        self.nan = nn.Identity()
        self.batch = nn.Flatten(0, 1)
        self.head = nn.Linear(4, 10)

    def forward(self, x):
        x, _ = self.two(self.relu(self.conv(self.relu(x))))
        x = x.mean((2, 3))
        self.nan(x * float("nan"))
        self.batch(x[..., None])
        return self.head(x)


@pytest.mark.parametrize(
    ("layer", "text"),
    [
        ("relu", "layer relu runs more than once in a forward pass"),
        ("two", "layer two must return one tensor, got tuple"),
        ("unused", "layer unused does not run when the network does"),
        ("nan", "the features of layer nan are not finite numbers"),
        ("batch", "layer batch must give one row for each image"),
        ("", "give at least one layer"),
        ("cnv", "the network has no layer 'cnv'. Near names: conv, "),
    ],
)
def test_layers_that_cannot_be_read(images, layer, text):
    classifier = strange(Odd())
    with pytest.raises(ValueError, match=text):
        make_reader(classifier, images, [layer])
    assert hook_count(classifier.module) == 0
    make_reader(classifier, images, ["conv"])


def test_hooks_are_gone_when_the_network_fails(images):
    class Fails(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3)

        def forward(self, x):
            self.conv(x)
            raise RuntimeError("broken")

    classifier = strange(Fails())
    for read in (
        lambda: classifier.features(images, ["conv"]),
        lambda: make_reader(classifier, images),
    ):
        with pytest.raises(RuntimeError, match="broken"):
            read()
        assert hook_count(classifier.module) == 0


def test_no_layers_and_twice_the_same(images):
    classifier = ours("resnet20")
    with pytest.raises(ValueError, match="give at least one layer, such as layers=logits"):
        make_reader(classifier, images, [])
    with pytest.raises(ValueError, match="the name of a layer is empty in layers=stem,,logits"):
        make_reader(classifier, images, ["stem", "", "logits"])
    with pytest.raises(ValueError, match="the layer stem was given twice"):
        make_reader(classifier, images, ["stem", "logits", "stem"])
    assert make_reader(classifier, images, ["logits"]).widths == (10,)


def test_default_layers_of_other_modules(images):
    """Wrapped networks, stages in a Sequential, plain layers in a row."""
    torch.manual_seed(0)
    wrapped = strange(nn.Sequential(nn.Identity(), build("resnet20", 10)))
    names = ("1.stem", "1.stages.0", "1.stages.1", "1.stages.2", "logits")
    assert make_reader(wrapped, images).layers == names
    wide = strange(nn.Sequential(build("wrn-16-2", 10)))
    names = ("0.stem", "0.stages.0", "0.stages.1", "0.stages.2", "0.norm", "logits")
    assert make_reader(wide, images).layers == names
    vgg = strange(nn.Sequential(build("vgg11-half", 10)))
    names = (*(f"0.features.{i}" for i in (3, 7, 14, 21, 28)), "logits")
    assert make_reader(vgg, images).layers == names


class Gated(nn.Module):
    """A block with a gate of linear layers; the gate ends in as many numbers as the logits."""

    def __init__(self, width, stride):
        super().__init__()
        self.conv = nn.Conv2d(width, 10, 3, stride, padding=1)
        self.squeeze = nn.Linear(10, 4)
        self.excite = nn.Linear(4, 10)

    def forward(self, x):
        x = self.conv(x)
        gate = self.excite(self.squeeze(x.mean((2, 3))).relu()).sigmoid()
        return x * gate[..., None, None]


class GatedNetwork(nn.Module):
    def __init__(self, head):
        super().__init__()
        torch.manual_seed(4)
        self.stem = nn.Conv2d(3, 6, 3)
        self.blocks = nn.ModuleList([Gated(6, 1), Gated(10, 2)])
        self.last = nn.Conv2d(10, 10, 1) if head == "conv" else nn.BatchNorm2d(10)
        self.head = nn.Linear(10, 10) if head == "linear" else nn.Identity()

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(self.last(x).mean((2, 3)))


def test_the_last_linear_layer_must_be_the_head(images):
    blocks = ("stem", "blocks.0", "blocks.1")
    for head in ("conv", "norm"):
        assert strange(GatedNetwork(head)).default_layers(images) == blocks
    assert strange(GatedNetwork("linear")).default_layers(images) == (*blocks, "last")


def test_scripted_modules(images):
    """Their logits can be searched in, their layers cannot."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch thinks of leaving it
        scripted = torch.jit.script(InPlace().eval())
        traced = torch.jit.trace(InPlace().eval(), torch.zeros(2, 3, 32, 32))
    for module, what in (
        (scripted, "the network"),
        (traced, "the network"),
        (nn.Sequential(nn.Identity(), scripted), "layer 1"),
    ):
        classifier = strange(module)
        for layers in (None, ["conv"]):
            with pytest.raises(ValueError, match=f"^{what} is scripted or traced .*plain module"):
                make_reader(classifier, images, layers)
        logits, _ = make_reader(classifier, images, ["logits"])(images)
        np.testing.assert_array_equal(logits, classifier.logits(images))


def test_a_network_without_blocks(images):
    classifier = strange(nn.Sequential(nn.Flatten(), nn.Linear(3072, 10)))
    with pytest.raises(ValueError, match="cannot tell the blocks of this network; name some of"):
        make_reader(classifier, images)
    assert make_reader(classifier, images, ["1"]).layers == ("1",)


def test_a_classifier_that_shows_nothing(images):
    class Closed(Classifier):
        def logits(self, images):
            return np.zeros((len(images), 2), np.float32)

    for layers in (None, ["x"]):
        with pytest.raises(ValueError, match="Closed cannot show what its layers give"):
            make_reader(Closed(), images, layers)


def test_unit_rows():
    found = unit_rows(np.array([[3.0, 4.0], [0.0, 0.0], [1e30, 0.0]], np.float32), "x")
    np.testing.assert_allclose(found, [[0.6, 0.8], [0, 0], [1, 0]], rtol=1e-6)


@pytest.fixture(scope="module")
def onnx_pair(export, tmp_path_factory):
    """The same network as a file and as a module."""
    classifier = ours("resnet20")
    path = export(classifier.module, tmp_path_factory.mktemp("net") / "net.onnx")
    return open_classifier(str(path), NORMALIZE), classifier


def test_onnx_layers(onnx_pair, images):
    file, module = onnx_pair
    reader = make_reader(file, images)
    stages = [f"/stages/stages.{i}/stages.{i}.2/Relu_output_0" for i in range(3)]
    assert reader.layers == (*stages, "logits")
    logits, vectors = reader(images)
    np.testing.assert_array_equal(logits, file.logits(images))
    names = ["stages.0", "stages.1", "stages.2", "logits"]
    _, wanted = make_reader(module, images, names)(images)
    for found, vector in zip(vectors, wanted, strict=True):
        np.testing.assert_allclose(found, vector, atol=1e-5)


def test_onnx_with_a_fixed_batch(export, tmp_path, images):
    path = export(ours("resnet20").module, tmp_path / "net.onnx", batch=4)
    reader = make_reader(open_classifier(str(path), NORMALIZE), images)
    _, found = reader(images)
    _, wanted = make_reader(
        ours("resnet20"), images, ["stages.0", "stages.1", "stages.2", "logits"]
    )(images)
    for one, two in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-5)


def test_onnx_names(onnx_pair, images):
    file, _ = onnx_pair
    with pytest.raises(ValueError, match="has no tensor 'Relu'. Near names: /"):
        make_reader(file, images, ["Relu"])


def test_onnx_without_pictures(export, tmp_path, images):
    flat = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10))
    file = open_classifier(str(export(flat, tmp_path / "net.onnx")), NORMALIZE)
    with pytest.raises(ValueError, match="cannot tell the blocks of .* name some of its tensors"):
        make_reader(file, images)


@pytest.mark.parametrize("batch", ["n", 4])
def test_onnx_with_several_rows_per_image(tmp_path, images, batch):
    """As in window attention. The first rows are not those of the first images."""
    import onnx
    from onnx import TensorProto, helper

    value, node = helper.make_tensor_value_info, helper.make_node
    graph = helper.make_graph(
        [
            node("Reshape", ["x", "windows_of"], ["windows"]),
            node("Reshape", ["windows", "image_of"], ["picture"]),
            node("ReduceMean", ["picture", "axes"], ["logits"], keepdims=0),
        ],
        "windows",
        [value("x", TensorProto.FLOAT, [batch, 3, 32, 32])],
        [value("logits", TensorProto.FLOAT, [batch, 3])],
        [
            helper.make_tensor("windows_of", TensorProto.INT64, [2], [-1, 768]),
            helper.make_tensor("image_of", TensorProto.INT64, [4], [-1, 3, 32, 32]),
            helper.make_tensor("axes", TensorProto.INT64, [2], [2, 3]),
        ],
    )
    opset = [helper.make_opsetid("", 18)]
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)
    classifier = open_classifier(str(path), NORMALIZE)
    logits, (picture,) = classifier.features(images, ["picture"])
    np.testing.assert_allclose(picture, logits, atol=1e-6)
    with pytest.raises(ValueError, match="layer windows must give one row for each image; choose"):
        make_reader(classifier, images, ["windows"])
    graph.output[0].CopyFrom(value("windows", TensorProto.FLOAT, None))
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)
    with pytest.raises(ValueError, match=r"layer windows must give one row for each image\.$"):
        open_classifier(str(path), NORMALIZE).logits(images)
