"""Read the goldens and check calibrators and metrics against them; README.md explains them."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import adapter
import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

FOLDER = Path(__file__).parent
FORMULA_ATOL = 1e-5
FIT_ATOL = 2e-3
OBJECTIVE_RTOL = 1e-6


@cache
def index() -> dict[str, Any]:
    """Return the index of all goldens."""
    return json.loads((FOLDER / "index.json").read_text("utf-8"))


@cache
def arrays() -> dict[str, np.ndarray]:
    """Return the stored arrays by key."""
    with np.load(FOLDER / "arrays.npz", allow_pickle=False) as stored:
        return dict(stored)


@dataclass(frozen=True)
class Samples:
    """A calibration set; y == -1 marks OOD samples."""

    logits: np.ndarray
    y: np.ndarray
    weight: np.ndarray | None
    knn_distances: np.ndarray | None

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return self.logits.shape[1]

    @property
    def weights(self) -> np.ndarray:
        """The weights, ones where there are none."""
        return np.ones(len(self.y)) if self.weight is None else self.weight.astype(float)


def calibration_set(data: str, variant: str, *, knn: bool) -> Samples:
    """Return a calibration set; variants: plain, weighted, ood, ood-weighted."""
    stored, parts = arrays(), ["calibration"] + ["ood"] * variant.startswith("ood")

    def joined(name: str) -> np.ndarray:
        return np.concatenate([stored[f"{data}/{part}/{name}"] for part in parts])

    weight = joined("weight") if variant.endswith("weighted") else None
    distances = joined("knn_distances").astype(np.float64) if knn else None
    return Samples(joined("logits").astype(np.float64), joined("y"), weight, distances)


def unseen_samples(data: str, *, knn: bool) -> tuple[np.ndarray, np.ndarray | None]:
    """Return logits and knn distances of the test samples."""
    distances = arrays()[f"{data}/test/knn_distances"].astype(np.float64) if knn else None
    return arrays()[f"{data}/test/logits"].astype(np.float64), distances


def decoded(value: Any) -> Any:
    """Return a fitted value from its form in the index."""
    if isinstance(value, list):
        return np.array(value)
    if not isinstance(value, dict):
        return value
    if "array" not in value:  # a base
        return {**value, "fitted": {name: decoded(v) for name, v in value["fitted"].items()}}
    array = arrays()[value["array"]]
    return np.split(array, np.cumsum(value["lengths"])[:-1]) if "lengths" in value else array


# Objectives: what a fit minimizes, recomputed from probabilities and fitted numbers.


def nll(data: Samples, proba: np.ndarray) -> float:
    """Return the weighted mean negative log-likelihood."""
    return -float(np.average(np.log(proba[np.arange(len(data.y)), data.y]), weights=data.weights))


def mse(data: Samples, proba: np.ndarray) -> float:
    """Return the weighted mean squared error of the probabilities.

    The target of OOD samples is the uniform distribution. Together they weigh a share of the
    other samples: 0.02 up to 10 classes, 0.08 up to 100.
    """
    k, ood, weight = data.n_classes, data.y < 0, data.weights
    target = np.where(ood[:, None], 1 / k, np.eye(k)[data.y])
    if ood.any():
        share = 0.02 if k <= 10 else 0.08
        weight[ood] *= share * weight[~ood].sum() / weight[ood].sum()
    return float(np.average(np.square(proba - target).sum(axis=1), weights=weight))


def top_label_mse(data: Samples, proba: np.ndarray) -> float:
    """Return the mean squared error of the confidence, which counts as at least 1 / K."""
    rows, top = np.arange(len(data.y)), data.logits.argmax(axis=1)
    confidence = np.maximum(proba[rows, top], (1 + 2e-6) / data.n_classes)
    return float(np.average(np.square(confidence - (top == data.y)), weights=data.weights))


def scaled_mse(data: Samples, fitted: dict[str, Any], options: dict[str, Any]) -> float:
    """Return the squared error of softmax(z / S), S linear in the distances."""
    assert data.knn_distances is not None
    scale = data.knn_distances @ fitted["weights_"] + fitted["offset_"]
    return mse(data, softmax(data.logits / np.maximum(scale, options["floor"])[:, None], axis=1))


def penalty(method: str, data: Samples, fitted: dict[str, Any], options: dict[str, Any]) -> float:
    """Return the quadratic penalty of a linear map, which pulls it to temperature scaling."""
    k, ridge = data.n_classes, options["ridge"]
    center = 1.0 if method in ("svs", "sms") else 1 / temperature(data)
    share = k / data.weights.sum()
    b = np.square(fitted["intercept_"]).sum()
    if method in ("vector", "svs"):
        return float(ridge * share * (np.square(fitted["scale_"] - center).sum() + b))
    w = fitted["matrix_"]
    diagonal = np.square(np.diag(w) - center).sum()
    others = (k - 1) * np.square(w - np.diag(np.diag(w))).sum()
    if method == "sms":
        return float(ridge * share * (diagonal + others + b))
    return float(share * (ridge * diagonal + others + b))


def temperature(data: Samples) -> float:
    """Return the temperature that minimizes the negative log-likelihood."""

    def loss(log_t: float) -> float:
        scores = log_softmax(data.logits / np.exp(log_t), axis=1)
        return -float(data.weights @ scores[np.arange(len(data.y)), data.y])

    return float(np.exp(minimize_scalar(loss, bounds=(-3, 3), options={"xatol": 1e-10}).x))


def objective(
    method: str, data: Samples, proba: np.ndarray, fitted: dict[str, Any], options: dict[str, Any]
) -> float:
    """Return the objective of a fit, by the name that the index gives for the method."""
    match index()["methods"][method]["objective"]:
        case "nll":
            return nll(data, proba)
        case "mse":
            return mse(data, proba)
        case "top_label_mse":
            return top_label_mse(data, proba)
        case "scaled_mse":
            return scaled_mse(data, fitted, options)
        case "nll_penalty":
            return nll(data, proba) + penalty(method, data, fitted, options)
    raise ValueError(f"unknown objective of {method}")


# Checks


def compared(method: str, logits: np.ndarray, stored: np.ndarray) -> np.ndarray:
    """Return which stored probabilities are compared, as a boolean array of their shape.

    All of them, except for top-label methods: there 0.2 keeps the class of the logits. Where
    another class had more than the predicted one, only the confidence is compared, and nothing
    where it was below 1 / K.
    """
    mask = np.ones(stored.shape, bool)
    if not index()["methods"][method].get("top_label"):
        return mask
    rows, top, k = np.arange(len(stored)), logits.argmax(axis=1), stored.shape[1]
    confidence, others = stored[rows, top], stored.copy()
    others[rows, top] = 0
    mask[(others.max(axis=1) > confidence * (1 - 1e-6)) | (confidence < (1 + 2e-6) / k)] = False
    mask[rows, top] = confidence >= 1 / k
    return mask


def check_proba(golden: dict[str, Any], calibrator: Any, atol: float) -> None:
    """Compare the probabilities of the test samples with the stored ones."""
    stored = arrays()[golden["proba"]].astype(np.float64)
    logits, distances = unseen_samples(golden["data"], knn=golden["knn"])
    proba = adapter.predict_proba(calibrator, logits, distances)
    mask = compared(golden["method"], logits, stored)
    np.testing.assert_allclose(proba[mask], stored[mask], rtol=0, atol=atol)


def check_formula(golden: dict[str, Any]) -> None:
    """Check kind (a): stored fitted numbers give the stored probabilities."""
    fitted = {name: decoded(value) for name, value in golden["fitted"].items()}
    n_classes = index()["data"][golden["data"]]["n_classes"]
    calibrator = adapter.restore(golden["method"], golden["options"], fitted, n_classes)
    check_proba(golden, calibrator, FORMULA_ATOL)


def check_fit(golden: dict[str, Any]) -> None:
    """Check kind (b): a fit is at least as good, and gives nearly the stored probabilities."""
    method, options = golden["method"], golden["options"]
    data = calibration_set(golden["data"], golden["variant"], knn=golden["knn"])
    calibrator = adapter.fit(method, options, data.logits, data.y, data.weight, data.knn_distances)
    check_proba(golden, calibrator, FIT_ATOL)
    if golden["objective"] is not None:
        proba = adapter.predict_proba(calibrator, data.logits, data.knn_distances)
        found = objective(method, data, proba, adapter.fitted(calibrator), options)
        assert found <= golden["objective"] * (1 + OBJECTIVE_RTOL)


def metric_value(golden: dict[str, Any]) -> np.ndarray:
    """Return a metric of the stored inputs."""
    stored = arrays()
    arguments = [stored[key] for key in golden["arguments"]]
    weight = stored[golden["weight"]] if golden["weight"] else None
    return np.asarray(adapter.metric(golden["metric"], arguments, weight, golden["options"]))


def check_metric(golden: dict[str, Any]) -> None:
    """Compare a metric with its stored value."""
    value = golden["value"]
    expected = arrays()[value["array"]] if isinstance(value, dict) else value
    np.testing.assert_allclose(
        metric_value(golden), expected, rtol=golden["rtol"], atol=golden["atol"]
    )
