"""ECE with its noise floor as a torchmetrics `Metric` (extra `torchmetrics`)."""

from collections.abc import Callable
from typing import Any, Final, Literal

import array_api_compat.numpy as np_compat
import numpy as np

from wildcal.core.arrays import softmax
from wildcal.core.exceptions import needs_extra
from wildcal.core.validation import check_choice, check_input, check_number
from wildcal.metrics import accuracy, ece, excess_ece, mean_confidence, noise_floor
from wildcal.metrics._scores import check_scores

with needs_extra("wildcal.interop.torchmetrics", "torchmetrics"):
    import torch
    from torch import Tensor
    from torchmetrics import Metric
    from torchmetrics.utilities import dim_zero_cat

_Functions = dict[str, Callable[..., float]]
_BINNED: Final[_Functions] = {"ece": ece, "noise_floor": noise_floor, "excess_ece": excess_ece}
_RESULTS: Final[_Functions] = {"accuracy": accuracy, "mean_confidence": mean_confidence, **_BINNED}


class CalibrationError(Metric):
    """ECE of all samples, and the noise floor: the ECE of a calibrated model on as many samples.

    The values are those of the functions in `wildcal.metrics` on the samples of all batches and
    processes. The state is a confidence and a flag for each sample.

    Parameters
    ----------
    n_bins
        Number of bins of equal width.
    input
        What `update` is given: "logits" or "proba".
    returns
        One of "ece", "noise_floor", "excess_ece", "accuracy" and "mean_confidence": `compute`
        returns a number. Or several: `compute` returns a dict.
    ignore_index
        Samples with this label are left out.
    **options
        Those of every torchmetrics `Metric`.

    Examples
    --------
    >>> metric = CalibrationError(input="proba", returns=("ece", "noise_floor"))
    >>> metric.update(torch.tensor([[0.5, 0.5], [0.5, 0.5]]), torch.tensor([0, 0]))
    >>> {name: round(float(value), 6) for name, value in metric.compute().items()}
    {'ece': 0.5, 'noise_floor': 0.25}
    """

    is_differentiable = False
    higher_is_better = False
    full_state_update = False
    confidence: list[Tensor]
    correct: list[Tensor]

    def __init__(
        self,
        n_bins: int = 15,
        *,
        input: Literal["logits", "proba"] = "logits",
        returns: str | tuple[str, ...] = "ece",
        ignore_index: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        check_number("n_bins", n_bins, 1, whole=True)
        check_choice("input", input, ("logits", "proba"))
        for name in (returns,) if isinstance(returns, str) else returns:
            check_choice("returns", name, _RESULTS)
        self.n_bins, self.input, self.returns = n_bins, input, returns
        self.ignore_index = ignore_index
        self.add_state("confidence", [], dist_reduce_fx="cat")
        self.add_state("correct", [], dist_reduce_fx="cat")

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Add samples: logits or probabilities (n, n_classes), and labels (n,)."""
        device = preds.device
        preds, target = preds.detach().cpu(), target.detach().cpu()
        if self.ignore_index is not None:
            kept = target != self.ignore_index
            preds, target = preds[kept], target[kept]
        if not len(preds):
            return
        x = check_input(preds.float().numpy() if preds.itemsize < 4 else preds.numpy(), self.input)
        proba = softmax(np_compat, x.astype(np.float64)) if self.input == "logits" else x
        scores = check_scores(target.numpy(), proba)
        confidence = torch.from_numpy(scores.confidence.astype(x.dtype))
        self.confidence.append(confidence.to(device))
        self.correct.append(torch.from_numpy(scores.correct.astype(bool)).to(device))

    def compute(self) -> Tensor | dict[str, Tensor]:
        """Return the results of all samples; NaN without samples."""
        if isinstance(self.returns, str):
            return self._result(self.returns)
        return {name: self._result(name) for name in self.returns}

    def _result(self, name: str) -> Tensor:
        if not len(self.confidence):
            return torch.tensor(torch.nan)
        confidence, correct = (dim_zero_cat(s) for s in (self.confidence, self.correct))
        options = {"n_bins": self.n_bins} if name in _BINNED else {}
        samples = (correct, confidence) if name != "noise_floor" else (confidence,)
        value = _RESULTS[name](*(s.cpu().numpy() for s in samples), **options)
        return torch.tensor(value, dtype=torch.float32, device=confidence.device)
