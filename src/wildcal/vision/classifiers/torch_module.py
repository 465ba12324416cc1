"""Classifiers that are torch modules: our checkpoints, and modules of the user's own code."""

import importlib
import sys
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from wildcal.core.errors import FileFormatError
from wildcal.vision.batches import Normaliser
from wildcal.vision.checkpoint import Checkpoint
from wildcal.vision.classifiers.base import Classifier, file_hash
from wildcal.vision.networks import NETWORKS
from wildcal.vision.predict import on_device, predict_logits


@final
class TorchClassifier(Classifier):
    """A module that takes float32 (n, 3, H, W) and returns logits (n, n_classes)."""

    def __init__(
        self, module: nn.Module, normalise: Normaliser, about: dict[str, Any], device: str = "cpu"
    ) -> None:
        self.module = on_device(module.eval(), device)
        self.normalise = normalise
        self.about = about | {"n_parameters": sum(p.numel() for p in module.parameters())}
        self.device = device

    def logits(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return float32 logits."""
        return predict_logits(self.module, images, self.normalise, device=self.device)


def open_checkpoint(path: Path, *, device: str = "cpu") -> TorchClassifier:
    """Return a network that `wildcal train` wrote."""
    checkpoint = Checkpoint.load(path)
    if len(checkpoint.history) < checkpoint.recipe["epochs"]:
        raise ValueError(
            f"{path} is not trained to its end ({len(checkpoint.history)} of"
            f" {checkpoint.recipe['epochs']} epochs); go on with `wildcal train --resume`."
        )
    about = {
        "name": checkpoint.network,
        "family": NETWORKS[checkpoint.network].family,
        "kind": "checkpoint",
        "sha256": checkpoint.sha256,
        "trained_on": checkpoint.data,
        "recipe": checkpoint.recipe,
    }
    normalise = Normaliser(checkpoint.mean, checkpoint.std)
    return TorchClassifier(checkpoint.build(), normalise, about, device)


def open_module(
    target: str, normalise: Normaliser, *, weights: Path | None = None, device: str = "cpu"
) -> TorchClassifier:
    """Return the module that `module:callable` makes, with weights from a safetensors file.

    The callable is called without arguments. It is the user's own code, and is run.
    """
    make = _find(target)
    module = make()
    if not isinstance(module, nn.Module):
        raise ValueError(f"{target} must return a torch module, got {type(module).__name__}.")
    about = {"name": target, "kind": "module", "sha256": None}
    if weights is not None:
        _load_weights(module, target, weights)
        about["sha256"] = file_hash(weights)
    return TorchClassifier(module, normalise, about, device)


def _find(target: str) -> Any:
    module_name, _, name = target.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")  # as `python -m` does, so that code in the working folder is found
    try:
        found = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise ValueError(
            f"cannot import {module_name!r} for {target}: {error}. Is it installed, or in this"
            " folder?"
        ) from error
    if not callable(getattr(found, name, None)):
        raise ValueError(f"{module_name} has no callable {name!r}.")
    return getattr(found, name)


def _load_weights(module: nn.Module, target: str, path: Path) -> None:
    if path.suffix != ".safetensors":
        raise FileFormatError(
            f"cannot read {path}: weights must be a .safetensors file, because other kinds can run"
            " code. Convert it once with safetensors.torch.save_file(state_dict, path)."
        )
    if not path.is_file():
        raise FileNotFoundError(f"there are no weights {path}.")
    try:
        module.load_state_dict(load_file(path))
    except SafetensorError as error:
        raise FileFormatError(f"cannot read {path}: {error}.") from error
    except RuntimeError as error:
        raise ValueError(f"the weights in {path} do not fit {target}: {error}") from error
