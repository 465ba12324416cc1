"""Run a network over the conditions of a plan and write its logits as a suite."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wildcal.core.exceptions import InputError, needs_extra
from wildcal.io.atomic import atomic_write
from wildcal.io.suite import Suite
from wildcal.io.suite_writer import SuiteWriter
from wildcal.vision.extractor import Extractor, Neighbors, Progress
from wildcal.vision.images import PRESETS, Preprocess

_PACKAGES: Final = ("wildcal", "numpy", "torch", "onnxruntime", "opencv-python-headless", "pillow")
_N_CHECKED: Final = 512
# An accuracy within so many standard errors of chance is not distinguished from chance.
_NOISE: Final = 3.0
# Least gap in accuracy between transforms that change the class and the others.
_GAP: Final = 0.15
# Largest share of validation images that may be among the training images.
_MAX_KNOWN: Final = 0.01


def check_accuracy(
    extractor: Extractor, *, colors_known: bool = True, allow_chance: bool = False
) -> tuple[float, int]:
    """Return the accuracy on some in-distribution images, and their number.

    Raises an error when it is within noise of chance, or when the colors were guessed and another
    usual normalization is clearly better: a network that gets its images in the wrong form gives
    useless logits.
    """
    condition, classifier = extractor.plan.conditions[0], extractor.classifier
    rng = np.random.default_rng(0)
    n = min(_N_CHECKED, len(condition.indices))
    indices = rng.choice(condition.indices, n, replace=False)
    images = condition.open()
    y, pixels = images.labels[indices], images.read(indices)

    def predict(preprocess: Preprocess) -> NDArray[np.int64]:
        size = extractor.batch_size()
        parts = [preprocess.normalize(pixels[i : i + size]) for i in range(0, n, size)]
        logits = np.concatenate([classifier.outputs(part)[0] for part in parts])
        return np.asarray(logits.argmax(axis=1))

    predicted = predict(extractor.preprocess)
    accuracy = float((predicted == y).mean())
    # The accuracy of predictions that are independent of the labels.
    n_classes = len(extractor.plan.class_names)
    shares = [np.bincount(labels, minlength=n_classes) / n for labels in (predicted, y)]
    chance = float(shares[0] @ shares[1])
    is_chance = accuracy <= chance + _NOISE * (chance * (1 - chance) / n) ** 0.5
    if allow_chance or (colors_known and not is_chance):
        return accuracy, n
    text = f"the accuracy on {n:,} in-distribution images is {accuracy:.1%}"
    if is_chance:
        text += f", which is within noise of chance ({chance:.1%})"
    found = []
    for preset in PRESETS.values():
        colors = {name: getattr(preset, name) for name in ("mean", "std", "channels", "scale")}
        other = replace(extractor.preprocess, **colors)
        found.append((float((predict(other) == y).mean()), other))
    highest, best = max(found, key=itemgetter(0))
    error = (max(accuracy * (1 - accuracy), 1 / n) / n) ** 0.5
    if highest > accuracy + _NOISE * error:
        numbers = f"mean={_numbers(best.mean)}, std={_numbers(best.std)}"
        if best.scale != 1:
            numbers += f", channels='{best.channels}', scale={best.scale:g}"
        raise InputError(f"{text}; it is {highest:.1%} with {numbers}. Try these.", "mean")
    if is_chance:
        raise InputError(
            f"{text}. Does the network expect another crop or other colors, or the classes in"
            " another order? Try allow_chance=True to go on.",
            "allow_chance",
        )
    return accuracy, n


def extract(
    extractor: Extractor,
    folder: str | Path,
    *,
    dtype: str = "float32",
    scheduler: str | None = None,
    progress: Progress = lambda n: None,
) -> Suite:
    """Write the logits of every condition of a plan into a folder and return the suite.

    Conditions that the folder has already are not computed again: a run that was killed loses at
    most the condition it was in (with a cluster, those that ran).

    Parameters
    ----------
    extractor
        The network and the plan.
    folder
        Where the suite is written.
    dtype
        How logits are stored.
    scheduler
        Address of a Dask scheduler, or "local" for a process per core: one task per condition.
    progress
        Called with numbers of images, training images and those of an earlier run included.
    """
    folder, plan = Path(folder), extractor.plan
    extractor.check()
    writer = _open_writer(extractor, folder, dtype)
    with atomic_write(folder / "indices.npz", "wb") as file:
        indices: dict[str, Any] = {c.name: c.indices for c in plan.conditions}
        np.savez_compressed(file, **indices)
    has_neighbors = extractor.neighbors is not None
    missing = {
        c.name: c
        for c in plan.conditions
        if not writer.done(c.name, n_samples=len(c.indices), knn_distances=has_neighbors)
    }
    progress(plan.n_samples - sum(len(c.indices) for c in missing.values()))
    features = folder / ".training-features"
    if extractor.neighbors is not None and missing:
        _read_training_features(extractor, extractor.neighbors, features, scheduler, progress)
    elif extractor.neighbors is not None:
        progress(len(extractor.neighbors.indices))
    for name, result in _run_all(extractor, Extractor.run, list(missing), scheduler, progress):
        condition = missing[name]
        if condition is plan.conditions[0] and result.n_known > _MAX_KNOWN * len(result.logits):
            raise InputError(
                f"train must be the images that the network was trained on:"
                f" {result.n_known:,} of {len(result.logits):,} validation images are among them.",
                "train",
            )
        corruption, severity = condition.change or (None, None)
        writer.add(
            name,
            result.logits,
            result.y,
            role=condition.role,
            domain=condition.domain or "source",
            corruption=corruption,
            severity=severity,
            knn_distances=result.knn_distances,
        )
        if scheduler is not None:
            progress(len(result.logits))
    writer.finish([condition.name for condition in plan.conditions])
    shutil.rmtree(features, ignore_errors=True)
    return Suite.open(folder)


def _open_writer(extractor: Extractor, folder: Path, dtype: str) -> SuiteWriter:
    plan = extractor.plan
    writer = SuiteWriter(
        folder,
        class_names=plan.class_names,
        model=extractor.classifier.about | {"preprocess": asdict(extractor.preprocess)},
        data=plan.data,
        seed=plan.seed,
        versions=_versions(),
        dtype=dtype,
        knn=_describe_neighbors(extractor),
    )
    if unknown := sorted(set(writer.names) - {condition.name for condition in plan.conditions}):
        raise InputError(f"output must be another folder: {folder} has {unknown[0]}.", "output")
    return writer


def implausible_conditions(suite: Suite) -> dict[str, float]:
    """Return validation transforms that may change the class of an image, with the accuracy there.

    Strengths change the accuracy in small steps. Where the sorted accuracies of all shifted
    validation conditions have a gap, those below it are returned, if they are at most a third.
    """
    shifted = [split for split in suite.calibration if split.is_shifted]
    found = {s.name: float((s.logits.argmax(axis=1) == s.y).mean()) for s in shifted}
    names = sorted(found, key=found.__getitem__)
    for n in range(len(names) // 3, 0, -1):
        if found[names[n]] - found[names[n - 1]] >= _GAP:
            return {name: found[name] for name in names[:n]}
    return {}


def _read_training_features(
    extractor: Extractor,
    neighbors: Neighbors,
    folder: Path,
    scheduler: str | None,
    progress: Progress,
) -> None:
    """Compute the features of the training images; parts of them are kept in a folder."""
    about = [
        extractor.classifier.about,
        asdict(extractor.preprocess),
        _describe_neighbors(extractor),
    ]
    key = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
    paths = [folder / f"{key}-{part}.npz" for part in range(len(neighbors.parts))]
    missing = [part for part, path in enumerate(paths) if not path.exists()]
    progress(len(neighbors.indices) - sum(len(neighbors.parts[part]) for part in missing))
    folder.mkdir(exist_ok=True)
    for part, features in _run_all(extractor, Extractor.training_part, missing, scheduler):
        with atomic_write(paths[part], "wb") as file:
            np.savez(file, *features)
        progress(len(features[0]))
    parts = []
    for path in paths:
        with np.load(path) as arrays:
            parts.append(list(arrays.values()))
    extractor.train_features = [np.concatenate(layer) for layer in zip(*parts, strict=True)]


def _run_all(
    extractor: Extractor,
    method: Callable[..., Any],
    arguments: Sequence[Any],
    scheduler: str | None,
    *options: Any,
) -> Iterator[tuple[Any, Any]]:
    """Yield each argument and the result of a method: with options here, without on a cluster."""
    if scheduler is None or not arguments:
        for argument in arguments:
            yield argument, method(extractor, argument, *options)
        return
    with needs_extra("the scheduler", "dask"):
        from distributed import Client, as_completed
    cluster: dict[str, Any] = {"address": scheduler}
    if scheduler == "local":
        cluster = {"n_workers": os.cpu_count(), "threads_per_worker": 1, "dashboard_address": ":0"}
    with Client(**cluster) as client:
        shared = client.scatter(extractor, broadcast=True, hash=False)
        tasks = {client.submit(method, shared, x, pure=False): x for x in arguments}
        for task, result in as_completed(tasks, with_results=True):
            yield tasks.pop(task), result


def _describe_neighbors(extractor: Extractor) -> dict[str, Any] | None:
    neighbors = extractor.neighbors
    if neighbors is None:
        return None
    pairs = zip(extractor.layers, extractor.n_features, strict=True)
    return {
        "layers": [{"name": name, "n_features": width} for name, width in pairs],
        "n_neighbors": neighbors.k,
        "metric": "squared Euclidean distance of L2-normalized features",
        "index": "exact",
        "n_train": len(neighbors.indices),
        "train": {"name": neighbors.training.name, "n_samples": len(neighbors.training)},
    }


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _numbers(values: Sequence[float]) -> str:
    return "(" + ", ".join(f"{value:g}" for value in values) + ")"
