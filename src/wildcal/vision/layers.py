"""Features of a torch module: which layers, and their outputs averaged over positions."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from wildcal.core.exceptions import InputError
from wildcal.vision.features import LOGITS, check_layer, pooled_axes
from wildcal.vision.networks import VGG, DenseNet, ResNet, WideResNet


def run_with_features(
    network: nn.Module, images: Tensor, layers: Sequence[str]
) -> tuple[Any, dict[str, NDArray[np.float32]]]:
    """Return the output of a network, and the averaged outputs of layers, one row per image."""
    modules = {name: m for name, m in network.named_modules(remove_duplicate=False) if name}
    outputs: dict[str, list[Any]] = {name: [] for name in layers}

    def keep(name: str, module: nn.Module, inputs: Any, output: Any) -> None:
        if not isinstance(output, Tensor):
            raise InputError(
                f"layers must return a tensor, got {type(output).__name__} of {name}.", "layers"
            )
        # A copy, because a later layer may write into the same memory.
        values = output.detach().float().clone()
        axes = pooled_axes(values.shape, name)
        outputs[name].append((values.mean(axes) if axes else values).cpu().numpy())

    for name in layers:
        check_layer(name, list(modules))
    hooks = [modules[name].register_forward_hook(partial(keep, name)) for name in layers]
    try:
        result = network(images)
    finally:
        for hook in hooks:
            hook.remove()
    for name, parts in outputs.items():
        n = sum(map(len, parts))
        if n != len(images):
            raise InputError(
                f"layers must run once per image, got {n:,} outputs of {name} for {len(images):,}"
                " images. Try the layer around it.",
                "layers",
            )
    return result, {name: np.concatenate(parts) for name, parts in outputs.items()}


_STAGE_ENDS: Final = {
    ResNet: ("stages", nn.Sequential),
    WideResNet: ("stages", nn.Sequential),
    DenseNet: ("stages", nn.AvgPool2d),
    VGG: ("features", nn.MaxPool2d),
}
"""Part of each of our networks, and the modules in it that end a stage."""


def stage_ends(network: nn.Module) -> tuple[str, ...] | None:
    """Return the stem, the end of each stage, the pooled features and the logits of our networks.

    Where the last stage ends the network, its average is that of the pooled features. None for
    other networks.
    """
    if type(network) not in _STAGE_ENDS:
        return None
    part, kind = _STAGE_ENDS[type(network)]
    modules = network.get_submodule(part).named_children()
    ends = [f"{part}.{name}" for name, module in modules if isinstance(module, kind)]
    stem = () if isinstance(network, VGG) else ("stem",)
    pool = ("pool",) if hasattr(network, "norm") else ()
    return (*stem, *ends, *pool, LOGITS)
