"""Pieces that several families are made of."""

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


def initialize(network: nn.Module) -> None:
    """Draw the weights of convolutions as He et al. (2015) do; the rest keeps torch's start."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
