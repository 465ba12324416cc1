"""How the goldens reach the calibrators and metrics under test.

Goldens use the names of version 0.1 for methods, options, fitted numbers and metrics. This file
translates them to the code under test, which is at present 0.1 itself; `names.json` holds the new
names. It is the only file of this folder that imports wildcal, `record.py` aside.
"""

from dataclasses import fields
from typing import Any

import numpy as np

import wildcal


def make(method: str, options: dict[str, Any]) -> Any:
    """Return an unfitted calibrator."""
    own = {key: tuple(v) if isinstance(v, list) else v for key, v in options.items()}
    return wildcal.make_calibrator(method).set_params(**own)


def restore(method: str, options: dict[str, Any], fitted: dict[str, Any], n_classes: int) -> Any:
    """Return a calibrator with the given fitted numbers, without a fit."""
    calibrator = make(method, options)
    for name, value in fitted.items():
        nested = isinstance(value, dict)
        setattr(calibrator, name, restore(**value, n_classes=n_classes) if nested else value)
    calibrator.n_classes_ = n_classes
    calibrator.check_fitted_values()
    return calibrator


def fit(
    method: str,
    options: dict[str, Any],
    logits: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray | None,
    knn_distances: np.ndarray | None,
) -> Any:
    """Return a calibrator fitted on samples; y == -1 marks OOD samples."""
    return make(method, options).fit(logits, y, sample_weight=weight, distances=knn_distances)


def predict_proba(
    calibrator: Any, logits: np.ndarray, knn_distances: np.ndarray | None
) -> np.ndarray:
    """Return probabilities, shape (n_samples, n_classes)."""
    return calibrator.predict_proba(logits, distances=knn_distances)


def fitted(calibrator: Any) -> dict[str, Any]:
    """Return the fitted numbers by the names of 0.1; a base is a dict of its own."""
    found = {f.name: getattr(calibrator, f.name) for f in fields(calibrator) if not f.init}
    if "base_" in found:
        base = found["base_"]
        found["base_"] = {
            "method": base.name, "options": base.get_params(), "fitted": fitted(base)
        }  # fmt: skip
    return found


def metric(
    name: str, arguments: list[np.ndarray], weight: np.ndarray | None, options: dict[str, Any]
) -> Any:
    """Return a metric; weights are whole numbers, and weight 2 is the sample twice."""
    if weight is not None:
        arguments = [np.repeat(array, weight, axis=0) for array in arguments]
    if name == "reliability":
        table = wildcal.metrics.reliability(*arguments, **options)
        return np.nan_to_num(np.stack([table.count, table.confidence, table.accuracy]))
    if hasattr(wildcal.metrics, name):
        return getattr(wildcal.metrics, name)(*arguments, **options)
    return wildcal.evaluate(*arguments, metrics=[name], n_boot=0, **options)[name]
