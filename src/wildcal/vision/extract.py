"""Run a network over the conditions of a plan and write its logits as a suite."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wildcal.core.exceptions import InputError, MissingExtraError
from wildcal.io.atomic import atomic_write
from wildcal.io.suite import Suite
from wildcal.io.suite_writer import SuiteWriter
from wildcal.vision.extractor import PART, Extractor, Progress
from wildcal.vision.features import FeatureCache
from wildcal.vision.images import PRESETS, Preprocess
from wildcal.vision.neighbors import Features
from wildcal.vision.plan import Condition, Plan

_PACKAGES: Final = ("wildcal", "numpy", "torch", "onnxruntime", "opencv-python-headless", "pillow")
_N_CHECKED: Final = 512
# An accuracy within so many standard errors of chance is not distinguished from chance.
_NOISE: Final = 3.0
# A gap between accuracies that is not a matter of degree.
_GAP: Final = 0.15
# Of the validation images, how many may be among the training images.
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
    if allow_chance:
        return accuracy, n
    # The accuracy of predictions that are independent of the labels.
    n_classes = len(extractor.plan.class_names)
    shares = [np.bincount(labels, minlength=n_classes) / n for labels in (predicted, y)]
    chance = float(shares[0] @ shares[1])
    is_chance = accuracy <= chance + _NOISE * (chance * (1 - chance) / n) ** 0.5
    if not is_chance and colors_known:
        return accuracy, n
    colors = ("mean", "std", "channels", "scale")
    others = {
        name: replace(extractor.preprocess, **{c: getattr(preset, c) for c in colors})
        for name, preset in PRESETS.items()
    }
    found = {name: float((predict(other) == y).mean()) for name, other in others.items()}
    best = max(found, key=found.__getitem__)
    error = (max(accuracy * (1 - accuracy), 1 / n) / n) ** 0.5
    is_better = found[best] > accuracy + _NOISE * error
    if not (is_chance or is_better):
        return accuracy, n
    text = f"the accuracy on {n:,} in-distribution images is {accuracy:.1%}"
    if is_chance:
        text += f", which is within noise of chance ({chance:.1%})"
    if is_better:
        preset = others[best]
        numbers = f"mean={_numbers(preset.mean)}, std={_numbers(preset.std)}"
        if preset.scale != 1:
            numbers += f", channels='{preset.channels}', scale={preset.scale:g}"
        raise InputError(f"{text}; it is {found[best]:.1%} with {numbers}. Try these.", "mean")
    raise InputError(
        f"{text}. Does the network expect another crop or other colors, or the classes in another"
        " order? Try allow_chance=True to go on.",
        "allow_chance",
    )


def extract(
    extractor: Extractor,
    folder: str | Path,
    *,
    dtype: str = "float32",
    scheduler: str | None = None,
    progress: Progress = lambda n: None,
    on_found: Progress = lambda n: None,
    on_condition: Callable[[str, int], object] = lambda name, n: None,
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
        Called with numbers of images, training images included.
    on_found
        Called with the number of images that an earlier run has done.
    on_condition
        Called with the name and size of each condition when it is written.
    """
    folder, plan, neighbors = Path(folder), extractor.plan, extractor.neighbors
    extractor.check()
    about = extractor.classifier.about | {"preprocess": asdict(extractor.preprocess)}
    knn = _describe(extractor) if neighbors is not None else None
    writer = SuiteWriter(
        folder,
        class_names=plan.class_names,
        model=about,
        data=plan.data,
        seed=plan.seed,
        versions=_versions(),
        dtype=dtype,
        knn=knn,
    )
    names = [condition.name for condition in plan.conditions]
    if unknown := sorted(set(writer.names) - set(names)):
        raise InputError(f"output must be another folder: {folder} has {unknown[0]}.", "output")
    _write_indices(folder / "indices.npz", plan)
    missing = [c for c in plan.conditions if not _is_done(writer, c, neighbors is not None)]
    on_found(plan.n_samples - sum(len(condition.indices) for condition in missing))
    cache = FeatureCache(folder, {"model": about, "knn": knn}) if neighbors is not None else None
    if cache is not None and neighbors is not None:
        if missing:
            extractor.train_features = _training_features(
                extractor, cache, scheduler, progress, on_found
            )
        else:
            on_found(len(neighbors.indices))
    conditions = {condition.name: condition for condition in missing}
    for name, result in _run_all(extractor, "run", list(conditions), scheduler, progress):
        condition = conditions[name]
        corruption, severity = condition.change or (None, None)
        if name == names[0] and result.n_known > _MAX_KNOWN * len(result.logits):
            raise InputError(
                f"train must be the images that the network was trained on:"
                f" {result.n_known:,} of {len(result.logits):,} validation images are among them.",
                "train",
            )
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
        on_condition(name, len(result.logits))
    writer.finish(names)
    if cache is not None:
        cache.remove()
    return Suite.open(folder)


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


def _training_features(
    extractor: Extractor,
    cache: FeatureCache,
    scheduler: str | None,
    progress: Progress,
    on_found: Progress,
) -> list[Features]:
    """Return the features of all training images, one array per layer; parts are cached."""
    there = {part for part in range(extractor.n_parts) if cache.has(part)}
    missing = [part for part in range(extractor.n_parts) if part not in there]
    on_found(PART * len(there))
    for part, features in _run_all(extractor, "training_part", missing, scheduler):
        cache.put(part, features)
        progress(len(features[0]))
    parts = [cache.get(part) for part in range(extractor.n_parts)]
    return [np.concatenate(layer) for layer in zip(*parts, strict=True)]


def _run_all(
    extractor: Extractor,
    method: str,
    arguments: Sequence[Any],
    scheduler: str | None,
    progress: Progress | None = None,
) -> Iterable[tuple[Any, Any]]:
    """Yield each argument and the result of a method for it, here or on a cluster."""
    if scheduler is None:
        for argument in arguments:
            extra = () if progress is None else (progress,)
            yield argument, getattr(extractor, method)(argument, *extra)
        return
    if not arguments:
        return
    try:
        from distributed import Client, LocalCluster, as_completed
    except ImportError as error:
        raise MissingExtraError(
            'Clusters need Dask. Install it with: pip install "wildcal[dask]"'
        ) from error
    address: Any = scheduler
    if scheduler == "local":
        address = LocalCluster(
            n_workers=os.cpu_count(), threads_per_worker=1, dashboard_address=":0"
        )
    with Client(address) as client:
        shared = client.scatter(extractor, broadcast=True, hash=False)
        tasks = {
            client.submit(_call, shared, method, argument, pure=False): argument
            for argument in arguments
        }
        for task in as_completed(tasks):
            argument, result = tasks.pop(task), task.result()
            task.release()
            if progress is not None:
                progress(len(result.logits))
            yield argument, result
    if scheduler == "local":
        address.close()


def _call(extractor: Extractor, method: str, argument: Any) -> Any:
    return getattr(extractor, method)(argument)


def _is_done(writer: SuiteWriter, condition: Condition, with_distances: bool) -> bool:
    if not writer.done(condition.name, n_samples=len(condition.indices)):
        return False
    split = Suite.open(writer.folder).split(condition.name)
    return not with_distances or "knn_distances" in split.info.arrays


def _write_indices(path: Path, plan: Plan) -> None:
    """Write which images of its data set each condition has."""
    if not path.exists():
        with atomic_write(path, "wb") as file:
            arrays: dict[str, Any] = {c.name: c.indices for c in plan.conditions}
            np.savez_compressed(file, **arrays)


def _describe(extractor: Extractor) -> dict[str, Any]:
    neighbors = extractor.neighbors
    assert neighbors is not None
    pairs = zip(extractor.layers, extractor.n_features, strict=True)
    return {
        "layers": [{"name": name, "n_features": width} for name, width in pairs],
        "n_neighbors": neighbors.k,
        "metric": "squared Euclidean distance of L2-normalized features",
        "index": neighbors.index,
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
