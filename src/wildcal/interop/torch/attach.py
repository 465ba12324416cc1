"""A torch network with calibrated outputs."""

from typing import Any, Final, final

import torch
from torch import Tensor, nn

from wildcal.core.calibrator import Calibrator
from wildcal.core.checks import ROWS_TO_JUDGE
from wildcal.interop.judge import normalized
from wildcal.interop.maps import map_of
from wildcal.interop.maps.base import PROBABILITIES
from wildcal.interop.torch.module import CalibratorModule, Returns, check_returns
from wildcal.interop.torch.ops import is_tracing

_LOGITS: Final = "logits"


@final
class CalibratedModel(nn.Module):
    """A network, then its calibrator; made by `attach`."""

    def __init__(self, model: nn.Module, calibrator: Calibrator, returns: Returns) -> None:
        super().__init__()
        fitted = map_of(calibrator)
        names = check_returns(returns, (*fitted.outputs, _LOGITS))
        self._returns, self._single = names, isinstance(returns, str)
        self.model = model
        wanted = tuple(name for name in names if name != _LOGITS) or (PROBABILITIES,)
        self.calibrator = CalibratorModule(fitted, wanted)
        # Not by train(), which would change layers that were frozen on purpose.
        self.training = self.calibrator.training = model.training
        self._takes_log_proba = calibrator.takes_log_proba
        self._reads = fitted.reads
        self._to_judge = ROWS_TO_JUDGE

    def forward(self, *inputs: Any, **named: Any) -> Tensor | dict[str, Tensor]:
        """Return the calibrated outputs of the network for its own inputs.

        The argument `context` of the method `context`, and `distances` of `dac`, go to the
        calibrator, by their names.
        """
        # Not in the signature, which torch's exporters would fill with a second input.
        more = {name: named.pop(name) for name in self._reads if name in named}
        logits = self.model(*inputs, **named)
        if isinstance(logits, dict):
            logits = logits.get(_LOGITS, logits)
        logits = getattr(logits, _LOGITS, logits)  # what transformer libraries return
        if not isinstance(logits, Tensor):
            raise ValueError(
                f"the model must return a tensor of logits, got {type(logits).__name__}. Wrap it in"
                " a module that does."
            )
        if self._to_judge and not self.training and _has_values(logits):
            self._judge(logits)
        found = self.calibrator(logits, **more) | {_LOGITS: logits}
        return found[self._returns[0]] if self._single else {n: found[n] for n in self._returns}

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *arguments: Any
    ) -> None:
        # Before the network takes its numbers, not after that.
        self.calibrator.check_state(state_dict, f"{prefix}calibrator.")
        super()._load_from_state_dict(state_dict, prefix, *arguments)

    def _judge(self, logits: Tensor) -> None:
        """Refuse outputs that look normalized in all the rows seen so far."""
        values = logits.detach().double().cpu().numpy()
        if values.ndim != 2 or not len(values):
            return  # the calibrator says what is wrong with it
        what = normalized(values, log_proba_serves=self._takes_log_proba)
        remaining = self._to_judge - len(values)
        self._to_judge = 0 if what is None else max(1, remaining)
        if what is not None and remaining <= 0:
            raise ValueError(
                f"the model must return raw scores, but {what}. Attach the calibrator to the"
                " network without its last softmax."
            )


def _has_values(logits: Tensor) -> bool:
    """Return whether there are numbers to look at: not under a compiler, nor on the meta device."""
    return not (torch.compiler.is_compiling() or is_tracing() or logits.is_meta)


def attach(
    model: nn.Module, calibrator: Calibrator, *, returns: Returns = PROBABILITIES
) -> CalibratedModel:
    """Return a network whose outputs are calibrated.

    The network must return logits: a tensor (n, K), or an object or dict that has them as `logits`.
    In evaluation mode the first rows are looked at, and outputs that are already probabilities are
    refused; log probabilities too, by methods that are not shift invariant. The new model is in the
    mode of the network.

    Parameters
    ----------
    model
        The network; it is not copied.
    calibrator
        Fitted on the logits of this network.
    returns
        As in `as_module`, and "logits" for what the network itself returned.

    Examples
    --------
    >>> import torch
    >>> from wildcal import TemperatureScaling
    >>> logits = torch.tensor([[3.0, 0.0], [3.0, 0.0], [3.0, 0.0], [3.0, 0.0]])
    >>> calibrator = TemperatureScaling().fit(logits.double().numpy(), [0, 0, 0, 1])
    >>> network = torch.nn.Identity()
    >>> attach(network, calibrator, returns=("logits", "confidence"))(logits[:1])
    {'logits': tensor([[3., 0.]]), 'confidence': tensor([0.7500])}
    """
    return CalibratedModel(model, calibrator, returns)
