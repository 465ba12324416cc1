"""How the goldens reach the calibrators and metrics under test.

Goldens use the names of version 0.1 for methods, options, fitted numbers and metrics. This file
translates them to the present names, which are in `names.json`. It is the only file of this folder
that imports wildcal, `test_*.py` aside.
"""

import json
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

import wildcal
import wildcal.metrics
from wildcal.core.piecewise import pad, slopes, stack
from wildcal.metrics._scores import check_scores

NAMES = json.loads((Path(__file__).parent / "names.json").read_text("utf-8"))


def make(method: str, options: dict[str, Any]) -> Any:
    """Return an unfitted calibrator. Options that no longer exist had their defaults."""
    names = NAMES["options"].get(method, {})
    calibrator = wildcal.get_calibrator(NAMES["methods"][method])
    for name, value in options.items():
        if names[name] is not None:
            own = tuple(value) if isinstance(value, list) else value
            calibrator.set_params(**{names[name]: own})
    return calibrator


def restore(method: str, options: dict[str, Any], fitted: dict[str, Any], n_classes: int) -> Any:
    """Return a calibrator with the given fitted numbers, without a fit."""
    calibrator = make(method, options)
    calibrator.n_classes_, calibrator.input_, calibrator.eps_ = n_classes, "logits", 1e-30
    calibrator.class_names_ = calibrator.feature_names_in_ = None
    if method in _TABLES:
        for name, value in _TABLES[method](fitted).items():
            setattr(calibrator, name, value)
        return calibrator
    for name, value in fitted.items():
        nested = isinstance(value, dict)
        new = restore(**value, n_classes=n_classes) if nested else value
        setattr(calibrator, NAMES["fitted"][method][name], new)
    return calibrator


def _isotonic(fitted: dict[str, Any], knots: str = "thresholds_") -> dict[str, Any]:
    """Return the table of a function of 1 - confidence."""
    return _linear((1 - fitted[knots])[::-1], fitted["values_"][::-1])


def _spline(fitted: dict[str, Any]) -> dict[str, Any]:
    return _isotonic(fitted, "scores_")


def _irm(fitted: dict[str, Any]) -> dict[str, Any]:
    return _linear(fitted["thresholds_"], fitted["values_"])


def _linear(knots: np.ndarray, values: np.ndarray) -> dict[str, Any]:
    return _named(pad(knots, values, slopes(knots, values)))


def _irova(fitted: dict[str, Any]) -> dict[str, Any]:
    """Return the tables of all classes."""
    tables = zip(fitted["thresholds_"], fitted["values_"], strict=True)
    found = _named(stack([(x, f, slopes(x, f)) for x, f in tables]))
    return {**found, "temperature_": float(fitted.get("temperature_", 1.0))}


def _bbq(fitted: dict[str, Any]) -> dict[str, Any]:
    """Return a step function of 1 - confidence, which has one more value than knots."""
    edges, values = fitted["edges_"], fitted["values_"]
    return _named(pad((1 - edges)[::-1], values[::-1], size=max(1, len(edges))))


def _histogram(fitted: dict[str, Any]) -> dict[str, Any]:
    """Return a step function of 1 - confidence, with -1 in empty bins."""
    values = np.where(fitted["weights_"] > 0, fitted["values_"], -1.0)
    n_bins = len(values)
    edges = np.arange(n_bins - 1, 0, -1) / n_bins * (1 + 1e-6)
    return _named(pad(1 - edges, values[::-1], size=n_bins))


def _named(parts: tuple[np.ndarray, ...]) -> dict[str, Any]:
    return dict(zip(("knots_", "values_", "slopes_"), parts, strict=False))


_TABLES = {
    "isotonic": _isotonic,
    "spline": _spline,
    "irm": _irm,
    "irova": _irova,
    "irovats": _irova,
    "bbq": _bbq,
    "histogram": _histogram,
}


def fit(
    method: str,
    options: dict[str, Any],
    logits: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray | None,
    knn_distances: np.ndarray | None,
) -> Any:
    """Return a calibrator fitted on samples; y == -1 marks OOD samples."""
    calibrator = make(method, options)
    return calibrator.fit(logits, y, sample_weight=weight, knn_distances=knn_distances)


def predict_proba(
    calibrator: Any, logits: np.ndarray, knn_distances: np.ndarray | None
) -> np.ndarray:
    """Return probabilities, shape (n_samples, n_classes)."""
    return calibrator.predict_proba(logits, knn_distances=knn_distances)


def fitted(calibrator: Any) -> dict[str, Any]:
    """Return the fitted numbers; those that objectives need have the names of 0.1."""
    return vars(calibrator)


def metric(
    name: str, arguments: list[np.ndarray], weight: np.ndarray | None, options: dict[str, Any]
) -> Any:
    """Return a metric; weights are whole numbers, and weight 2 is the sample twice."""
    function = getattr(wildcal.metrics, NAMES["metrics"][name].split("(")[0], None)
    if name == "equal_mass_ece":
        options = {**options, "strategy": "quantile"}
    if weight is not None and (
        function is None or "sample_weight" in signature(function).parameters
    ):
        options = {**options, "sample_weight": weight}
    elif weight is not None:
        arguments = [np.repeat(array, weight, axis=0) for array in arguments]
    if name == "reliability":
        table = function(*arguments, **options)
        return np.nan_to_num(np.stack([table.count, table.confidence, table.accuracy]))
    if function is not None:
        return function(*arguments, **options)
    n_bins = options.pop("n_bins", 15)
    scores = check_scores(*arguments, **options)
    return wildcal.metrics.get_metric(NAMES["metrics"][name]).of(scores, scores.weight, n_bins)
