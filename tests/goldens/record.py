"""Record the goldens: run once, with version 0.1 (benchmarks/version-0.1.txt), and never again.

Usage: python tests/goldens/record.py

It writes index.json and arrays.npz from the suites of wildcal-suites 0.1. The random numbers
(weights and shuffles) are stored with the results, so that nothing depends on a seed later.
"""

import json
from typing import Any

import adapter
import numpy as np
import runner
from scipy.special import softmax

import wildcal

assert wildcal.__version__ == "0.1.0", "goldens are recorded with version 0.1 only"

FEW = 16
"""Arrays of at most so many numbers stand in the index."""
RNG = np.random.default_rng(0)
ARRAYS: dict[str, np.ndarray] = {}

BOTH = ["formula", "fit"]
METHODS: dict[str, dict[str, Any]] = {
    "identity": {"kinds": BOTH, "objective": None},
    "auto": {"kinds": [], "why": "0.2 defines another mixture with the same name"},
    "ts": {"kinds": BOTH, "objective": "nll"},
    "ets": {"kinds": BOTH, "objective": "mse"},
    "tsmix": {"kinds": BOTH, "objective": "nll"},
    "hts": {"kinds": BOTH, "objective": "nll"},
    "pts": {"kinds": ["formula"], "objective": None, "why": "the fit depends on a random start"},
    "energy": {"kinds": BOTH, "objective": "mse"},
    "energy-linear": {"kinds": BOTH, "objective": "mse"},
    "irm": {"kinds": BOTH, "objective": None},
    "irova": {"kinds": BOTH, "objective": None},
    "irovats": {"kinds": BOTH, "objective": None},
    "spline": {"kinds": BOTH, "objective": None, "top_label": True},
    "histogram": {"kinds": BOTH, "objective": "top_label_mse", "top_label": True},
    "isotonic": {"kinds": BOTH, "objective": "top_label_mse", "top_label": True},
    "bbq": {"kinds": BOTH, "objective": None, "top_label": True},
    "beta": {"kinds": [], "why": "0.2 calibrates each class, 0.1 the confidence"},
    "vector": {"kinds": BOTH, "objective": "nll_penalty"},
    "matrix": {"kinds": BOTH, "objective": "nll_penalty"},
    "dirichlet": {"kinds": BOTH, "objective": "nll_penalty"},
    "svs": {"kinds": BOTH, "objective": "nll_penalty"},
    "sms": {"kinds": BOTH, "objective": "nll_penalty"},
    "dac": {"kinds": BOTH, "objective": "scaled_mse"},
    "dac+ets": {"kinds": BOTH, "objective": "scaled_mse"},
}
assert set(METHODS) - {"dac", "dac+ets"} == set(wildcal.CALIBRATORS) - {"context", "context-1"}


def rows(suite: Any, split: str, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
    """Return some logits and labels of a split."""
    chosen = suite.split(split)
    return np.asarray(chosen.logits[start:stop], np.float32), np.asarray(chosen.y[start:stop])


def knn_distances(
    features: np.ndarray, reference: np.ndarray, columns: slice | list[int]
) -> np.ndarray:
    """Return squared distances to the tenth neighbor, by some logits and by their direction."""
    features, reference = features.astype(np.float64), reference.astype(np.float64)
    spaces = (
        (features[:, columns], reference[:, columns]),
        (direction(features), direction(reference)),
    )
    found = []
    for a, b in spaces:
        square = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T
        found.append(np.sort(np.maximum(square, 0), axis=1)[:, 9] / square.mean())
    return np.column_stack(found).astype(np.float32)


def direction(x: np.ndarray) -> np.ndarray:
    """Return rows of length one, about their mean."""
    x = x - x.mean(axis=1, keepdims=True)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def add_samples(data: str, part: str, logits: np.ndarray, y: np.ndarray | None) -> None:
    """Store a set of samples; weights are whole numbers from 1 to 3."""
    ARRAYS[f"{data}/{part}/logits"] = logits.astype(np.float32)
    if y is not None:
        ARRAYS[f"{data}/{part}/y"] = y.astype(np.int8)
        ARRAYS[f"{data}/{part}/weight"] = RNG.integers(1, 4, len(y)).astype(np.uint8)


def add_data() -> dict[str, Any]:
    """Store all calibration and test sets and return what they are."""
    ten, hundred = map(wildcal.suites.load, ("cifar10-vgg11-half", "cifar100-resnet20"))
    for data, suite, n, n_ood in (("K10", ten, 500, 50), ("K100", hundred, 1000, 60)):
        add_samples(data, "calibration", *rows(suite, "validation", 0, n))
        some = [rows(suite, split, 0, n_ood)[0] for split in ("svhn-tune", "textures-tune")]
        add_samples(data, "ood", np.concatenate(some), np.full(2 * n_ood, -1))
        test = np.concatenate([rows(suite, "test", 0, 35)[0], rows(suite, "svhn-test", 0, 15)[0]])
        add_samples(data, "test", test, None)
        validation = rows(suite, "validation", 0, 5000)[0]
        add_distances(data, validation[:n], test, validation[n:])
    pair = [3, 5]  # cat and dog
    logits, y = rows(ten, "validation", 0, 5000)
    ours = np.isin(y, pair)
    all_ten, label = logits[ours], (y[ours] == pair[1]).astype(int)
    add_samples("K2", "calibration", all_ten[:500, pair], label[:500])
    add_samples("K2", "ood", logits[~ours][:80][:, pair], np.full(80, -1))
    test, y = rows(ten, "test", 0, 1000)
    test = np.concatenate([test[np.isin(y, pair)][:35], test[~np.isin(y, pair)][:15]])
    add_samples("K2", "test", test[:, pair], None)
    add_distances("K2", all_ten[:500], test, all_ten[500:], pair)
    return {
        "K2": {"n_classes": 2, "source": "cat and dog logits of cifar10-vgg11-half"},
        "K10": {"n_classes": 10, "source": "cifar10-vgg11-half"},
        "K100": {"n_classes": 100, "source": "cifar100-resnet20"},
    }


def add_distances(
    data: str,
    calibration: np.ndarray,
    test: np.ndarray,
    reference: np.ndarray,
    columns: slice | list[int] = slice(None),
) -> None:
    """Store distances of calibration and test samples to other validation samples."""
    for part, features in (("calibration", calibration), ("test", test)):
        ARRAYS[f"{data}/{part}/knn_distances"] = knn_distances(features, reference, columns)


def encoded(value: Any, key: str) -> Any:
    """Return a fitted value in the form of the index, and store it if it is large."""
    if isinstance(value, dict):  # a base
        inner = {name: encoded(v, f"{key}{name}") for name, v in value["fitted"].items()}
        return {**value, "fitted": inner}
    if isinstance(value, list):
        ARRAYS[key] = np.concatenate(value)
        return {"array": key, "lengths": [len(part) for part in value]}
    if isinstance(value, np.ndarray) and value.size > FEW:
        ARRAYS[key] = value
        return {"array": key}
    return value.tolist() if isinstance(value, np.ndarray) else value


def record_method(method: str, data: str, variant: str) -> dict[str, Any]:
    """Fit a method, store what it found, and return its entry in the index."""
    name, knn = f"{data}/{method}/{variant}", method.startswith("dac")
    samples = runner.calibration_set(data, variant, knn=knn)
    calibrator = adapter.fit(
        method, {}, samples.logits, samples.y, samples.weight, samples.knn_distances
    )
    options = {k: v for k, v in calibrator.get_params(deep=False).items() if k != "base"}
    found = adapter.fitted(calibrator)
    ARRAYS[f"{name}/proba"] = adapter.predict_proba(
        calibrator, *runner.unseen_samples(data, knn=knn)
    ).astype(np.float32)
    objective = None
    if METHODS[method]["objective"] is not None:
        proba = adapter.predict_proba(calibrator, samples.logits, samples.knn_distances)
        objective = runner.objective(method, samples, proba, found, options)
    loss = calibrator.fit_
    return {
        "id": name, "method": method, "data": data, "variant": variant, "knn": knn,
        "options": options,
        "fitted": {field: encoded(v, f"{name}/{field}") for field, v in found.items()},
        "proba": f"{name}/proba",
        "objective": objective,
        "loss": {"name": loss.loss, "before": loss.loss_before, "after": loss.loss_after},
    }  # fmt: skip


def add_metric_inputs() -> None:
    """Store the inputs of the metrics: multiclass, binary, confidence, OOD."""
    ten, hundred = map(wildcal.suites.load, ("cifar10-vgg11-half", "cifar100-resnet20"))
    logits, y = rows(ten, "test", 100, 600)
    other = rows(ten, "svhn-test", 100, 200)[0]
    ARRAYS["multiclass/proba"], ARRAYS["multiclass/y"] = softmax(logits.astype(float), axis=1), y
    ARRAYS["ood/proba"] = softmax(np.concatenate([logits[:200], other]).astype(float), axis=1)
    ARRAYS["ood/y"] = np.concatenate([y[:200], np.full(len(other), -1)])
    ARRAYS["ood/is_id"] = ARRAYS["ood/y"] >= 0
    ARRAYS["ood/confidence"] = ARRAYS["ood/proba"].max(axis=1)
    z, label = rows(ten, "test", 1000, 3500)
    pair = np.isin(label, [3, 5])
    ARRAYS["binary/proba"] = softmax(z[pair][:, [3, 5]].astype(float), axis=1)
    ARRAYS["binary/y"] = (label[pair] == 5).astype(np.int64)
    z, label = rows(hundred, "test", 0, 600)
    # Three decimals, so that some of them are equal.
    ARRAYS["confidence/confidence"] = softmax(z.astype(float), axis=1).max(axis=1).round(3)
    ARRAYS["confidence/correct"] = z.argmax(axis=1) == label
    for name in ("multiclass", "binary"):
        ARRAYS[f"{name}/confidence"] = ARRAYS[f"{name}/proba"].max(axis=1)
    for name in ("multiclass", "binary", "confidence", "ood"):
        ARRAYS[f"{name}/weight"] = RNG.integers(1, 4, len(ARRAYS[f"{name}/confidence"]))


TOP = (
    "accuracy mean_confidence ece mce equal_mass_ece l2_ce_debiased excess_ece ks_error aurc"
    " top_label_brier kde_ece reliability top_label_brier_per_sample"
).split()
PROBA = "nll brier sce misclassification_auroc nll_per_sample brier_per_sample".split()
BINARY = "positive_ece calibration_slope calibration_intercept spiegelhalter_z".split()
DETECTION = "auroc aupr_in aupr_out fpr95".split()
OOD = "ood_mean_confidence ood_auroc ood_aupr_in ood_aupr_out ood_fpr95".split()
TOLERANCES = {
    "noise_floor": (2e-4, 0.0),
    "excess_ece": (0.0, 2e-5),
    "kde_ece": (1e-4, 0.0),
    "calibration_slope": (1e-6, 0.0),
    "calibration_intercept": (1e-6, 0.0),
}
"""Relative and absolute, of metrics that are approximated or searched for."""


def record_metric(
    metric: str, arguments: list[str], weighted: bool, options: dict[str, Any]
) -> dict[str, Any]:
    """Compute a metric of stored inputs and return its entry in the index."""
    source = arguments[0].split("/")[0]
    variant = "weighted" if weighted else "plain"
    rtol, atol = TOLERANCES.get(metric, (1e-9, 1e-12))
    entry = {
        "id": "/".join([source, metric, variant, *map(str, options.values())]),
        "metric": metric, "arguments": arguments, "options": options,
        "weight": f"{source}/weight" if weighted else None, "rtol": rtol, "atol": atol,
    }  # fmt: skip
    value = runner.metric_value(entry)
    if value.size > FEW:
        ARRAYS[entry["id"]] = value
    return {**entry, "value": {"array": entry["id"]} if value.size > FEW else value.tolist()}


def record_metrics() -> list[dict[str, Any]]:
    """Compute all metrics of all inputs that they take."""
    jobs = [(m, ["ood/is_id", "ood/confidence"]) for m in DETECTION]
    jobs += [(m, ["ood/y", "ood/proba"]) for m in OOD]
    for name in ("multiclass", "binary"):
        jobs += [(m, [f"{name}/y", f"{name}/proba"]) for m in (*TOP, *PROBA)]
    jobs += [(m, ["binary/y", "binary/proba"]) for m in BINARY]
    jobs += [(m, ["confidence/correct", "confidence/confidence"]) for m in TOP]
    jobs += [("noise_floor", [f"{n}/confidence"]) for n in ("multiclass", "binary", "confidence")]
    found = [record_metric(*job, weighted, {}) for job in jobs for weighted in (False, True)
             if not (weighted and job[0].endswith("per_sample"))]  # fmt: skip
    binned = ("ece", "mce", "equal_mass_ece", "l2_ce_debiased", "sce", "reliability")
    inputs = ["multiclass/y", "multiclass/proba"]
    return found + [record_metric(m, inputs, False, {"n_bins": 10}) for m in binned]


def main() -> None:
    """Write index.json and arrays.npz."""
    goldens: list[dict[str, Any]] = []
    data = add_data()
    content = {"version": "0.1.0", "data": data, "methods": METHODS, "goldens": goldens}
    runner.index, runner.arrays = lambda: content, lambda: ARRAYS  # type: ignore[assignment]
    for name in data:
        for method, about in METHODS.items():
            if about["kinds"]:
                uses_ood = method.startswith("energy")
                variants = ["plain", "weighted"] + ["ood", "ood-weighted"] * uses_ood
                goldens += [record_method(method, name, variant) for variant in variants]
    add_metric_inputs()
    content["metrics"] = record_metrics()
    text = json.dumps(content, indent=1, allow_nan=False)
    (runner.FOLDER / "index.json").write_text(text + "\n", "utf-8")
    np.savez_compressed(runner.FOLDER / "arrays.npz", **ARRAYS)


if __name__ == "__main__":
    main()
