"""Which layers of a torch module tell most about an image, when nobody says.

The rule: the last layer of every block, the layer just before the first block, and the layer before
the last linear layer if that gives the logits. What a block is follows from the children of the
module. Two or more children that are made of further layers and give a picture or tokens are
blocks; a `Sequential` among them whose own children are such, and of different shapes, stands for
its children. A module with one such child is looked into. Where there are only plain layers in a
row, each pooling layer ends a block. In a DenseNet the transition stands for the block it ends.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from wildcal._old.vision.networks.densenet import DenseNet
from wildcal._old.vision.networks.resnet import ResNet
from wildcal._old.vision.networks.vgg import VGG
from wildcal._old.vision.networks.wide_resnet import WideResNet

_POOLS = (nn.MaxPool2d, nn.AvgPool2d, nn.FractionalMaxPool2d, nn.LPPool2d)
Named = tuple[str, nn.Module]


@dataclass(slots=True)
class _Run:
    """When a layer ran, how often, and the shape of what it gave; None if that was no tensor."""

    started: int
    ended: int = -1
    times: int = 0
    shape: tuple[int, ...] | None = None

    @property
    def usable(self) -> bool:
        return self.times == 1 and self.shape is not None and 2 <= len(self.shape) <= 4

    @property
    def spatial(self) -> bool:
        return self.usable and self.shape is not None and len(self.shape) > 2


def default_layers(network: nn.Module, run: Callable[[], NDArray[np.float32]]) -> tuple[str, ...]:
    """Return the names of the layers; `run` gives the logits of some images."""
    ours = _our_layers(network)
    if ours:
        return ours
    runs, logits = _watched(network, run)
    blocks = _blocks(network, "", runs)
    if not blocks:
        raise ValueError(
            "cannot tell the blocks of this network; name some of its layers with layers=, such as"
            f" layers={','.join([*_examples(runs), 'logits'])}."
        )
    names = [*_before_first(network, blocks[0], runs), *blocks]
    return tuple(dict.fromkeys([*names, *_before_last_linear(network, runs, logits.shape)]))


def _our_layers(network: nn.Module) -> tuple[str, ...]:
    """Return the layers of our own families, as published for them."""
    if isinstance(network, (ResNet, WideResNet)):
        stages = [f"stages.{i}" for i in range(len(network.stages))]
        return ("stem", *stages, "pool")
    if isinstance(network, DenseNet):
        ends = [i for i, m in enumerate(network.stages) if isinstance(m, nn.AvgPool2d)]
        return ("stem", *(f"stages.{i}" for i in ends), "pool")
    if isinstance(network, VGG):
        ends = [i for i, m in enumerate(network.features) if isinstance(m, nn.MaxPool2d)]
        return tuple(f"features.{i}" for i in ends)
    return ()


def _watched(
    network: nn.Module, run: Callable[[], NDArray[np.float32]]
) -> tuple[dict[str, _Run], NDArray[np.float32]]:
    """Return what every layer did in one run of the network, and the logits."""
    runs: dict[str, _Run] = {}
    clock = iter(range(1 << 62))

    def begin(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: object) -> None:
            runs.setdefault(name, _Run(next(clock))).times += 1

        return hook

    def end(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: object, output: object) -> None:
            runs[name].ended = next(clock)
            runs[name].shape = tuple(output.shape) if isinstance(output, Tensor) else None

        return hook

    handles = []
    try:
        for name, module in network.named_modules():
            if name:
                handles.append(module.register_forward_pre_hook(begin(name)))
                handles.append(module.register_forward_hook(end(name)))
        logits = run()
    finally:
        for handle in handles:
            handle.remove()
    return runs, logits


def _blocks(module: nn.Module, prefix: str, runs: dict[str, _Run]) -> list[str]:
    children = list(_children(module, prefix, runs))
    made = [(name, child) for name, child in children if _is_made_of_layers(child)]
    spatial = [(name, child) for name, child in made if runs[name].spatial]
    if len(spatial) >= 2:
        return _without_ended([part for one in spatial for part in _opened(*one, runs)])
    inside = spatial or sorted(made, key=lambda one: _size(one[1]))[-1:]
    for name, child in inside:
        found = _blocks(child, f"{name}.", runs)
        if found:
            return found
    pools = [name for name, child in children if isinstance(child, _POOLS) and runs[name].spatial]
    return pools or [name for name, _ in spatial]


def _children(module: nn.Module, prefix: str, runs: dict[str, _Run]) -> Iterator[Named]:
    """Yield the children that ran; a mere list of layers stands for its members."""
    for name, child in module.named_children():
        if prefix + name in runs:
            yield prefix + name, child
        elif isinstance(child, (nn.ModuleList, nn.ModuleDict)):
            yield from _children(child, f"{prefix}{name}.", runs)


def _opened(name: str, child: nn.Module, runs: dict[str, _Run]) -> list[Named]:
    """Return a Sequential's children if they are blocks of different shapes, or else itself."""
    if isinstance(child, nn.Sequential):
        inner = [
            (part, module)
            for part, module in _children(child, f"{name}.", runs)
            if _is_made_of_layers(module) and runs[part].spatial
        ]
        if len({runs[part].shape for part, _ in inner}) > 1:
            return inner
    return [(name, child)]


def _without_ended(blocks: list[Named]) -> list[str]:
    names = []
    for i, (name, _) in enumerate(blocks):
        following = type(blocks[i + 1][1]).__name__.lower() if i + 1 < len(blocks) else ""
        if "transition" not in following:
            names.append(name)
    return names


def _is_made_of_layers(module: nn.Module) -> bool:
    return any(True for _ in module.children()) and _size(module) > 0


def _size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _before(name: str, runs: dict[str, _Run]) -> list[str]:
    """Return the layer that ended last before another began, if there is one."""
    earlier = [other for other, r in runs.items() if r.usable and r.ended < runs[name].started]
    return [max(earlier, key=lambda other: runs[other].ended)] if earlier else []


def _before_first(network: nn.Module, block: str, runs: dict[str, _Run]) -> list[str]:
    """Return the layer before the first block, unless it learned nothing but shows the image."""
    if isinstance(network.get_submodule(block), _POOLS):  # plain layers in a row
        return []
    found = _before(block, runs)
    learned = [run.ended for _, _, run in _learnt(network, runs)]
    return [name for name in found if learned and min(learned) <= runs[name].ended]


def _learnt(network: nn.Module, runs: dict[str, _Run]) -> list[tuple[str, nn.Module, _Run]]:
    """Return the layers that ran and have parameters of their own."""
    return [
        (name, module, runs[name])
        for name, module in network.named_modules()
        if name in runs and any(True for _ in module.parameters(recurse=False))
    ]


def _before_last_linear(
    network: nn.Module, runs: dict[str, _Run], shape: tuple[int, ...]
) -> list[str]:
    """Return the layer before the linear one that gives the logits, of this shape.

    None where the head is something else: the last linear layer is then inside a gate, say.
    """
    learned = _learnt(network, runs)
    if not learned:
        return []
    name, module, last = max(learned, key=lambda one: one[2].ended)
    is_head = isinstance(module, nn.Linear) and last.usable and last.shape == shape
    return _before(name, runs) if is_head else []


def _examples(runs: dict[str, _Run]) -> list[str]:
    usable = [name for name, run in runs.items() if run.usable]
    return usable[len(usable) // 2 :][:1]
