"""A torch network with calibrated outputs."""

from typing import Any, Final, final

import numpy as np
import torch
from torch import Tensor, nn

from wildcal.core.calibrator import Calibrator
from wildcal.core.checks import ROWS_TO_JUDGE, looks_like_log_proba, looks_like_proba
from wildcal.interop.maps import map_of
from wildcal.interop.maps.base import CONTEXT, PROBABILITIES
from wildcal.interop.torch.module import CalibratorModule, Returns, check_returns

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
        self._reads_energy = calibrator._reads_energy()
        self._reads_context = CONTEXT in fitted.reads
        self._to_judge = ROWS_TO_JUDGE

    def forward(self, *inputs: Any, **named: Any) -> Tensor | dict[str, Tensor]:
        """Return the calibrated outputs of the network for its own inputs.

        For the method `context`, the argument `context` goes to the calibrator, by its name.
        """
        # Not in the signature, which torch's exporters would fill with a second input.
        context = named.pop(CONTEXT, None) if self._reads_context else None
        logits = self.model(*inputs, **named)
        if isinstance(logits, dict):
            logits = logits.get(_LOGITS, logits)
        logits = getattr(logits, _LOGITS, logits)  # what transformer libraries return
        if not isinstance(logits, Tensor):
            raise ValueError(
                f"the model must return a tensor of logits, got {type(logits).__name__}. Wrap it in"
                " a module that does."
            )
        # Under a compiler there are no values to look at.
        if self._to_judge and not self.training and not torch.compiler.is_compiling():
            self._judge(logits)
        found = self.calibrator(logits, context) | {_LOGITS: logits}
        return found[self._returns[0]] if self._single else {n: found[n] for n in self._returns}

    def _judge(self, logits: Tensor) -> None:
        """Refuse outputs that look normalised in all the rows seen so far."""
        values = logits.detach().double().cpu().numpy()
        if values.ndim != 2 or not len(values):
            return  # the calibrator says what is wrong with it
        is_proba = bool(looks_like_proba(values).all())
        normalised = is_proba or (
            self._reads_energy and looks_like_log_proba(np.logaddexp.reduce(values, axis=1))
        )
        remaining = self._to_judge - len(values)
        self._to_judge = 0 if not normalised else max(1, remaining)
        if normalised and remaining <= 0:
            what = (
                "every row lies in [0, 1] and sums to 1: these are probabilities"
                if is_proba
                else "the exponentials of every row sum to 1: these are log probabilities"
            )
            raise ValueError(
                f"the model must return raw scores, but {what}. Attach the calibrator to the"
                " network without its last softmax."
            )


def attach(
    model: nn.Module, calibrator: Calibrator, *, returns: Returns = PROBABILITIES
) -> CalibratedModel:
    """Return a network whose outputs are calibrated.

    The network must return logits: a tensor (n, K), or an object or dict that has them as `logits`.
    In evaluation mode the first rows are looked at, and outputs that are already probabilities are
    refused.

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
