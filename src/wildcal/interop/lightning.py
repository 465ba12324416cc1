"""A Lightning callback that collects logits at validation and writes a calibrator."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal.core.calibrator import Calibrator
from wildcal.core.exceptions import InputError, MissingExtraError
from wildcal.core.registry import get_calibrator
from wildcal.io.artifact import save
from wildcal.io.atomic import check_writable

try:
    from lightning.pytorch import Callback
except ImportError:
    Callback = None

Batches = list[tuple[NDArray[Any], NDArray[Any]]]
"""Logits and labels of each batch."""


def _from_outputs(outputs: Any, batch: Any) -> tuple[Any, Any]:
    """Return the fields "logits" and "y" of the output of `validation_step`."""
    try:
        return outputs["logits"], outputs["y"]
    except (TypeError, KeyError, IndexError):
        raise InputError(
            "validation_step must return a dict with 'logits' (n, n_classes) and 'y' (n,), got"
            f" {type(outputs).__name__}. Or pass read=, a function of that output and the batch.",
            "read",
        ) from None


class CalibrationCallback(Callback or object):  # type: ignore[misc]
    """Fit a calibrator on the samples of the last validation, and write it.

    After `trainer.fit` it belongs to the final weights; `trainer.validate(..., ckpt_path="best")`
    writes one for the best weights. Samples of all processes are gathered, and the first process
    fits and writes. Samples of the sanity check before training are left out.

    Parameters
    ----------
    path
        The file to write, as by `wildcal.save`.
    method
        An unfitted calibrator or its name.
    read
        (Output of `validation_step`, batch) -> (logits, labels). Default: the output is a dict with
        "logits" and "y".
    dataloader_idx
        Which of several validation loaders.

    Attributes
    ----------
    calibrator_
        The fitted calibrator, in the process that wrote it.
    """

    def __init__(
        self,
        path: str | Path,
        method: str | Calibrator = "auto",
        *,
        read: Callable[[Any, Any], tuple[Any, Any]] = _from_outputs,
        dataloader_idx: int = 0,
    ) -> None:
        if Callback is None:
            raise MissingExtraError(
                "wildcal.interop.lightning needs Lightning. Install it with:"
                ' pip install "wildcal[lightning]"'
            )
        check_writable(path)  # before training, not after it
        self.path, self.read, self.dataloader_idx = Path(path), read, dataloader_idx
        self.method = get_calibrator(method) if isinstance(method, str) else method
        self._batches: Batches = []

    def on_validation_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Drop the samples of an earlier validation."""
        self._batches = []

    def on_validation_batch_end(
        self,
        trainer: Any,
        pl_module: Any,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Keep the logits and labels of a batch in memory of the CPU."""
        if dataloader_idx == self.dataloader_idx and not trainer.sanity_checking:
            logits, y = (tensor.detach() for tensor in self.read(outputs, batch))
            self._batches.append((logits.float().cpu().numpy(), y.cpu().numpy()))

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Write the calibrator after `trainer.validate`."""
        if trainer.state.fn == "validate":
            self._write(trainer)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """Write the calibrator after `trainer.fit`."""
        self._write(trainer)

    def _write(self, trainer: Any) -> None:
        batches = gather(self._batches) if trainer.world_size > 1 else self._batches
        self._batches = []
        if batches and trainer.is_global_zero:
            logits, y = (np.concatenate(parts) for parts in zip(*batches, strict=True))
            self.calibrator_ = self.method.fit(logits, y)
            save(self.calibrator_, self.path)


def gather(own: Batches) -> Batches:
    """Return the batches of all processes, in the order of their ranks."""
    from torch import distributed

    found: list[Batches] = [[] for _ in range(distributed.get_world_size())]
    distributed.all_gather_object(found, own)
    return [batch for batches in found for batch in batches]
