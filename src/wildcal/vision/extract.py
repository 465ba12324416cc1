"""A network and a plan to a suite, cell by cell; what was done survives an interruption."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wildcal.core.checks import check_logits
from wildcal.io.suite import Suite, SuiteWriter
from wildcal.vision.batches import BATCH
from wildcal.vision.classifiers import Classifier
from wildcal.vision.datasets import ImageSet
from wildcal.vision.plan import Cell, Plan

_PACKAGES = (
    "wildcal",
    "numpy",
    "scipy",
    "pillow",
    "opencv-python-headless",
    "torch",
    "onnxruntime",
)


def extract(
    classifier: Classifier,
    plan: Plan,
    folder: str | Path,
    *,
    dtype: str = "float32",
    on_rows: Callable[[str, int], None] = lambda cell, rows: None,
) -> Suite:
    """Write the logits of every cell of a plan into a folder and return the suite.

    Cells that the folder holds already are not computed again. A run that was killed goes on with
    the cell it was in, and ends with the bytes of a run that was not.

    Parameters
    ----------
    on_rows
        Told the cell and the number of images whenever some are done; cells found done count too.
    """
    folder = Path(folder)
    writer = SuiteWriter(
        folder,
        network=classifier.about | {"normalise": asdict(classifier.normalise)},
        data=plan.data,
        seed=plan.seed,
        versions=_versions(),
        n_classes=len(plan.class_names),
        class_names=plan.class_names,
        dtype=dtype,
    )
    for name, split in plan.splits.items():
        split.save(folder / f"rows-{name}.json")
    for cell in plan.cells:
        if writer.done(cell.name):
            on_rows(cell.name, len(cell.rows))
            continue
        source = cell.source()
        logits = _logits(classifier, plan, cell, source, on_rows)
        writer.add(
            cell.name,
            logits,
            cell.labels(source),
            role=cell.role,
            shift=cell.shift,
            corruption=cell.corruption,
            severity=cell.severity,
        )
    writer.finish([cell.name for cell in plan.cells])
    return Suite.open(folder)


def _logits(
    classifier: Classifier,
    plan: Plan,
    cell: Cell,
    source: ImageSet,
    on_rows: Callable[[str, int], None],
) -> NDArray[np.float32]:
    chunks = [cell.rows[i : i + BATCH] for i in range(0, len(cell.rows), BATCH)]
    parts = []
    for images in _ahead(cell.pixels(source, rows, plan.seed) for rows in chunks):
        logits = classifier.logits(images)
        if logits.ndim != 2 or logits.shape[1] != len(plan.class_names):
            raise ValueError(
                f"the network must give {len(plan.class_names)} logits per image, one for each"
                f" class of the data, got {' x '.join(map(str, logits.shape[1:])) or 'one number'}."
            )
        check_logits(logits, fitting=True)
        parts.append(logits)
        on_rows(cell.name, len(images))
    return np.concatenate(parts)


def _ahead(images: Iterable[NDArray[np.uint8]]) -> Iterator[NDArray[np.uint8]]:
    """Yield the same, but let a thread prepare the next while the network works on this one."""
    iterator = iter(images)
    with ThreadPoolExecutor(1, thread_name_prefix="wildcal-images") as pool:
        coming = pool.submit(next, iterator, None)
        while (ready := coming.result()) is not None:
            coming = pool.submit(next, iterator, None)
            yield ready


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
