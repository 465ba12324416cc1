"""A Lightning callback that collects logits at validation and writes a calibrator."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal._old.io.files import check_writable
from wildcal.core.calibrator import Calibrator
from wildcal.core.exceptions import MissingExtraError
from wildcal.core.registry import get_calibrator
from wildcal.io.artifact import save

try:
    from lightning.pytorch import Callback
except ImportError:
    try:
        from pytorch_lightning import Callback
    except ImportError:
        Callback = None

__all__ = ["CalibrationCallback"]

Read = Callable[[Any, Any], tuple[Any, Any]]
"""From what `validation_step` returned and the batch to logits (n, K) and true classes (n,)."""
Parts = list[tuple[NDArray[Any], NDArray[Any]]]
"""Logits and labels, batch by batch."""


def _from_outputs(outputs: Any, batch: Any) -> tuple[Any, Any]:
    """Return the fields that the default asks `validation_step` for."""
    try:
        return outputs["logits"], outputs["y"]
    except (TypeError, KeyError, IndexError):
        raise ValueError(
            "validation_step must return a dict with 'logits' (n, K) and 'y' (n,), got"
            f" {type(outputs).__name__}. Or give the callback read=, a function of what it returns"
            " and the batch."
        ) from None


class CalibrationCallback(Callback or object):  # type: ignore[misc]
    """Fit a calibrator on the rows of the last validation, and write it.

    In `trainer.fit` this happens once, at the end, for the weights that training ended with; in
    `trainer.validate` right after the rows, so `trainer.validate(..., ckpt_path="best")` makes the
    calibrator of the best weights. The rows of all processes are gathered, and the first of them
    fits and writes. The rows of the sanity check before training are left out.

    Parameters
    ----------
    path
        The file to write, as `wildcal.save` does.
    method
        The calibrator, by its name or as an object that is not fitted yet.
    read
        From (what `validation_step` returned, batch) to (logits, y). By default the former is a
        dict with these names.
    dataloader_idx
        Which of several validation loaders.

    Attributes
    ----------
    calibrator_
        What was written, in the process that wrote it.
    """

    def __init__(
        self,
        path: str | Path,
        method: str | Calibrator = "auto",
        *,
        read: Read = _from_outputs,
        dataloader_idx: int = 0,
    ) -> None:
        if Callback is None:
            raise MissingExtraError(
                "wildcal.interop.lightning needs Lightning. Install it with:"
                ' pip install "wildcal[lightning]"'
            )
        check_writable(path)  # now, and not after hours of training
        self.path, self.read, self.dataloader_idx = Path(path), read, dataloader_idx
        self.method = get_calibrator(method) if isinstance(method, str) else method
        self._rows: Parts = []

    def on_validation_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Forget the rows of the validation before."""
        self._rows = []

    def on_validation_batch_end(
        self,
        trainer: Any,
        pl_module: Any,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Keep the rows of a batch, off the device."""
        if dataloader_idx == self.dataloader_idx and not trainer.sanity_checking:
            logits, y = (tensor.detach() for tensor in self.read(outputs, batch))
            self._rows.append((logits.float().cpu().numpy(), y.cpu().numpy()))

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Write the calibrator, if it was `trainer.validate` that asked."""
        if trainer.state.fn == "validate":
            self._write(trainer, pl_module)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """Write the calibrator of the last validation, if there was one."""
        self._write(trainer, pl_module)

    def _write(self, trainer: Any, pl_module: Any) -> None:
        rows = everyones(self._rows) if trainer.world_size > 1 else self._rows
        self._rows = []
        if rows and trainer.is_global_zero:
            logits, y = (np.concatenate(parts) for parts in zip(*rows, strict=True))
            self.calibrator_ = self.method.fit(logits, y)
            save(self.calibrator_, self.path)


def everyones(mine: Parts) -> Parts:
    """Return what every process of the job has, in the order of the processes."""
    from torch import distributed

    found: list[Parts] = [[] for _ in range(distributed.get_world_size())]
    distributed.all_gather_object(found, mine)
    return [part for parts in found for part in parts]
