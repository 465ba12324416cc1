"""A fitted calibrator as a torch module."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Final, Self, final

import numpy as np
import torch
from torch import Tensor, nn

from wildcal.core.calibrator import Calibrator
from wildcal.interop.maps import map_of, run
from wildcal.interop.maps.base import CONTEXT, DISTANCES, PROBABILITIES, Map
from wildcal.interop.torch.ops import TorchOps, fixed, row_dtype

# The name that torch gives it in a state.
EXTRA_STATE: Final = "_extra_state"
_AUTOCAST_DEVICES: Final = ("cpu", "cuda", "xpu")

Returns = str | Sequence[str]
"""One output, which is then returned as it is, or several, which are returned by their names."""


def check_returns(returns: Returns, known: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the outputs that are asked for."""
    names = (returns,) if isinstance(returns, str) else tuple(returns)
    wrong = [name for name in names if name not in known]
    if wrong or not names:
        raise ValueError(
            f"returns must be of {', '.join(known)}, got {', '.join(map(repr, wrong)) or 'nothing'}"
            "; not every method has every output."
        )
    return names


@final
class CalibratorModule(nn.Module):
    """Logits (n, K) in, calibrated probabilities out; made by `as_module`.

    The fitted numbers are buffers. They stay float64 whatever the module is cast to, because a
    rounded temperature is another temperature; the results follow the logits: float64 for float64,
    else float32, as in NumPy.
    """

    def __init__(self, fitted: Map, returns: Returns) -> None:
        super().__init__()
        self._map, self._single = fitted, isinstance(returns, str)
        self._returns = check_returns(returns, fitted.outputs)
        for name, value in fitted.parameters.items():
            self.register_buffer(name, torch.from_numpy(np.array(value)))

    def forward(
        self, logits: Tensor, context: Tensor | None = None, distances: Tensor | None = None
    ) -> Tensor | dict[str, Tensor]:
        """Return the probabilities, or what `returns` asked for.

        Parameters
        ----------
        logits
            Raw scores, shape (n, K), on the device of the module.
        context
            For the method `context`: shape (1, 5 + 3 K) or (n, 5 + 3 K), of `context_vector`
            or sums of the output `statistics`. Without it the context is clean.
        distances
            For the method `dac`: distances to training rows, shape (n, layers), as in `fit`.
        """
        given = {CONTEXT: context, DISTANCES: distances}
        inputs = {name: value for name, value in given.items() if value is not None}
        self._check(logits, inputs)
        buffers = {name: getattr(self, name) for name in self._map.parameters}
        kind = logits.device.type
        # In half precision a matrix product would have three digits.
        rounds = kind in _AUTOCAST_DEVICES and torch.is_autocast_enabled(kind)
        exact = torch.autocast(kind, enabled=False) if rounds else nullcontext()
        with exact:
            found = run(self._map, TorchOps(buffers, logits), logits, inputs, self._returns)
        return found[self._returns[0]] if self._single else found

    def _check(self, logits: Tensor, inputs: dict[str, Tensor]) -> None:
        n_classes = self._map.n_classes
        if logits.ndim != 2 or fixed(logits.shape[1]) != n_classes:
            raise ValueError(
                f"logits must have shape (n_samples, {n_classes}), as in fit, got"
                f" {tuple(logits.shape)}."
            )
        if DISTANCES in self._map.reads and DISTANCES not in inputs:
            raise ValueError(
                f"{self._map.name} needs distances, the distances of each row to training rows."
            )
        for name, value in inputs.items():
            self._check_input(name, value, fixed(logits.shape[0]))

    def _check_input(self, name: str, value: Tensor, n_samples: Any) -> None:
        if name not in self._map.reads:
            raise ValueError(f"{self._map.name} does not read {name}; leave it out.")
        width = self._map.width(name)
        if value.ndim != 2 or fixed(value.shape[1]) != width:
            how = " context_vector makes it." if name == CONTEXT else ""
            raise ValueError(
                f"{name} must have shape (1, {width}) or (n_samples, {width}), got"
                f" {tuple(value.shape)}.{how}"
            )
        rows = fixed(value.shape[0])
        if rows != 1 and rows != n_samples:
            how = " Add the statistics of a window up to have one." if name == CONTEXT else ""
            raise ValueError(
                f"{name} must have one row, or one for each of the {n_samples} rows of logits, got"
                f" {rows}.{how}"
            )

    def extra_repr(self) -> str:
        """Return what `print` shows of the module."""
        returns = ", ".join(self._returns)
        return f"{self._map.name}, n_classes={self._map.n_classes}, returns={returns}"

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Follow the module to a device, not to a precision."""
        for name, buffer in self._buffers.items():
            assert buffer is not None
            # Tried on float32, which every device has.
            device = fn(buffer.float() if buffer.is_floating_point() else buffer).device
            dtype = row_dtype(device) if buffer.is_floating_point() else buffer.dtype
            empty = buffer.is_meta and device.type != "meta"  # nothing to take along
            self._buffers[name] = (
                torch.empty_like(buffer, device=device, dtype=dtype)
                if empty
                else buffer.to(device=device, dtype=dtype)
            )
        return self

    def get_extra_state(self) -> Tensor:
        """Return what the numbers belong to, as bytes, which every way of saving can keep."""
        text = json.dumps(self._map.layout, sort_keys=True)
        return torch.tensor(list(text.encode()), dtype=torch.uint8)

    def set_extra_state(self, state: Tensor) -> None:
        """Refuse numbers that belong to another method or to other options."""
        try:
            layout = json.loads(bytes(state.tolist()))
        except (AttributeError, TypeError, ValueError) as error:
            raise ValueError("the state is not that of a wildcal calibrator.") from error
        if layout != self._map.layout:
            raise ValueError(
                f"the state belongs to {layout}, but this module is {self._map.layout}; make the"
                " module from a calibrator of that method with those options."
            )

    def check_state(self, state_dict: Mapping[str, Any], prefix: str = "") -> None:
        """Raise a ValueError if a state belongs to another method or to other options."""
        if prefix + EXTRA_STATE in state_dict:
            self.set_extra_state(state_dict[prefix + EXTRA_STATE])

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *arguments: Any
    ) -> None:
        # First of all, because torch looks at this last, when the numbers are there already.
        self.check_state(state_dict, prefix)
        kept, is_whole = dict(self._buffers), prefix + EXTRA_STATE in state_dict
        for name, buffer in kept.items():
            given = state_dict.get(prefix + name)
            if buffer is not None and isinstance(given, Tensor) and given.ndim == buffer.ndim:
                # Tables have a length of their own in every fit.
                self._buffers[name] = buffer.new_empty(given.shape)
            else:
                is_whole = False
        super()._load_from_state_dict(state_dict, prefix, *arguments)
        # A part of a state would make a calibrator that nobody fitted; torch says what is missing.
        if not is_whole:
            self._buffers.update(kept)


def as_module(calibrator: Calibrator, *, returns: Returns = PROBABILITIES) -> CalibratorModule:
    """Return a fitted calibrator as a torch module.

    Parameters
    ----------
    calibrator
        Fitted, or loaded from a file.
    returns
        "probabilities" (default), "confidence", "temperature", "energy" or, of `context`,
        "statistics"; or several of them, which are returned as a dict.

    Examples
    --------
    >>> import torch
    >>> from wildcal import TemperatureScaling
    >>> logits = torch.tensor([[3.0, 0.0], [3.0, 0.0], [3.0, 0.0], [3.0, 0.0]])
    >>> calibrator = TemperatureScaling().fit(logits.double().numpy(), [0, 0, 0, 1])
    >>> as_module(calibrator)(logits)[0]
    tensor([0.7500, 0.2500])
    """
    return CalibratorModule(map_of(calibrator), returns)
