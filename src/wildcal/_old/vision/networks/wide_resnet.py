"""Wide residual networks (Zagoruyko and Komodakis, 2016)."""

from torch import Tensor, nn

from wildcal._old.vision.networks.layers import GlobalPool, conv, initialize, norm_relu_conv


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


class WideResNet(nn.Module):
    """WRN-depth-width: three stages of (depth - 4) / 6 blocks, `width` times 16, 32, 64 channels.

    The convolutions have biases, as the reference has.
    """

    def __init__(self, depth: int, n_classes: int, *, width: int, dropout: float = 0.0) -> None:
        super().__init__()
        if depth < 10 or (depth - 4) % 6:
            raise ValueError(f"depth must be 6n + 4, got {depth}.")
        self.stem = conv(3, 16, bias=True)
        stages = []
        n_in = 16
        for number in range(3):
            n_out = 16 * width * 2**number
            blocks = []
            for i in range((depth - 4) // 6):
                stride = 2 if number > 0 and i == 0 else 1
                blocks.append(WideBlock(n_in, n_out, stride=stride, dropout=dropout))
                n_in = n_out
            stages.append(nn.Sequential(*blocks))
        self.stages = nn.Sequential(*stages)
        self.norm = nn.Sequential(nn.BatchNorm2d(n_in), nn.ReLU(inplace=True))
        self.pool = GlobalPool()
        self.head = nn.Linear(n_in, n_classes)
        initialize(self)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits, shape (n, n_classes)."""
        logits: Tensor = self.head(self.pool(self.norm(self.stages(self.stem(x)))))
        return logits
