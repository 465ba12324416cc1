"""ECE with its noise floor as a torchmetrics `Metric` (extra `torchmetrics`)."""

from typing import Any, Final, Literal

import numpy as np

from wildcal._old.core.checks import check_choice, check_logits
from wildcal._old.core.convert import softmax
from wildcal._old.core.errors import MissingExtraError
from wildcal._old.metrics.inputs import top_label
from wildcal._old.metrics.noise import NoiseFloor
from wildcal._old.metrics.top_label import TopLabelAccumulator

try:
    import torch
    from torch import Tensor
    from torchmetrics import Metric
except ImportError as error:
    raise MissingExtraError(
        "wildcal.interop.torchmetrics needs torch and torchmetrics. Install them with:"
        ' pip install "wildcal[torchmetrics]"'
    ) from error

__all__ = ["CalibrationError"]

_OUTPUTS: Final = ("ece", "noise_floor", "excess_ece", "accuracy", "mean_confidence")


class CalibrationError(Metric):
    """The ECE of all rows seen, and what a perfectly calibrated model would show on them.

    The numbers are those of `wildcal._old.metrics.ece` and `noise_floor` on all rows at once, however
    they were divided into batches and processes: every state is a sum. The floor's transform is a
    product over rows, so its state is the sum of the logarithms.

    Parameters
    ----------
    n_bins
        Number of equal-width bins (lo, hi].
    kind
        What `update` is given: "logits" or "proba".
    returns
        One of "ece", "noise_floor", "excess_ece", "accuracy" and "mean_confidence", which `compute`
        returns as a number, or several, which it returns as a dict.
    ignore_index
        Rows with this target are left out. A target of -1 that is not ignored counts as wrong.
    **options
        Those of every torchmetrics `Metric`.

    Notes
    -----
    Sums are float64. On a device without it (MPS) keep the metric on the CPU.

    Examples
    --------
    >>> metric = CalibrationError(kind="proba", returns=("ece", "noise_floor"))
    >>> metric.update(torch.tensor([[0.5, 0.5], [0.5, 0.5]]), torch.tensor([0, 0]))
    >>> {name: round(float(value), 6) for name, value in metric.compute().items()}
    {'ece': 0.5, 'noise_floor': 0.25}
    """

    is_differentiable = False
    higher_is_better = False
    full_state_update = False
    count: Tensor
    correct: Tensor
    confidence: Tensor
    cumulants: Tensor
    log_size: Tensor
    angle: Tensor

    def __init__(
        self,
        n_bins: int = 15,
        *,
        kind: Literal["logits", "proba"] = "logits",
        returns: str | tuple[str, ...] = "ece",
        ignore_index: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        check_choice("kind", kind, ("logits", "proba"))
        self._single = isinstance(returns, str)
        self._returns = (returns,) if isinstance(returns, str) else tuple(returns)
        for name in self._returns:
            check_choice("returns", name, _OUTPUTS)
        self.n_bins = TopLabelAccumulator(n_bins).n_bins
        self.kind, self.ignore_index = kind, ignore_index
        for name, blank in _sums(TopLabelAccumulator(n_bins), NoiseFloor(n_bins)).items():
            self.add_state(name, torch.from_numpy(blank), dist_reduce_fx="sum")

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Take in rows: scores or probabilities (n, K), and true classes (n,)."""
        z, y = _array(preds), _array(target)
        if self.ignore_index is not None and z.ndim == 2 and y.shape == z.shape[:1]:
            z, y = z[y != self.ignore_index], y[y != self.ignore_index]
        if not len(z):
            return
        proba = softmax(check_logits(z, fitting=True)) if self.kind == "logits" else z
        correct, confidence = top_label(y, proba, None)
        counts = TopLabelAccumulator(self.n_bins).update(correct, confidence)
        for name, more in _sums(counts, NoiseFloor(self.n_bins).update(confidence)).items():
            state = getattr(self, name)
            setattr(self, name, state + torch.from_numpy(more).to(state.device))

    def compute(self) -> Tensor | dict[str, Tensor]:
        """Return what `returns` names, of all rows of all processes; NaN without rows."""
        counts, floor = TopLabelAccumulator(self.n_bins), NoiseFloor(self.n_bins)
        counts.count, counts.correct_sum = _array(self.count), _array(self.correct)
        counts.confidence_sum = _array(self.confidence)
        floor.n, floor.cumulants = counts.n, _array(self.cumulants)
        size, angle = np.exp(_array(self.log_size)), _array(self.angle)
        floor.transform = size * np.exp(1j * angle)
        found = {
            "ece": counts.ece,
            "noise_floor": floor.value,
            "excess_ece": lambda: counts.ece() - floor.value(),
            "accuracy": counts.accuracy,
            "mean_confidence": counts.mean_confidence,
        }
        device = self.count.device
        values = {
            n: torch.tensor(found[n](), dtype=torch.float64, device=device) for n in self._returns
        }
        return values[self._returns[0]] if self._single else values


def _array(tensor: Tensor) -> Any:
    """Return a tensor as an array, wherever it is; NumPy has no bfloat16."""
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def _sums(counts: TopLabelAccumulator, floor: NoiseFloor) -> dict[str, Any]:
    """Return what is known of some rows as arrays that add."""
    with np.errstate(divide="ignore"):  # a row of 0.5 makes a factor of zero, and exp(-inf) is it
        log_size = np.log(np.abs(floor.transform))
    return {
        "count": counts.count,
        "correct": counts.correct_sum,
        "confidence": counts.confidence_sum,
        "cumulants": floor.cumulants,
        "log_size": log_size,
        "angle": np.angle(floor.transform),
    }
