"""Calibrators as torch modules.

The module computes the same formula as `predict_proba`; its buffers are the fitted numbers.
"""

import copy
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import Any

import numpy as np

from wildcal.core.calibrator import Calibrator
from wildcal.core.exceptions import InputError, MissingExtraError

try:
    import array_api_compat.torch as xp
    import torch
except ImportError as error:
    raise MissingExtraError(
        'wildcal.interop.torch needs torch. Install it with: pip install "wildcal[torch]"'
    ) from error


class CalibratorModule(torch.nn.Module):
    """A fitted calibrator as a module: forward(logits) or forward(logits, knn_distances)."""

    def __init__(self, calibrator: Calibrator):
        super().__init__()
        calibrator.check_is_fitted()
        self._calibrator = copy.copy(calibrator)
        for name, value in vars(calibrator).items():
            if isinstance(value, Calibrator):
                if value.is_fitted:  # an option such as `base` is not
                    self.add_module(name, CalibratorModule(value))
            elif isinstance(value, np.ndarray):
                dtype = torch.float32 if value.dtype.kind == "f" else None
                self.register_buffer(name, torch.as_tensor(value.copy(), dtype=dtype))
            elif isinstance(value, float) and name.endswith("_"):
                self.register_buffer(name, torch.tensor(value, dtype=torch.float32))

    def bound(self, dtype: torch.dtype) -> Calibrator:
        """Return the calibrator with the tensors of this module as its fitted numbers."""
        bound = copy.copy(self._calibrator)
        for name, buffer in self._buffers.items():
            if buffer is not None and buffer.is_floating_point():
                buffer = buffer.to(dtype)
            setattr(bound, name, buffer)
        for name, module in self._modules.items():
            setattr(bound, name, module.bound(dtype))  # type: ignore[union-attr, operator]
        return bound

    def forward(self, x: torch.Tensor, knn_distances: torch.Tensor | None = None) -> torch.Tensor:
        """Return probabilities, shape (n_samples, n_classes)."""
        if x.dtype not in (torch.float32, torch.float64):
            x = x.float()
        inputs = () if knn_distances is None else (knn_distances.to(x.dtype),)
        result: torch.Tensor = self.bound(x.dtype).probabilities(xp, x, *inputs)
        return result


def as_module(calibrator: Calibrator) -> CalibratorModule:
    """Return a fitted calibrator as a torch module."""
    from wildcal.window.base import WindowCalibrator

    if isinstance(calibrator, WindowCalibrator):
        raise InputError(
            f"{type(calibrator).__name__} must be adapted to a window first: as_module("
            "calibrator.adapt(window)).",
            "calibrator",
        )
    return CalibratorModule(calibrator)


class CalibratedModel(torch.nn.Module):
    """A network followed by its calibrator: forward(x) returns calibrated probabilities."""

    def __init__(self, model: torch.nn.Module, calibrator: Calibrator):
        super().__init__()
        self.model, self.calibrator = model, as_module(calibrator)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return calibrated probabilities of the outputs of the network."""
        outputs = self.model(x)
        logits = getattr(outputs, "logits", outputs)
        result: torch.Tensor = self.calibrator(logits)
        return result


def attach(model: torch.nn.Module, calibrator: Calibrator) -> CalibratedModel:
    """Return a network of one input with a calibrator behind its logits.

    For a network of several inputs, or with `dac`, write the forward method yourself::

        class Calibrated(torch.nn.Module):
            def forward(self, x, mask):
                return self.calibrator(self.model(x, mask))   # calibrator = as_module(...)
    """
    if calibrator.requires:
        raise InputError(
            f"{type(calibrator).__name__} needs {', '.join(sorted(calibrator.requires))}. Try"
            " as_module(calibrator) in a module of your own: self.calibrator(self.model(x),"
            " knn_distances).",
            "calibrator",
        )
    return CalibratedModel(model, calibrator).train(model.training)


def collect(
    model: torch.nn.Module,
    loader: Iterable[Any],
    *,
    device: Any = None,
    features: Iterable[str] | None = None,
) -> tuple[Any, ...]:
    """Return logits and labels of a data loader as NumPy arrays, and features if asked for.

    Parameters
    ----------
    model
        Called with the inputs of each batch, in evaluation mode without gradients.
    loader
        Yields (inputs, labels) batches.
    device
        Where to run; default: where the parameters of the model are.
    features
        Names of submodules whose outputs, averaged over positions, are returned in a dict.
    """
    if device is None:
        device = next((p.device for p in model.parameters()), torch.device("cpu"))
    kept: dict[str, list[Any]] = {name: [] for name in features or ()}
    hooks = [model.get_submodule(name).register_forward_hook(_keep(kept[name])) for name in kept]
    logits, labels, training = [], [], model.training
    try:
        model.eval()
        with torch.no_grad(), _progress(loader) as batches:
            for inputs, y in batches:
                outputs = model(inputs.to(device))
                logits.append(getattr(outputs, "logits", outputs).float().cpu().numpy())
                labels.append(np.asarray(y))
    finally:
        model.train(training)
        for hook in hooks:
            hook.remove()
    found = np.concatenate(logits), np.concatenate(labels)
    if features is None:
        return found
    return *found, {name: np.concatenate(parts) for name, parts in kept.items()}


def _keep(parts: list[Any]) -> Any:
    def hook(module: torch.nn.Module, inputs: Any, output: torch.Tensor) -> None:
        value = output.float()
        if value.ndim > 2:  # images (n, channels, height, width) or tokens (n, positions, width)
            value = value.flatten(2).mean(dim=2) if value.ndim == 4 else value.mean(dim=1)
        parts.append(value.cpu().numpy())

    return hook


@contextmanager
def _progress(loader: Iterable[Any]) -> Iterator[Iterable[Any]]:
    """Show a progress bar on a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    total = len(loader) if isinstance(loader, Sized) else None
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        yield bar.track(loader, total=total, description="Collecting logits")
