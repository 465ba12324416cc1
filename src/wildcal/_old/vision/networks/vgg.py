"""VGG with batch normalization (Simonyan and Zisserman, 2015), for 32 x 32 pixels."""

from typing import Final

from torch import Tensor, nn

from wildcal._old.vision.networks.layers import GlobalPool, conv_norm_relu, initialize

WIDTHS: Final = (64, 128, 256, 512, 512)
CONVOLUTIONS: Final = {
    11: (1, 1, 2, 2, 2),
    13: (2, 2, 2, 2, 2),
    16: (2, 2, 3, 3, 3),
    19: (2, 2, 4, 4, 4),
}
"""Depth -> convolutions in each of the five stages."""


class VGG(nn.Module):
    """Five stages of 3 x 3 convolutions, each halving the picture at its end.

    Parameters
    ----------
    width
        Factor on the number of channels.
    hidden
        Width of the two hidden layers of the head, 4096 in the paper; 0 for a linear head.
    """

    def __init__(self, depth: int, n_classes: int, *, width: float = 1.0, hidden: int = 0) -> None:
        super().__init__()
        if depth not in CONVOLUTIONS:
            raise ValueError(
                f"depth must be one of {', '.join(map(str, CONVOLUTIONS))}, got {depth}."
            )
        channels = [round(w * width) for w in WIDTHS]
        layers: list[nn.Module] = []
        n_in = 3
        for n_out, repeats in zip(channels, CONVOLUTIONS[depth], strict=True):
            for _ in range(repeats):
                layers += conv_norm_relu(n_in, n_out, bias=True)
                n_in = n_out
            # ceil_mode lets pictures that are no multiple of 32 through, too.
            layers.append(nn.MaxPool2d(2, ceil_mode=True))
        self.features = nn.Sequential(*layers)
        self.pool = GlobalPool()
        self.head = _head(n_in, hidden, n_classes)
        initialize(self)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits, shape (n, n_classes)."""
        logits: Tensor = self.head(self.pool(self.features(x)))
        return logits


def _head(n_in: int, hidden: int, n_classes: int) -> nn.Module:
    if not hidden:
        return nn.Linear(n_in, n_classes)
    return nn.Sequential(
        nn.Linear(n_in, hidden),
        nn.ReLU(inplace=True),
        nn.Dropout(),
        nn.Linear(hidden, hidden),
        nn.ReLU(inplace=True),
        nn.Dropout(),
        nn.Linear(hidden, n_classes),
    )
