"""Metrics and a calibrator for the Hugging Face `Trainer`."""

from pathlib import Path
from typing import Any, Final

import array_api_compat.numpy as np_compat
import numpy as np
from numpy.typing import NDArray

from wildcal.core.arrays import softmax
from wildcal.core.calibrator import Calibrator
from wildcal.core.exceptions import InputError, MissingExtraError
from wildcal.core.registry import get_calibrator
from wildcal.core.validation import check_input
from wildcal.io.artifact import save
from wildcal.io.atomic import check_writable
from wildcal.metrics import accuracy, ece, mean_confidence, nll, noise_floor

try:
    from transformers import TrainerCallback
except ImportError:
    TrainerCallback = None

IGNORED: Final = -100
"""The label of samples and tokens that the losses of torch, and so of `Trainer`, ignore."""


def logits_and_labels(prediction: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return logits (n, n_classes) and labels (n,) of what `Trainer.predict` returns.

    The first of several outputs is used; each token of a sequence is a sample; samples labeled -100
    are left out.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> logits, y = np.zeros((2, 3, 5)), np.array([[1, 2, -100], [4, -100, -100]])
    >>> logits, y = logits_and_labels(SimpleNamespace(predictions=logits, label_ids=y))
    >>> logits.shape, y
    ((3, 5), array([1, 2, 4]))
    """
    logits, y = prediction.predictions, prediction.label_ids
    logits = np.asarray(logits[0] if isinstance(logits, tuple) else logits)
    y = np.asarray(y[0] if isinstance(y, tuple) else y)
    if logits.shape[:-1] != y.shape:
        raise InputError(
            "predictions must have the shape of label_ids and one more axis, of classes, got"
            f" {logits.shape} and {y.shape}. Only classifiers can be calibrated.",
            "prediction",
        )
    logits, y = logits.reshape(-1, logits.shape[-1]), y.reshape(-1)
    return logits[y != IGNORED], y[y != IGNORED]


def compute_metrics(prediction: Any) -> dict[str, float]:
    """Return accuracy, mean confidence, NLL, ECE and its noise floor.

    For `Trainer(compute_metrics=compute_metrics)`, which adds `eval_` to the names. An `eval_ece`
    near `eval_noise_floor` shows no miscalibration.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> logits = np.log([[0.8, 0.2], [0.8, 0.2], [0.8, 0.2], [0.8, 0.2], [0.8, 0.2]])
    >>> out = SimpleNamespace(predictions=logits, label_ids=np.array([0, 0, 0, 0, 1]))
    >>> compute_metrics(out)["accuracy"], round(compute_metrics(out)["ece"], 6)
    (0.8, 0.0)
    """
    logits, y = logits_and_labels(prediction)
    proba = softmax(np_compat, check_input(logits, "logits").astype(np.float64))
    values = {metric.__name__: metric(y, proba) for metric in (accuracy, mean_confidence, nll, ece)}
    return values | {"noise_floor": noise_floor(proba.max(axis=1))}


class CalibrationCallback(TrainerCallback or object):  # type: ignore[misc]
    """Fit a calibrator when training ends, and write it.

    It belongs to the weights that `Trainer` ends with: the best ones with
    `load_best_model_at_end`. The samples are predicted again.

    Parameters
    ----------
    trainer
        The trainer: `trainer.add_callback(CalibrationCallback(trainer, ...))`.
    dataset
        Labeled samples that are not in the training set.
    path
        The file to write, as by `wildcal.save`.
    method
        An unfitted calibrator or its name.

    Attributes
    ----------
    calibrator_
        The fitted calibrator, in the process that wrote it.
    """

    def __init__(
        self, trainer: Any, dataset: Any, path: str | Path, method: str | Calibrator = "auto"
    ) -> None:
        if TrainerCallback is None:
            raise MissingExtraError(
                "CalibrationCallback needs transformers. Install it with:"
                ' pip install "wildcal[transformers]"'
            )
        check_writable(path)  # before training, not after it
        self.trainer, self.dataset, self.path = trainer, dataset, Path(path)
        self.method = get_calibrator(method) if isinstance(method, str) else method

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Predict, fit and write."""
        found = self.trainer.predict(self.dataset)  # all processes take part
        if state.is_world_process_zero:
            self.calibrator_ = self.method.fit(*logits_and_labels(found))
            save(self.calibrator_, self.path)
