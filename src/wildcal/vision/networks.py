"""Networks for 32 x 32 pixels in five families: the sizes of the paper, and sizes for a CPU.

VGG with batch normalization (Simonyan and Zisserman, 2015), ResNet (He et al., 2016), SE-ResNet
(Hu et al., 2018), WideResNet (Zagoruyko and Komodakis, 2016) and DenseNet (Huang et al., 2017).
ResNets of depth 6n + 2 follow the CIFAR section of the ResNet paper; the other depths follow its
ImageNet networks, with a 3 x 3 stem that keeps the size of the picture.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from wildcal.core.exceptions import needs_extra
from wildcal.core.validation import check_choice

with needs_extra("wildcal.vision.networks", "vision"):
    import torch
    from torch import Tensor, nn


def conv(
    n_in: int, n_out: int, kernel: int = 3, *, stride: int = 1, bias: bool = False
) -> nn.Module:
    """Return a convolution that keeps the size of the picture, or divides it by `stride`."""
    return nn.Conv2d(n_in, n_out, kernel, stride, padding=kernel // 2, bias=bias)


def conv_norm_relu(
    n_in: int, n_out: int, kernel: int = 3, *, stride: int = 1, bias: bool = False
) -> list[nn.Module]:
    """Return a convolution, its batch normalization and a ReLU."""
    return [
        conv(n_in, n_out, kernel, stride=stride, bias=bias),
        nn.BatchNorm2d(n_out),
        nn.ReLU(inplace=True),
    ]


def norm_relu_conv(
    n_in: int, n_out: int, kernel: int = 3, *, stride: int = 1, bias: bool = False
) -> list[nn.Module]:
    """Return the same three in the order of pre-activation networks."""
    return [
        nn.BatchNorm2d(n_in),
        nn.ReLU(inplace=True),
        conv(n_in, n_out, kernel, stride=stride, bias=bias),
    ]


class GlobalPool(nn.Module):
    """The mean over the picture, one number per channel."""

    def forward(self, x: Tensor) -> Tensor:
        """Return shape (n, channels)."""
        return x.mean((2, 3))


class ImageNetwork(nn.Sequential):
    """Named parts, each applied to the output of the one before: images in, logits out.

    The weights of convolutions are drawn as in He et al. (2015), the others as torch does.
    """

    def __init__(self, **parts: nn.Module) -> None:
        super().__init__(OrderedDict(parts))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
                if module.bias is not None:
                    nn.init.zeros_(module.bias)


def stages(
    block: Callable[..., nn.Module], n_in: int, widths: Sequence[int], repeats: Sequence[int]
) -> nn.Sequential:
    """Return stages of blocks; the first block of all but the first stage halves the picture."""
    found = []
    for number, (n_out, count) in enumerate(zip(widths, repeats, strict=True)):
        blocks = []
        for i in range(count):
            blocks.append(block(n_in, n_out, stride=2 if number > 0 and i == 0 else 1))
            n_in = n_out
        found.append(nn.Sequential(*blocks))
    return nn.Sequential(*found)


WIDTHS: Final = (64, 128, 256, 512, 512)
CONVOLUTIONS: Final = {11: (1, 1, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
"""Depth -> convolutions in each of the five stages."""


class VGG(ImageNetwork):
    """Five stages of 3 x 3 convolutions, each halving the picture at its end.

    Parameters
    ----------
    width
        Factor on the number of channels.
    hidden
        Width of the two hidden layers of the head, 4096 in the paper; 0 for a linear head.
    """

    def __init__(self, depth: int, n_classes: int, *, width: float = 1.0, hidden: int = 0) -> None:
        layers: list[nn.Module] = []
        n_in = 3
        for n_out, repeats in zip(WIDTHS, CONVOLUTIONS[depth], strict=True):
            for _ in range(repeats):
                layers += conv_norm_relu(n_in, round(n_out * width), bias=True)
                n_in = round(n_out * width)
            # ceil_mode accepts sizes that are no multiple of 32.
            layers.append(nn.MaxPool2d(2, ceil_mode=True))
        super().__init__(
            features=nn.Sequential(*layers),
            pool=GlobalPool(),
            head=_head(n_in, hidden, n_classes),
        )


def _head(n_in: int, hidden: int, n_classes: int) -> nn.Module:
    if not hidden:
        return nn.Linear(n_in, n_classes)
    layers: list[nn.Module] = []
    for width in (n_in, hidden):
        layers += [nn.Linear(width, hidden), nn.ReLU(inplace=True), nn.Dropout()]
    return nn.Sequential(*layers, nn.Linear(hidden, n_classes))


_BASIC: Final = {18: (2, 2, 2, 2)}
_BOTTLENECK: Final = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3)}
_EXPANSION: Final = 4
_REDUCTION: Final = 16


class SqueezeExcite(nn.Module):
    """Multiply the channels by weights that a small network computes from their means."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        # 16-channel networks would otherwise be squeezed through a single number.
        hidden = max(channels // _REDUCTION, 4)
        self.weigh = nn.Sequential(
            GlobalPool(),
            nn.Linear(channels, hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, channels),
            nn.Sigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the weighted channels."""
        weighted: Tensor = x * self.weigh(x)[:, :, None, None]
        return weighted


class Block(nn.Module):
    """Two 3 x 3 convolutions, or a bottleneck of three, around a shortcut."""

    def __init__(
        self, n_in: int, n_out: int, *, stride: int, bottleneck: bool, squeeze: bool
    ) -> None:
        super().__init__()
        # The reference SE-ResNet keeps the convolutions' biases, which its counts include.
        if bottleneck:
            width = n_out // _EXPANSION
            layers = [
                *conv_norm_relu(n_in, width, 1, bias=squeeze),
                *conv_norm_relu(width, width, stride=stride, bias=squeeze),
                conv(width, n_out, 1, bias=squeeze),
            ]
        else:
            layers = [
                *conv_norm_relu(n_in, n_out, stride=stride, bias=squeeze),
                conv(n_out, n_out, bias=squeeze),
            ]
        layers.append(nn.BatchNorm2d(n_out))
        if squeeze:
            layers.append(SqueezeExcite(n_out))
        self.residual = nn.Sequential(*layers)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or n_in != n_out:
            self.shortcut = nn.Sequential(
                conv(n_in, n_out, 1, stride=stride, bias=squeeze), nn.BatchNorm2d(n_out)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Return the rectified sum of both branches."""
        return torch.relu(self.residual(x) + self.shortcut(x))


class ResNet(ImageNetwork):
    """Residual stages after a 3 x 3 stem; `squeeze` makes it an SE-ResNet."""

    def __init__(self, depth: int, n_classes: int, *, squeeze: bool = False) -> None:
        bottleneck = depth in _BOTTLENECK
        repeats = (_BASIC | _BOTTLENECK).get(depth, ((depth - 2) // 6,) * 3)
        first = 64 if depth in _BASIC or bottleneck else 16
        widths = [first * 2**i * (_EXPANSION if bottleneck else 1) for i in range(len(repeats))]
        block = partial(Block, bottleneck=bottleneck, squeeze=squeeze)
        super().__init__(
            stem=nn.Sequential(*conv_norm_relu(3, first, bias=squeeze)),
            stages=stages(block, first, widths, repeats),
            pool=GlobalPool(),
            head=nn.Linear(widths[-1], n_classes),
        )


class WideBlock(nn.Module):
    """Two pre-activated 3 x 3 convolutions around a shortcut."""

    def __init__(self, n_in: int, n_out: int, *, stride: int, dropout: float) -> None:
        super().__init__()
        *activation, second = norm_relu_conv(n_out, n_out, bias=True)
        self.residual = nn.Sequential(
            *norm_relu_conv(n_in, n_out, stride=stride, bias=True),
            *activation,
            *([nn.Dropout(dropout)] if dropout else []),
            second,
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or n_in != n_out:
            self.shortcut = conv(n_in, n_out, 1, stride=stride, bias=True)

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum of both branches."""
        total: Tensor = self.residual(x) + self.shortcut(x)
        return total


class WideResNet(ImageNetwork):
    """WRN-depth-width: three stages of (depth - 4) / 6 blocks, `width` times 16, 32, 64 channels.

    The convolutions have biases, as the reference has.
    """

    def __init__(self, depth: int, n_classes: int, *, width: int, dropout: float = 0.0) -> None:
        widths = [16 * width, 32 * width, 64 * width]
        block = partial(WideBlock, dropout=dropout)
        super().__init__(
            stem=conv(3, 16, bias=True),
            stages=stages(block, 16, widths, [(depth - 4) // 6] * 3),
            norm=nn.Sequential(nn.BatchNorm2d(widths[-1]), nn.ReLU(inplace=True)),
            pool=GlobalPool(),
            head=nn.Linear(widths[-1], n_classes),
        )


class DenseLayer(nn.Module):
    """Append `growth` channels to the input."""

    def __init__(self, n_in: int, growth: int) -> None:
        super().__init__()
        self.grow = nn.Sequential(
            *norm_relu_conv(n_in, 4 * growth, 1), *norm_relu_conv(4 * growth, growth)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the input channels followed by the new ones."""
        return torch.cat([x, self.grow(x)], 1)


class DenseNet(ImageNetwork):
    """Dense blocks of the given lengths; transitions halve the channels and the picture.

    Parameters
    ----------
    transition_relu
        Whether transitions have a ReLU, as in the DenseNet paper. The widely used CIFAR networks,
        and the checkpoint of the energy calibration paper, have none.
    """

    def __init__(
        self, blocks: Sequence[int], n_classes: int, *, growth: int, transition_relu: bool = True
    ) -> None:
        channels = 2 * growth
        stem = conv(3, channels)
        layers: list[nn.Module] = []
        for number, length in enumerate(blocks):
            if number:
                norm, relu, convolution = norm_relu_conv(channels, channels // 2, 1)
                transition = [norm, relu] if transition_relu else [norm]
                layers += [*transition, convolution, nn.AvgPool2d(2)]
                channels //= 2
            for _ in range(length):
                layers.append(DenseLayer(channels, growth))
                channels += growth
        super().__init__(
            stem=stem,
            stages=nn.Sequential(*layers),
            norm=nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU(inplace=True)),
            pool=GlobalPool(),
            head=nn.Linear(channels, n_classes),
        )


@dataclass(frozen=True, slots=True)
class Network:
    """A family at one depth and width; `make(n_classes=...)` draws its weights."""

    family: str
    make: Callable[..., nn.Module]


NETWORKS: dict[str, Network] = {
    # The paper's.
    "vgg19": Network("VGG", partial(VGG, 19, hidden=4096)),
    "wrn-40-10": Network("WideResNet", partial(WideResNet, 40, width=10, dropout=0.5)),
    "densenet201": Network(
        "DenseNet", partial(DenseNet, (6, 12, 48, 32), growth=32, transition_relu=False)
    ),
    "se-resnet50": Network("SE-ResNet", partial(ResNet, 50, squeeze=True)),
    "se-resnet101": Network("SE-ResNet", partial(ResNet, 101, squeeze=True)),
    # Minutes per epoch on a few CPU cores.
    "vgg11-half": Network("VGG", partial(VGG, 11, width=0.5)),
    "resnet20": Network("ResNet", partial(ResNet, 20)),
    "wrn-16-2": Network("WideResNet", partial(WideResNet, 16, width=2)),
    "densenet-45": Network("DenseNet", partial(DenseNet, (2, 4, 6, 8), growth=12)),
    "densenet-small": Network("DenseNet", partial(DenseNet, (6, 12, 24, 16), growth=12)),
    "se-resnet20": Network("SE-ResNet", partial(ResNet, 20, squeeze=True)),
    # Between the two.
    "vgg16": Network("VGG", partial(VGG, 16)),
    "resnet18": Network("ResNet", partial(ResNet, 18)),
    "wrn-16-4": Network("WideResNet", partial(WideResNet, 16, width=4)),
    "wrn-40-2": Network("WideResNet", partial(WideResNet, 40, width=2)),
    "se-resnet18": Network("SE-ResNet", partial(ResNet, 18, squeeze=True)),
}


def build(name: str, n_classes: int) -> nn.Module:
    """Return a network with fresh weights, drawn from torch's generator.

    Examples
    --------
    >>> from wildcal.vision.networks import build
    >>> network = build("resnet20", n_classes=10)
    >>> sum(p.numel() for p in network.parameters())
    272474
    """
    check_choice("network", name, NETWORKS)
    return NETWORKS[name].make(n_classes=n_classes)
