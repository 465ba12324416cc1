"""Classifiers that are torch modules: our checkpoints, and modules of the user's own code."""

import hashlib
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from wildcal._old.core.errors import FileFormatError
from wildcal._old.vision.batches import Normalizer, Pixels
from wildcal._old.vision.checkpoint import Checkpoint, SafetensorError, load_file
from wildcal._old.vision.classifiers.base import Classifier
from wildcal._old.vision.classifiers.hooks import as_arrays, check_open, pooled_outputs
from wildcal._old.vision.classifiers.layers import default_layers
from wildcal._old.vision.networks import NETWORKS
from wildcal._old.vision.predict import channels_last, on_device, predict_logits


@final
class TorchClassifier(Classifier):
    """A module that takes float32 (n, 3, H, W) and returns logits (n, n_classes)."""

    def __init__(
        self,
        module: nn.Module,
        normalize: Normalizer,
        about: dict[str, Any],
        *,
        device: str = "cpu",
        class_names: tuple[str, ...] | None = None,
    ) -> None:
        # Networks are fastest channels-last, but some look at the memory's layout.
        self.module = channels_last(on_device(module.eval(), device))
        self._contiguous: bool | None = None if class_names is None else False
        self.normalize, self.class_names, self.device = normalize, class_names, device
        self.about = about | {"n_parameters": sum(p.numel() for p in module.parameters())}

    def logits(self, images: Pixels) -> NDArray[np.float32]:
        """Return float32 logits."""
        self._settle(images)
        return self._logits(images)

    def _logits(self, images: Pixels) -> NDArray[np.float32]:
        return predict_logits(
            self.module,
            images,
            self.normalize,
            device=self.device,
            contiguous=bool(self._contiguous),
        )

    def _settle(self, images: Pixels) -> None:
        """Try once whether the module works on channels-last memory; a `view` inside it may not.

        What fails either way is raised by the run that follows.
        """
        if self._contiguous is None:
            try:
                self._logits(images[:1])
                self._contiguous = False
            except RuntimeError:
                self._contiguous = True
                _rows_first(self.module)

    def features(
        self, images: Pixels, layers: Sequence[str]
    ) -> tuple[NDArray[np.float32], list[NDArray[np.float32]]]:
        """Return the logits and the pooled outputs of modules, by their names in the module."""
        if not layers:
            return self.logits(images), []
        check_open(self.module)
        self._settle(images)
        with pooled_outputs(self.module, layers) as taken:
            logits = self.logits(images)
        arrays = as_arrays(taken, len(images))
        return logits, [arrays[name] for name in layers]

    def default_layers(self, images: Pixels) -> tuple[str, ...]:
        """Return the ends of the blocks, what comes before the first and before the last layer."""
        check_open(self.module)
        self._settle(images)
        return default_layers(self.module, lambda: self.logits(images))


def open_checkpoint(path: Path, *, device: str = "cpu") -> TorchClassifier:
    """Return a network that `wildcal train` wrote."""
    checkpoint = Checkpoint.load(path)
    checkpoint.check_trained(path)
    about = {
        "name": checkpoint.network,
        "family": NETWORKS[checkpoint.network].family,
        "kind": "checkpoint",
        "sha256": checkpoint.sha256,
        "trained_on": checkpoint.data,
        "recipe": checkpoint.recipe,
    }
    normalize = Normalizer(checkpoint.mean, checkpoint.std)
    return TorchClassifier(
        checkpoint.build(), normalize, about, device=device, class_names=checkpoint.class_names
    )


def open_module(
    target: str, normalize: Normalizer, *, weights: Path | None = None, device: str = "cpu"
) -> TorchClassifier:
    """Return the module that `module:callable` makes, with weights from a safetensors file.

    The callable is called without arguments. It is the user's own code, and is run.
    """
    make = _find(target)
    try:
        module = make()
    except TypeError as error:
        raise ValueError(f"{target} must be callable without arguments: {error}.") from error
    if not isinstance(module, nn.Module):
        raise ValueError(f"{target} must return a torch module, got {type(module).__name__}.")
    if weights is not None:
        _load_weights(module, target, weights)
    about = {"name": target, "kind": "module", "sha256": _weights_hash(module)}
    return TorchClassifier(module, normalize, about, device=device)


def _rows_first(module: nn.Module) -> None:
    """Lay the weights out as they were; torch converts between layouts otherwise."""
    module.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]


def _weights_hash(module: nn.Module) -> str:
    """Return the SHA-256 of all names and values, whatever file they came from."""
    digest = hashlib.sha256()
    for name, value in module.state_dict().items():
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


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
