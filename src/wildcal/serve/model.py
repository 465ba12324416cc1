"""A fitted calibrator as a model of the Open Inference Protocol."""

import re
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wildcal.accuracy.base import AccuracyEstimator
from wildcal.core.calibrator import Calibrator, TemperatureCalibrator
from wildcal.core.exceptions import InputError
from wildcal.monitor.monitor import Monitor
from wildcal.monitor.result import MonitorResult
from wildcal.serve.protocol import DTYPES, InferRequest
from wildcal.serve.settings import Settings

VERSION: Final = "1"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
# Outputs about the stream, of shape (1,).
_STATUS: Final = {
    "estimated_accuracy": "FP32",
    "estimated_accuracy_low": "FP32",
    "estimated_accuracy_high": "FP32",
    "accuracy_at_calibration": "FP32",
    "drift_alert": "BOOL",
}


class Model:
    """A calibrator with a name, its tensors and an empty monitor."""

    def __init__(
        self,
        name: str,
        calibrator: Calibrator,
        settings: Settings,
        estimator: AccuracyEstimator | None = None,
    ) -> None:
        if not _NAME.fullmatch(name):
            raise InputError(
                f"name of a model must be letters, digits, '.', '-' and '_', got {name!r:.80}.",
                "name",
            )
        self.name, self.calibrator, self.max_samples = name, calibrator, settings.max_samples
        self.monitor = Monitor(
            calibrator,
            window=settings.window,
            false_alert_rate=settings.false_alert_rate,
            estimator=estimator,
        )
        """A monitor without samples."""
        self.inputs = self._inputs()
        self.outputs = self._outputs()
        self._input_names = {tensor["name"] for tensor in self.inputs}
        self._output_names = [tensor["name"] for tensor in self.outputs]
        extra = (*_STATUS, "temperature")
        self._default_outputs = [name for name in self._output_names if name not in extra]

    def describe(self) -> dict[str, Any]:
        """Return the metadata of the protocol."""
        names = self.calibrator.class_names_
        return {
            "name": self.name,
            "versions": [VERSION],
            "platform": "wildcal",
            "inputs": self.inputs,
            "outputs": self.outputs,
            "properties": {
                "method": self.calibrator.name,
                "title": self.calibrator.title,
                "class_names": None if names is None else list(names),
            },
        }

    def read(
        self, request: InferRequest, tensors: dict[str, NDArray[Any]]
    ) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """Return samples and distances of a request; their values are not checked here."""
        if tensors.keys() != self._input_names:
            names = sorted(self._input_names)
            given = ", ".join(repr(name[:40]) for name in tensors)
            raise InputError(f"inputs of {self.name} must be {' and '.join(names)}, got {given}.")
        for output in request.outputs or []:
            if output.name not in self._output_names:
                raise InputError(
                    f"{self.name} has no output {output.name!r:.60}; it has"
                    f" {', '.join(self._output_names)}.",
                )
        x = tensors[self.calibrator.input_]
        if len(x) > self.max_samples:
            raise InputError(
                f"inputs must have at most {self.max_samples:,} samples, got {len(x):,}."
            )
        return x, tensors.get("knn_distances")

    def answer(
        self, request: InferRequest, x: NDArray[Any], result: MonitorResult, monitor: Monitor
    ) -> dict[str, NDArray[Any]]:
        """Return the outputs that a request wants, in its order."""
        wanted = self._default_outputs
        if request.outputs is not None:
            wanted = [output.name for output in request.outputs]
        found = {
            "probabilities": result.probabilities,
            "confidence": result.confidence,
            "label": result.predicted,
        }
        if not _STATUS.keys().isdisjoint(wanted):
            status = monitor.status()
            for name, datatype in _STATUS.items():
                found[name] = np.array([getattr(status, name)], DTYPES[datatype])
        if "temperature" in wanted:
            assert isinstance(self.calibrator, TemperatureCalibrator)
            found["temperature"] = self.calibrator.temperatures(x).astype(result.confidence.dtype)
        return {name: found[name] for name in wanted}

    def _inputs(self) -> list[dict[str, Any]]:
        kind, k = self.calibrator.input_, self.calibrator.n_classes_
        found = [_tensor(kind, "FP32", *([] if kind in ("score", "confidence") else [k]))]
        if "knn_distances" in self.calibrator.requires:
            found.append(_tensor("knn_distances", "FP32", getattr(self.calibrator, "n_layers", -1)))
        return found

    def _outputs(self) -> list[dict[str, Any]]:
        found = [_tensor("confidence", "FP32")]
        if self.calibrator.input_ != "confidence":
            probabilities = _tensor("probabilities", "FP32", self.calibrator.n_classes_)
            found = [probabilities, *found, _tensor("label", "INT64")]
            if isinstance(self.calibrator, TemperatureCalibrator) and not self.calibrator.requires:
                found.append(_tensor("temperature", "FP32"))
        about_stream = [{"name": n, "datatype": d, "shape": [1]} for n, d in _STATUS.items()]
        return found + about_stream


def _tensor(name: str, datatype: str, *columns: int) -> dict[str, Any]:
    """Describe a tensor that has an entry for each sample."""
    return {"name": name, "datatype": datatype, "shape": [-1, *columns]}
