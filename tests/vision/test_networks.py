import numpy as np
import pytest
import torch

from wildcal.vision.networks import NETWORKS, build
from wildcal.vision.networks.resnet import ResNet, SqueezeExcite
from wildcal.vision.networks.vgg import VGG
from wildcal.vision.networks.wide_resnet import WideResNet

# Millions of parameters for 10 and 100 classes, counted on the reference implementations.
COUNTS = {
    "vgg19": (38.96, 39.33),
    "wrn-40-10": (55.86, 55.91),
    "densenet201": (18.10, 18.28),
    "se-resnet50": (26.08, None),
    "se-resnet101": (None, 47.53),
    "wrn-40-2": (2.25, None),
    "wrn-16-2": (0.69, None),
    "wrn-16-4": (2.75, None),
    "densenet-small": (1.0, None),
    "densenet-45": (0.19, None),
    "se-resnet18": (11.3, None),
}
# Billions of multiplications and additions for one 32 x 32 image.
GMACS = {
    "vgg19": 0.42,
    "wrn-40-10": 8.07,
    "densenet201": 1.36,
    "se-resnet50": 1.30,
    "se-resnet101": 2.51,
    "wrn-40-2": 0.33,
    "wrn-16-2": 0.10,
    "wrn-16-4": 0.39,
    "densenet-small": 0.125,
    "densenet-45": 0.0283,
    "se-resnet18": 0.56,
}
CPU = ("vgg11-half", "resnet20", "wrn-16-2", "densenet-45", "densenet-small", "se-resnet20")


def on_meta(name, n_classes):
    with torch.device("meta"):
        return build(name, n_classes)


def shown(value, like):
    """Round to as many decimals as the figure has."""
    return round(value, len(str(like).split(".")[1]))


@pytest.mark.parametrize("name", COUNTS)
def test_parameter_counts(name):
    for n_classes, expected in zip((10, 100), COUNTS[name], strict=True):
        if expected is not None:
            count = sum(p.numel() for p in on_meta(name, n_classes).parameters())
            assert shown(count / 1e6, expected) == expected


@pytest.mark.parametrize("name", GMACS)
def test_multiplications(name):
    """Counted as outputs x inputs of every convolution and linear layer."""
    network = on_meta(name, 10).eval()
    total = 0

    def count(module, inputs, output):
        nonlocal total
        if isinstance(module, torch.nn.Conv2d):
            total += output.numel() * module.in_channels * module.kernel_size[0] ** 2
        elif isinstance(module, torch.nn.Linear):
            total += output.numel() * module.in_features

    for module in network.modules():
        module.register_forward_hook(count)
    network(torch.zeros(1, 3, 32, 32, device="meta"))
    assert total / 1e9 == pytest.approx(GMACS[name], rel=0.04)


@pytest.mark.parametrize("name", NETWORKS)
def test_shapes(name):
    network = on_meta(name, 7).eval()
    for side in (24, 32):
        assert network(torch.zeros(3, 3, side, side, device="meta")).shape == (3, 7)


@pytest.mark.parametrize("name", CPU)
def test_every_parameter_learns(name):
    torch.manual_seed(0)
    network = build(name, 10)
    x = torch.randn(4, 3, 32, 32)
    torch.nn.functional.cross_entropy(network(x), torch.arange(4)).backward()
    still = [n for n, p in network.named_parameters() if p.grad is None]
    assert still == []
    # A bias in front of a batch normalization has no effect, so those may be zero.
    moved = [float(p.grad.abs().max()) > 0 for p in network.parameters() if p.ndim > 1]
    assert np.mean(moved) == 1


def test_rows_do_not_see_each_other():
    torch.manual_seed(0)
    network = build("se-resnet20", 10).eval()
    x = torch.randn(4, 3, 32, 32)
    together, alone = network(x), network(x[2:3])
    assert torch.allclose(together[2:3], alone, atol=1e-5)


def test_squeeze_weighs_channels():
    torch.manual_seed(0)
    x = torch.rand(2, 32, 5, 5) + 0.1
    weights = (SqueezeExcite(32)(x) / x).detach()
    assert torch.allclose(weights, weights[..., :1, :1], atol=1e-5)
    assert 0 < float(weights.min()) < float(weights.max()) < 1


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: ResNet(21, 10), "depth must be 6n \\+ 2 or one of"),
        (lambda: WideResNet(15, 10, width=2), "depth must be 6n \\+ 4, got 15"),
        (lambda: VGG(12, 10), "depth must be one of 11, 13, 16, 19, got 12"),
        (lambda: build("resnet-20", 10), "there is no network 'resnet-20'; choose from vgg19"),
    ],
)
def test_unknown_sizes(make, text):
    with pytest.raises(ValueError, match=text):
        make()
