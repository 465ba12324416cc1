"""Images in, logits of a torch network out, a batch at a time."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from wildcal.core.parallel import thread_count
from wildcal.vision.batches import BATCH, Normaliser


def on_device(network: nn.Module, device: str) -> nn.Module:
    """Return the network on a device, laid out for channels-last images; sets torch's threads."""
    torch.set_num_threads(thread_count())
    # torch's stubs do not know the argument.
    placed: nn.Module = network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    return placed


def as_input(pixels: NDArray[np.float32]) -> Tensor:
    """Return normalised pixels (n, H, W, 3) as (n, 3, H, W).

    The memory stays as it is, which torch calls channels-last; only the axes are told otherwise.
    """
    return torch.from_numpy(pixels).permute(0, 3, 1, 2)


def predict_logits(
    network: nn.Module, images: NDArray[np.uint8], normalise: Normaliser, *, device: str = "cpu"
) -> NDArray[np.float32]:
    """Return float32 logits, shape (n, n_classes); the network is left in evaluation mode."""
    network.eval()
    parts = []
    with torch.inference_mode():
        for start in range(0, len(images), BATCH):
            x = as_input(normalise(images[start : start + BATCH])).to(device)
            parts.append(network(x).float().cpu().numpy())
    return np.concatenate(parts)
