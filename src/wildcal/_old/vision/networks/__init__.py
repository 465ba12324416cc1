"""Classifiers for 32 x 32 pixels in five families: the paper's sizes, and sizes for a CPU."""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError(
        'wildcal._old.vision.networks needs PyTorch. Install it with: pip install "wildcal[vision]"'
    ) from error

from wildcal._old.vision.networks.registry import NETWORKS, Network, build

__all__ = ["NETWORKS", "Network", "build"]
