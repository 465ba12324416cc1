"""DenseNet (Huang et al., 2017) for 32 x 32 pixels: a 3 x 3 stem and no pooling behind it."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from wildcal._old.vision.networks.layers import GlobalPool, conv, initialize, norm_relu_conv


class DenseLayer(nn.Module):
    """Add `growth` channels to those that are there."""

    def __init__(self, n_in: int, growth: int) -> None:
        super().__init__()
        self.grow = nn.Sequential(
            *norm_relu_conv(n_in, 4 * growth, 1), *norm_relu_conv(4 * growth, growth)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the old channels followed by the new ones."""
        return torch.cat([x, self.grow(x)], 1)


class DenseNet(nn.Module):
    """Dense blocks of the given lengths; transitions halve the channels and the picture."""

    def __init__(self, blocks: Sequence[int], n_classes: int, *, growth: int) -> None:
        super().__init__()
        channels = 2 * growth
        self.stem = conv(3, channels)
        stages: list[nn.Module] = []
        for number, length in enumerate(blocks):
            if number:
                half = channels // 2
                stages += [*norm_relu_conv(channels, half, 1), nn.AvgPool2d(2)]
                channels = half
            for _ in range(length):
                stages.append(DenseLayer(channels, growth))
                channels += growth
        self.stages = nn.Sequential(*stages)
        self.norm = nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU(inplace=True))
        self.pool = GlobalPool()
        self.head = nn.Linear(channels, n_classes)
        initialize(self)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits, shape (n, n_classes)."""
        logits: Tensor = self.head(self.pool(self.norm(self.stages(self.stem(x)))))
        return logits
