"""The networks by name."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import nn

from wildcal._old.vision.networks.densenet import DenseNet
from wildcal._old.vision.networks.resnet import ResNet
from wildcal._old.vision.networks.vgg import VGG
from wildcal._old.vision.networks.wide_resnet import WideResNet


@dataclass(frozen=True, slots=True)
class Network:
    """A family at one depth and width; `make(n_classes=...)` draws its weights."""

    family: str
    make: Callable[..., nn.Module]


def _vgg(depth: int, *, width: float = 1.0, hidden: int = 0) -> Network:
    return Network("VGG", partial(VGG, depth, width=width, hidden=hidden))


def _resnet(depth: int) -> Network:
    return Network("ResNet", partial(ResNet, depth))


def _se_resnet(depth: int) -> Network:
    return Network("SE-ResNet", partial(ResNet, depth, squeeze=True))


def _wide(depth: int, width: int, dropout: float = 0.0) -> Network:
    return Network("WideResNet", partial(WideResNet, depth, width=width, dropout=dropout))


def _dense(blocks: tuple[int, ...], growth: int) -> Network:
    return Network("DenseNet", partial(DenseNet, blocks, growth=growth))


NETWORKS: dict[str, Network] = {
    # The paper's.
    "vgg19": _vgg(19, hidden=4096),
    "wrn-40-10": _wide(40, 10, dropout=0.5),
    "densenet201": _dense((6, 12, 48, 32), 32),
    "se-resnet50": _se_resnet(50),
    "se-resnet101": _se_resnet(101),
    # Minutes per epoch on a few CPU cores.
    "vgg11-half": _vgg(11, width=0.5),
    "resnet20": _resnet(20),
    "wrn-16-2": _wide(16, 2),
    "densenet-45": _dense((2, 4, 6, 8), 12),
    "densenet-small": _dense((6, 12, 24, 16), 12),
    "se-resnet20": _se_resnet(20),
    # Between the two.
    "vgg16": _vgg(16),
    "resnet18": _resnet(18),
    "wrn-16-4": _wide(16, 4),
    "wrn-40-2": _wide(40, 2),
    "se-resnet18": _se_resnet(18),
}


def build(name: str, n_classes: int) -> nn.Module:
    """Return a network with fresh weights, drawn from torch's generator.

    Examples
    --------
    >>> from wildcal._old.vision.networks import build
    >>> network = build("resnet20", n_classes=10)
    >>> sum(p.numel() for p in network.parameters())
    272474
    """
    check_network(name)
    return NETWORKS[name].make(n_classes=n_classes)


def check_network(name: str) -> None:
    """Raise unless there is a network of this name."""
    if name not in NETWORKS:
        raise ValueError(f"there is no network {name!r}; choose from {', '.join(NETWORKS)}.")
