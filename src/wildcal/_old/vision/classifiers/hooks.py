"""Read what the layers of a torch module give while it runs, and leave no trace in it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from wildcal._old.vision.features import near_names
from wildcal._old.vision.pooling import pooled_axes

Hook = Callable[[nn.Module, tuple[object, ...], object], None]


@contextmanager
def pooled_outputs(network: nn.Module, layers: Sequence[str]) -> Iterator[dict[str, list[Tensor]]]:
    """Yield the pooled outputs of some layers: one tensor for each forward pass inside the block.

    They are pooled as soon as the layer is done, since what comes behind may write into the same
    memory (an in-place ReLU does). Outputs are only looked at, so the network gives the same bits.
    The hooks are gone at the end, whatever happens. A layer that runs more than once in a forward
    pass is refused, because it is not clear which of its outputs is meant.
    """
    modules = named_layers(network)
    unknown = [name for name in layers if name not in modules]
    if unknown:
        raise ValueError(
            f"the network has no layer {unknown[0]!r}.{near_names(unknown[0], modules)}"
        )
    taken: dict[str, list[Tensor]] = {name: [] for name in layers}
    seen: set[str] = set()

    def start(module: nn.Module, inputs: tuple[object, ...]) -> None:
        seen.clear()

    def hook(name: str) -> Hook:
        def take(module: nn.Module, inputs: tuple[object, ...], output: object) -> None:
            if name in seen:
                raise ValueError(
                    f"layer {name} runs more than once in a forward pass, so its features are not"
                    " defined; choose the layer around it with layers=."
                )
            seen.add(name)
            taken[name].append(_pooled(output, name))

        return take

    handles = [network.register_forward_pre_hook(start)]
    try:
        handles += [modules[name].register_forward_hook(hook(name)) for name in layers]
        yield taken
    finally:
        for handle in handles:
            handle.remove()
    silent = [name for name in layers if not taken[name]]
    if silent:
        raise ValueError(
            f"layer {silent[0]} does not run when the network does; choose another with layers=."
        )


def check_open(network: nn.Module) -> None:
    """Raise if a network, or a part of it, is compiled so that its layers cannot be read."""
    # A scripted module holds scripted modules, so the first is the largest.
    for name, module in network.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            what = f"layer {name}" if name else "the network"
            raise ValueError(
                f"{what} is scripted or traced (torch.jit), which hides the layers inside; return"
                " the plain module, or use layers=logits."
            )


def named_layers(network: nn.Module) -> Mapping[str, nn.Module]:
    """Return all modules inside a network by name, one that has two names under both."""
    return {name: m for name, m in network.named_modules(remove_duplicate=False) if name}


def as_arrays(taken: Mapping[str, Sequence[Tensor]], n: int) -> dict[str, NDArray[np.float32]]:
    """Return the outputs of all forward passes as one array for each layer, of n rows."""
    arrays = {}
    for name, parts in taken.items():
        widths = {part.shape[1] for part in parts}
        if len(widths) > 1 or sum(map(len, parts)) != n:
            raise ValueError(
                f"layer {name} must give one row for each image; choose another with layers=."
            )
        arrays[name] = np.concatenate([part.cpu().numpy() for part in parts])
    return arrays


def _pooled(output: object, name: str) -> Tensor:
    if not isinstance(output, Tensor):
        raise ValueError(
            f"layer {name} must return one tensor, got {type(output).__name__}; choose a layer"
            " inside or behind it with layers=."
        )
    values = output.detach()
    axes = pooled_axes(values.shape, name)
    values = values.to(torch.float32, copy=not axes)
    return values.mean(axes) if axes else values
