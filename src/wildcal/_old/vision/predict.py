"""Images in, logits of a torch network out, a batch at a time."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from wildcal._old.core.parallel import thread_count
from wildcal._old.vision.batches import Normalizer, Pixels, batch_size


def on_device(network: nn.Module, device: str) -> nn.Module:
    """Return the network on a device; sets torch's threads."""
    torch.set_num_threads(thread_count())
    try:
        return network.to(device)
    # What torch raises depends on the device and on how torch was built.
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"cannot use the device {device!r}: {reason}") from error


def channels_last(network: nn.Module) -> nn.Module:
    """Return the network laid out for channels-last images, which CPUs prefer."""
    # torch's stubs do not know the argument.
    placed: nn.Module = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return placed


def as_input(pixels: NDArray[np.float32]) -> Tensor:
    """Return normalized pixels (n, H, W, 3) as (n, 3, H, W).

    The memory stays as it is, which torch calls channels-last; only the axes are told otherwise.
    """
    return torch.from_numpy(pixels).permute(0, 3, 1, 2)


@contextmanager
def one_road() -> Iterator[None]:
    """Keep torch from computing attention in another way where nobody looks at the layers.

    Its fast path for transformers is dropped as soon as a hook sits on one of the layers, and gives
    other last bits. Convolutional networks have no such path. Versions of torch without the switch
    do not look for hooks either.
    """
    switch = getattr(torch.backends, "mha", None)
    if switch is None:
        yield
        return
    before = switch.get_fastpath_enabled()
    switch.set_fastpath_enabled(False)
    try:
        yield
    finally:
        switch.set_fastpath_enabled(before)


def predict_logits(
    network: nn.Module,
    images: Pixels,
    normalize: Normalizer,
    *,
    device: str = "cpu",
    contiguous: bool = False,
) -> NDArray[np.float32]:
    """Return float32 logits, shape (n, n_classes); the network is left in evaluation mode.

    `contiguous` is for networks that look at the layout of the memory.
    """
    network.eval()
    parts = []
    size = batch_size(images.shape[1])
    with torch.inference_mode(), one_road():
        for start in range(0, len(images), size):
            x = as_input(normalize(images[start : start + size]))
            out = network((x.contiguous() if contiguous else x).to(device))
            out = getattr(out, "logits", out)  # what transformer libraries return
            if not isinstance(out, Tensor):
                raise ValueError(f"the network must return a tensor, got {type(out).__name__}.")
            parts.append(out.float().cpu().numpy())
    return np.concatenate(parts)
