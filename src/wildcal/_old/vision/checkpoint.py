"""A network on disk: its weights, how it was trained and, until training ends, the optimizer.

One safetensors file. Nothing in it is executed when it is read, and what it says of itself is
checked before it is used.
"""

import json
import math
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from wildcal._old.core.errors import FileFormatError, MissingExtraError
from wildcal._old.io.files import file_hash, replacing
from wildcal._old.vision.networks import NETWORKS, build

try:
    # The `as` says that others may import them from here, where a missing package is explained.
    from safetensors import SafetensorError as SafetensorError
    from safetensors import safe_open
    from safetensors.torch import load_file as load_file
    from safetensors.torch import save_file
except ImportError as error:
    raise MissingExtraError(
        'checkpoints need safetensors. Install it with: pip install "wildcal[vision]"'
    ) from error

FORMAT, VERSION = "wildcal-network", 1
_WEIGHTS, _MOMENTUM = "network.", "momentum."


@dataclass(kw_only=True)
class Checkpoint:
    """A network in training, or trained.

    Parameters
    ----------
    network
        Its name in `NETWORKS`.
    data
        Name of the training set.
    mean, std
        What the pixels, scaled to 0..1, were normalized with, per color.
    recipe
        The options of training.
    history
        A dict for each finished epoch.
    """

    network: str
    data: str
    class_names: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    recipe: dict[str, Any]
    history: list[dict[str, float]] = field(default_factory=list)
    weights: dict[str, Tensor] = field(repr=False)
    momentum: dict[str, Tensor] = field(default_factory=dict, repr=False)
    sha256: str = ""

    def save(self, path: str | Path) -> None:
        """Write the file whole or not at all."""
        about = asdict(self)
        for name in ("weights", "momentum", "sha256"):
            del about[name]
        about = {"format": FORMAT, "version": VERSION, **about}
        tensors = {_WEIGHTS + name: tensor for name, tensor in self.weights.items()}
        tensors |= {_MOMENTUM + name: tensor for name, tensor in self.momentum.items()}
        with replacing(path) as temporary:
            save_file(
                {name: tensor.contiguous() for name, tensor in tensors.items()},
                temporary,
                {"wildcal": json.dumps(about, allow_nan=False)},
            )

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file that `save` wrote."""
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"there is no checkpoint {path}.")
        try:
            with safe_open(path, framework="pt") as file:
                about = _check_about((file.metadata() or {}).get("wildcal"))
                tensors = {name: file.get_tensor(name) for name in file.keys()}
        except (SafetensorError, ValueError, RecursionError) as error:
            raise FileFormatError(f"cannot read {path} as a checkpoint: {error}") from error
        checkpoint = cls(
            **about,
            weights=_below(_WEIGHTS, tensors),
            momentum=_below(_MOMENTUM, tensors),
            sha256=file_hash(path),
        )
        checkpoint._check_weights(path)
        return checkpoint

    def build(self) -> nn.Module:
        """Return the network with these weights, ready to predict."""
        network = build(self.network, len(self.class_names))
        network.load_state_dict(self.weights)
        return network.eval()

    def packed(self) -> Self:
        """Return the trained network in half the bytes: weights of float16, nothing to train on.

        Raises
        ------
        ValueError
            If it is not trained to its end, or float16 cannot hold a weight.
        """
        self.check_trained("the network")
        weights = {
            name: tensor.half() if tensor.is_floating_point() else tensor
            for name, tensor in self.weights.items()
        }
        for name, tensor in weights.items():
            if not torch.isfinite(tensor).all():
                raise ValueError(f"{name} has weights that float16 cannot hold.")
        return replace(self, weights=weights, momentum={}, sha256="")

    def check_trained(self, what: object) -> None:
        """Raise unless every epoch of the recipe is done."""
        done, wanted = len(self.history), self.recipe["epochs"]
        if done < wanted:
            raise ValueError(
                f"{what} is not trained to its end ({done} of {wanted} epochs); go on with"
                " its training first."
            )

    def _check_weights(self, path: Path) -> None:
        with torch.device("meta"):
            expected = build(self.network, len(self.class_names)).state_dict()
        if {n: t.shape for n, t in expected.items()} != {
            n: t.shape for n, t in self.weights.items()
        }:
            raise FileFormatError(f"the weights in {path} are not those of a {self.network}.")


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


def _check_about(text: str | None) -> dict[str, Any]:
    """Return the checked description of a network, or raise a ValueError."""
    if text is None:
        raise ValueError("it was not written by wildcal train.")
    about = json.loads(text)
    if not isinstance(about, dict) or about.pop("format", None) != FORMAT:
        raise ValueError("it was not written by wildcal train.")
    if about.pop("version", None) != VERSION:
        raise ValueError("it has an unknown version; a newer wildcal may have written it.")
    kinds = {
        "network": str,
        "data": str,
        "class_names": list,
        "mean": list,
        "std": list,
        "recipe": dict,
        "history": list,
    }
    if set(about) != set(kinds) or any(not isinstance(about[k], t) for k, t in kinds.items()):
        raise ValueError("its description is damaged.")
    numbers = about["mean"] + about["std"]
    if len(about["mean"]) != 3 or len(about["std"]) != 3:
        raise ValueError("its mean and std must have three values.")
    if (
        not all(isinstance(v, float) and math.isfinite(v) for v in numbers)
        or min(about["std"]) <= 0
    ):
        raise ValueError("its mean and std must be numbers, std above 0.")
    if len(about["class_names"]) < 2 or not all(isinstance(n, str) for n in about["class_names"]):
        raise ValueError("its class_names must be at least two words.")
    if about["network"] not in NETWORKS:
        raise ValueError(f"it holds a network {about['network']!r}, which is not known here.")
    epochs = about["recipe"].get("epochs")
    if not isinstance(epochs, int) or epochs < 1:
        raise ValueError("its recipe is damaged.")
    if not all(
        isinstance(epoch, dict) and isinstance(epoch.get("watched"), float)
        for epoch in about["history"]
    ):
        raise ValueError("its history is damaged.")
    for name in ("class_names", "mean", "std"):
        about[name] = tuple(about[name])
    return about
