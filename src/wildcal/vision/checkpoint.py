"""A network on disk: its weights, how it was trained and, until training ends, the optimizer."""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import torch
from torch import Tensor, nn

from wildcal.core.exceptions import FileFormatError, InputError, needs_extra
from wildcal.io.atomic import atomic_write
from wildcal.vision.networks import build

with needs_extra("a checkpoint", "vision"):
    # Re-exported, because a missing package is explained here.
    from safetensors import SafetensorError as SafetensorError
    from safetensors import safe_open
    from safetensors.torch import load_file as load_file
    from safetensors.torch import save

FORMAT: Final = {"format": "wildcal-network", "version": 1}
_WEIGHTS, _MOMENTUM = "network.", "momentum."


@dataclass(kw_only=True)
class Checkpoint:
    """A network in training, or trained: one safetensors file.

    Parameters
    ----------
    network
        Its name in `NETWORKS`.
    data
        Name of the training set.
    class_names
        In the order of the logits.
    mean, std
        Normalization of the pixels, scaled to 0..1, per color.
    recipe
        The options of training.
    history
        A dict per finished epoch.
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
        """Write the file."""
        about = asdict(self)
        tensors: dict[str, Tensor] = {}
        for prefix, name in ((_WEIGHTS, "weights"), (_MOMENTUM, "momentum")):
            tensors |= {prefix + n: t.contiguous() for n, t in getattr(self, name).items()}
            del about[name]
        del about["sha256"]
        content = save(tensors, {"wildcal": json.dumps(FORMAT | about, allow_nan=False)})
        with atomic_write(path, "wb") as file:
            file.write(content)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file that `save` wrote."""
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"there is no checkpoint {path}.")
        try:
            with safe_open(path, framework="pt") as file:
                about = json.loads((file.metadata() or {}).get("wildcal", "{}"))
                tensors = {name: file.get_tensor(name) for name in file.keys()}
            if {key: about.pop(key, None) for key in FORMAT} != FORMAT:
                raise ValueError("it was not written by a training of this version of wildcal.")
            for name in ("class_names", "mean", "std"):
                about[name] = tuple(about[name])
            checkpoint = cls(
                **about,
                weights=_below(_WEIGHTS, tensors),
                momentum=_below(_MOMENTUM, tensors),
                sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
            )
            with torch.device("meta"):
                network = build(checkpoint.network, len(checkpoint.class_names))
            network.load_state_dict(checkpoint.weights, assign=True)
        except Exception as error:  # a damaged file raises a dozen kinds
            raise FileFormatError(f"cannot read {path} as a checkpoint: {error}") from error
        return checkpoint

    def build(self) -> nn.Module:
        """Return the network with these weights, ready to predict."""
        network = build(self.network, len(self.class_names))
        network.load_state_dict(self.weights)
        return network.eval()

    def check_trained(self, what: object) -> None:
        """Raise unless every epoch of the recipe is done."""
        done, total = len(self.history), self.recipe["epochs"]
        if done < total:
            raise InputError(
                f"network must be trained to its end, got {what} after {done} of {total} epochs.",
                "network",
            )


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
