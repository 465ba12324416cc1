"""Features of a torch module: which layers, and their outputs averaged over positions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
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
    with _forward_hooks({name: modules[name] for name in layers}, keep):
        result = network(images)
    for name, parts in outputs.items():
        n = sum(map(len, parts))
        if n != len(images):
            raise InputError(
                f"layers must run once per image, got {n:,} outputs of {name} for {len(images):,}"
                " images. Try the layer around it.",
                "layers",
            )
    return result, {name: np.concatenate(parts) for name, parts in outputs.items()}


@contextmanager
def _forward_hooks(
    modules: Mapping[str, nn.Module], function: Callable[[str, nn.Module, Any, Any], None]
) -> Iterator[None]:
    """Call function(name, module, inputs, output) each time a module has run."""
    with ExitStack() as stack:
        for name, module in modules.items():
            stack.enter_context(module.register_forward_hook(partial(function, name)))
        yield


def default_layers(network: nn.Module, run: Callable[[], object]) -> tuple[str, ...]:
    """Return the layers that density-aware calibration reads by default.

    In our own networks these are the stem, the end of each stage and the pooled features. In
    others: the last layer at each resolution of the picture, or each block of a transformer, and
    the layer before the last linear one. The logits come last.

    Parameters
    ----------
    network
        A torch module.
    run
        Runs it on a few images.
    """
    return *(_own_layers(network) or _found_layers(network, run)), LOGITS


_STAGE_ENDS: Final = {
    ResNet: ("stages", nn.Sequential),
    WideResNet: ("stages", nn.Sequential),
    DenseNet: ("stages", nn.AvgPool2d),
    VGG: ("features", nn.MaxPool2d),
}
"""Part of each of our networks, and the modules in it that end a stage."""


def _own_layers(network: nn.Module) -> tuple[str, ...]:
    if type(network) not in _STAGE_ENDS:
        return ()
    part, kind = _STAGE_ENDS[type(network)]
    modules = network.get_submodule(part).named_children()
    ends = tuple(f"{part}.{name}" for name, module in modules if isinstance(module, kind))
    return ends if isinstance(network, VGG) else ("stem", *ends, "pool")


def _found_layers(network: nn.Module, run: Callable[[], object]) -> tuple[str, ...]:
    # The shapes of the outputs of each layer, in the order in which the layers end.
    shapes: dict[str, list[tuple[int, ...]]] = {}

    def note(name: str, module: nn.Module, inputs: Any, output: Any) -> None:
        if isinstance(output, Tensor):
            shapes.setdefault(name, []).append(tuple(output.shape))

    modules = {name: module for name, module in network.named_modules() if name}
    with _forward_hooks(modules, note):
        run()
    once = {name: found[0] for name, found in shapes.items() if len(found) == 1}
    last: dict[tuple[int, ...], str] = {}  # the last picture at each resolution
    for name, shape in once.items():
        if len(shape) == 4 and min(shape[2:]) > 1:
            last[shape[2:]] = name
    found = list(last.values()) if len(last) > 1 else _blocks(modules, once)
    linear = [name for name in once if isinstance(modules[name], nn.Linear)]
    order = list(once)
    if linear and order.index(linear[-1]) > 0 and len(once[linear[-1]]) == 2:
        before = order[order.index(linear[-1]) - 1]
        if len(once[before]) == 2:
            found.append(before)
    if not found:
        raise InputError(
            "layers must be given: the network has no pictures of several resolutions and no"
            f" blocks. Its layers are {', '.join(order[:20])}.",
            "layers",
        )
    return tuple(dict.fromkeys(found))


def _blocks(modules: dict[str, nn.Module], shapes: dict[str, tuple[int, ...]]) -> list[str]:
    """Return the members of the longest list of modules that give tokens or pictures."""
    lists = [
        [
            f"{name}.{i}"
            for i, _ in module.named_children()
            if len(shapes.get(f"{name}.{i}", ())) > 2
        ]
        for name, module in modules.items()
        if isinstance(module, nn.ModuleList | nn.Sequential)
    ]
    return max(lists, key=len, default=[])
