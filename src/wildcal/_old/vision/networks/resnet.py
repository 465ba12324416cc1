"""ResNet for 32 x 32 pixels (He et al., 2016), and with squeeze-and-excitation (Hu et al., 2018).

Depths 6n + 2 are the small networks of the ResNet paper's CIFAR section: three stages of 16, 32 and
64 channels. The others are its ImageNet networks behind a 3 x 3 stem that does not reduce the
picture.
"""

from typing import Final

import torch
from torch import Tensor, nn

from wildcal._old.vision.networks.layers import GlobalPool, conv, conv_norm_relu, initialize

_BASIC: Final = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3)}
_BOTTLENECK: Final = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
_EXPANSION: Final = 4
_REDUCTION: Final = 16


class SqueezeExcite(nn.Module):
    """Weigh the channels by a small network that reads their means."""

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
        """Return the weighed channels."""
        weighed: Tensor = x * self.weigh(x)[:, :, None, None]
        return weighed


class Block(nn.Module):
    """Two 3 x 3 convolutions, or a bottleneck of three, around a shortcut."""

    def __init__(
        self, n_in: int, width: int, *, stride: int, bottleneck: bool, squeeze: bool
    ) -> None:
        super().__init__()
        # The reference SE-ResNet keeps the convolutions' biases, which its counts include.
        n_out = width * _EXPANSION if bottleneck else width
        if bottleneck:
            layers = [
                *conv_norm_relu(n_in, width, 1, bias=squeeze),
                *conv_norm_relu(width, width, stride=stride, bias=squeeze),
                conv(width, n_out, 1, bias=squeeze),
            ]
        else:
            layers = [
                *conv_norm_relu(n_in, width, stride=stride, bias=squeeze),
                conv(width, n_out, bias=squeeze),
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


class ResNet(nn.Module):
    """Residual stages behind a 3 x 3 stem; `squeeze` makes it an SE-ResNet."""

    def __init__(
        self, depth: int, n_classes: int, *, width: float = 1.0, squeeze: bool = False
    ) -> None:
        super().__init__()
        repeats, base = _stages(depth)
        bottleneck = depth in _BOTTLENECK
        first = round(base * width)
        self.stem = nn.Sequential(*conv_norm_relu(3, first, bias=squeeze))
        stages = []
        n_in = first
        for number, count in enumerate(repeats):
            blocks = []
            for i in range(count):
                stride = 2 if number > 0 and i == 0 else 1
                block_width = first * 2**number
                blocks.append(
                    Block(n_in, block_width, stride=stride, bottleneck=bottleneck, squeeze=squeeze)
                )
                n_in = block_width * _EXPANSION if bottleneck else block_width
            stages.append(nn.Sequential(*blocks))
        self.stages = nn.Sequential(*stages)
        self.pool = GlobalPool()
        self.head = nn.Linear(n_in, n_classes)
        initialize(self)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits, shape (n, n_classes)."""
        logits: Tensor = self.head(self.pool(self.stages(self.stem(x))))
        return logits


def _stages(depth: int) -> tuple[tuple[int, ...], int]:
    """Return the blocks of each stage and the channels of the first."""
    large = _BASIC | _BOTTLENECK
    if depth in large:
        return large[depth], 64
    if depth >= 8 and (depth - 2) % 6 == 0:
        return ((depth - 2) // 6,) * 3, 16
    raise ValueError(f"depth must be 6n + 2 or one of {sorted(large)}, got {depth}.")
