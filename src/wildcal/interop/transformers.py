"""Calibration in a Hugging Face `Trainer`: metrics at evaluation, a calibrator at the end."""

from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.checks import check_logits
from wildcal._old.core.convert import softmax
from wildcal._old.io.files import check_writable
from wildcal._old.metrics import accuracy, ece, mean_confidence, nll, noise_floor
from wildcal.core.calibrator import Calibrator
from wildcal.core.exceptions import MissingExtraError
from wildcal.core.registry import get_calibrator
from wildcal.io.artifact import save

try:
    from transformers import TrainerCallback
except ImportError:
    TrainerCallback = None

__all__ = ["CalibrationCallback", "compute_metrics", "logits_and_labels"]

IGNORED: Final = -100
"""The label of rows and tokens that do not count, in the losses of torch and so in `Trainer`."""


def logits_and_labels(prediction: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return logits (n, K) and labels (n,) of what `Trainer.predict` or an evaluation gives.

    Of several outputs the first is the logits; tokens of sequences become rows; rows and tokens
    labeled -100 are left out.

    >>> from types import SimpleNamespace
    >>> tokens = np.zeros((2, 3, 5)), np.array([[1, 2, -100], [4, -100, -100]])
    >>> logits, y = logits_and_labels(SimpleNamespace(predictions=tokens[0], label_ids=tokens[1]))
    >>> logits.shape, y
    ((3, 5), array([1, 2, 4]))
    """
    logits, y = prediction.predictions, prediction.label_ids
    logits = np.asarray(logits[0] if isinstance(logits, tuple) else logits)
    y = np.asarray(y[0] if isinstance(y, tuple) else y)
    if logits.shape[:-1] != y.shape:
        raise ValueError(
            "predictions must have the shape of label_ids and one more axis, of classes, got"
            f" {logits.shape} and {y.shape}. Only classifiers have one label a row or token."
        )
    logits, y = logits.reshape(-1, logits.shape[-1]), y.reshape(-1)
    return logits[y != IGNORED], y[y != IGNORED]


def compute_metrics(prediction: Any) -> dict[str, float]:
    """Return accuracy and calibration, for `Trainer(compute_metrics=compute_metrics)`.

    The names are those of `wildcal._old.metrics`; `Trainer` puts `eval_` before them. An `eval_ece` near
    `eval_noise_floor` is as good as so few rows can show.

    >>> from types import SimpleNamespace
    >>> logits = np.log([[0.8, 0.2], [0.8, 0.2], [0.8, 0.2], [0.8, 0.2], [0.8, 0.2]])
    >>> out = SimpleNamespace(predictions=logits, label_ids=np.array([0, 0, 0, 0, 1]))
    >>> compute_metrics(out)["accuracy"], round(compute_metrics(out)["ece"], 6)
    (0.8, 0.0)
    """
    logits, y = logits_and_labels(prediction)
    proba = softmax(check_logits(logits, fitting=True))
    values = {metric.__name__: metric(y, proba) for metric in (accuracy, mean_confidence, nll, ece)}
    return values | {"noise_floor": noise_floor(proba.max(axis=1))}


class CalibrationCallback(TrainerCallback or object):  # type: ignore[misc]
    """Fit a calibrator when training ends and write it.

    It is that of the weights that `Trainer` is left with: the best ones with
    `load_best_model_at_end`. The rows are predicted anew.

    Parameters
    ----------
    trainer
        To which the callback is added: `trainer.add_callback(CalibrationCallback(trainer, ...))`.
    dataset
        Rows that were not trained on, with labels.
    path
        The file to write, as `wildcal.save` does.
    method
        The calibrator, by its name or as an object that is not fitted yet.

    Attributes
    ----------
    calibrator_
        What was written, in the process that wrote it.
    """

    def __init__(
        self, trainer: Any, dataset: Any, path: str | Path, method: str | Calibrator = "auto"
    ) -> None:
        if TrainerCallback is None:
            raise MissingExtraError(
                "CalibrationCallback needs transformers. Install it with:"
                ' pip install "wildcal[transformers]"'
            )
        check_writable(path)  # now, and not after hours of training
        self.trainer, self.dataset, self.path = trainer, dataset, Path(path)
        self.method = get_calibrator(method) if isinstance(method, str) else method

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Predict, fit, write."""
        found = self.trainer.predict(self.dataset)  # all processes take part
        if state.is_world_process_zero:
            self.calibrator_ = self.method.fit(*logits_and_labels(found))
            save(self.calibrator_, self.path)
