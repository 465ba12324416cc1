"""Calibrators as torch modules.

The module computes the same formula as `predict_proba`; its buffers are the fitted numbers.
"""

import copy
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Self

import numpy as np

from wildcal.core.calibrator import Calibrator
from wildcal.core.exceptions import InputError, needs_extra
from wildcal.core.validation import check_foreign_array, check_input

with needs_extra("wildcal.interop.torch", "torch"):
    import array_api_compat.torch as xp
    import torch

# Outputs of fewer samples are not checked.
_MIN_CHECKED: Final = 8


class CalibratorModule(torch.nn.Module):
    """A fitted calibrator as a module: forward(logits) or forward(logits, knn_distances).

    Its numbers and its arithmetic stay in float32 or float64 when the network around it is in half
    precision.
    """

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
        check_foreign_array(x, self._calibrator.input_, self._calibrator.n_classes_)
        if ("knn_distances" in self._calibrator.requires) != (knn_distances is not None):
            verb = "be given to" if knn_distances is None else "not be given to"
            raise InputError(
                f"knn_distances must {verb} {type(self._calibrator).__name__}.", "knn_distances"
            )
        if x.dtype not in (torch.float32, torch.float64):
            x = x.float()
        inputs = () if knn_distances is None else (knn_distances.to(x.dtype),)
        with _no_autocast(x.device.type):
            result: torch.Tensor = self.bound(x.dtype).probabilities(xp, x, *inputs)
        return result

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Self:
        """Move the buffers to a device, but leave their precision."""
        before = dict(self._buffers)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, buffer in before.items():
            moved = self._buffers[name]
            if buffer is not None and moved is not None and moved.dtype != buffer.dtype:
                self._buffers[name] = buffer.to(moved.device)
        return self


def _no_autocast(device_type: str) -> AbstractContextManager[Any]:
    """Return a context without automatic half precision."""
    available = torch.amp.is_autocast_available(device_type)
    if available and torch.is_autocast_enabled(device_type):
        return torch.autocast(device_type, enabled=False)
    return nullcontext()


def as_module(calibrator: Calibrator) -> CalibratorModule:
    """Return a fitted calibrator as a torch module."""
    from wildcal.window.base import WindowCalibrator

    if isinstance(calibrator, WindowCalibrator):
        raise calibrator.not_adapted()
    return CalibratorModule(calibrator)


class CalibratedModel(torch.nn.Module):
    """A network followed by its calibrator: forward(x) returns calibrated probabilities.

    In evaluation mode the outputs of the first batch are checked as those given to `predict_proba`
    are: probabilities instead of logits raise.
    """

    def __init__(self, model: torch.nn.Module, calibrator: Calibrator):
        super().__init__()
        self.model, self.calibrator = model, as_module(calibrator)
        self.training = model.training  # train() would change frozen layers of the network
        self._is_checked = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return calibrated probabilities of the outputs of the network."""
        outputs = self.model(x)
        logits = getattr(outputs, "logits", outputs)
        if not (self.training or self._is_checked or torch.compiler.is_compiling()):
            self._check(logits)
        result: torch.Tensor = self.calibrator(logits)
        return result

    def _check(self, logits: torch.Tensor) -> None:
        if len(logits) < _MIN_CHECKED or logits.is_meta:
            return
        fitted = self.calibrator._calibrator
        values = logits.detach().float().cpu().numpy()
        check_input(values, fitted.input_, n_classes=fitted.n_classes_)
        self._is_checked = True


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
            " as_module(calibrator) in your module: self.calibrator(self.model(x), knn_distances).",
            "calibrator",
        )
    return CalibratedModel(model, calibrator)


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
        Where to run; the model is moved there. Default: where its parameters are.
    features
        Names of submodules whose outputs, averaged over positions, are returned in a dict.
    """
    if device is None:
        device = next((p.device for p in model.parameters()), torch.device("cpu"))
    kept: dict[str, list[Any]] = {name: [] for name in features or ()}
    hooks = [model.get_submodule(name).register_forward_hook(_keep(kept[name])) for name in kept]
    logits, labels = [], []
    was_training = {module: module.training for module in model.modules()}
    try:
        model.to(device).eval()
        with torch.no_grad():
            for batch in loader:
                inputs, y = _inputs_and_labels(batch)
                outputs = model(inputs.to(device))
                logits.append(getattr(outputs, "logits", outputs).float().cpu().numpy())
                labels.append(torch.as_tensor(y).cpu().numpy())
    finally:
        for module, training in was_training.items():
            module.training = training
        for hook in hooks:
            hook.remove()
    if not logits:
        raise InputError("loader must yield at least one batch.", "loader")
    found = np.concatenate(logits), np.concatenate(labels)
    if features is None:
        return found
    return *found, {name: np.concatenate(parts) for name, parts in kept.items()}


def _inputs_and_labels(batch: Any) -> tuple[torch.Tensor, Any]:
    if isinstance(batch, tuple | list) and len(batch) == 2 and isinstance(batch[0], torch.Tensor):
        return batch[0], batch[1]
    raise InputError(
        f"loader must yield (inputs, labels) with a tensor of inputs, got {type(batch).__name__}."
        " Try a generator: ((batch['x'], batch['y']) for batch in loader).",
        "loader",
    )


def _keep(parts: list[Any]) -> Any:
    def hook(module: torch.nn.Module, inputs: Any, output: torch.Tensor) -> None:
        value = output.float()
        if value.ndim > 2:  # images (n, channels, height, width) or tokens (n, positions, width)
            value = value.flatten(2).mean(dim=2) if value.ndim == 4 else value.mean(dim=1)
        parts.append(value.cpu().numpy())

    return hook
