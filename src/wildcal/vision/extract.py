"""A network and a plan to a suite, cell by cell; what was done survives an interruption."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wildcal.core.checks import check_logits, refuse_log_probabilities
from wildcal.io.suite import Suite, SuiteWriter
from wildcal.vision.batches import batch_size
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
    the cell it was in, and ends with the bytes of a run that was not. A finished suite that lacks
    cells of the plan gets them, in their place.

    Parameters
    ----------
    on_rows
        Told the cell and the number of images whenever some are done; cells found done count too.
    """
    folder = Path(folder)
    _check_match(classifier, plan)
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
    _check_cells(folder, writer.names, plan)
    _save_rows(folder, plan)
    for cell in plan.cells:
        if writer.done(cell.name, rows=len(cell.rows)):
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


def _check_match(classifier: Classifier, plan: Plan) -> None:
    """Raise if network and images cannot belong together, as far as is known before the work."""
    if classifier.size not in (None, plan.data["size"]):
        raise ValueError(
            f"the network takes images of {classifier.size} x {classifier.size} pixels,"
            f" not {plan.data['size']}; give --size {classifier.size}."
        )
    if classifier.class_names not in (None, plan.class_names):
        raise ValueError("the network was trained for other classes than those of the images.")


def _check_cells(folder: Path, there: Iterable[str], plan: Plan) -> None:
    """Raise if the folder holds splits that the plan has not, before all others are compared."""
    planned = {cell.name for cell in plan.cells}
    strange = [name for name in there if name not in planned]
    if strange:
        raise ValueError(
            f"{folder} holds {strange[0]}, which was not asked for; choose another folder."
        )


def _save_rows(folder: Path, plan: Plan) -> None:
    """Keep the row numbers beside the suite; what is there already is not touched."""
    for name, split in plan.splits.items():
        path = folder / f"rows-{name}.json"
        if not path.exists():
            split.save(path)


def _logits(
    classifier: Classifier,
    plan: Plan,
    cell: Cell,
    source: ImageSet,
    on_rows: Callable[[str, int], None],
) -> NDArray[np.float32]:
    size = batch_size(plan.data["size"])
    chunks = [cell.rows[i : i + size] for i in range(0, len(cell.rows), size)]
    parts = []
    for images in _ahead(cell.pixels(source, rows, plan.seed) for rows in chunks):
        logits = classifier.logits(images)
        if logits.ndim != 2 or logits.shape[1] != len(plan.class_names):
            raise ValueError(
                f"the network must give {len(plan.class_names)} logits per image, one for each"
                f" class of the data, got {' x '.join(map(str, logits.shape[1:])) or 'one number'}."
            )
        check_logits(logits, fitting=True)
        refuse_log_probabilities(logits, "A suite")
        parts.append(logits)
        on_rows(cell.name, len(images))
    return np.concatenate(parts)


def _ahead(images: Iterable[NDArray[np.uint8]]) -> Iterator[NDArray[np.uint8]]:
    """Yield the same, but let a thread prepare the next while the network works on this one."""
    iterator = iter(images)
    with ThreadPoolExecutor(1, thread_name_prefix="wildcal-images") as pool:

        def ask() -> "Future[NDArray[np.uint8] | None]":
            # A copy of the context, because the number of threads is set in it.
            return pool.submit(copy_context().run, lambda: next(iterator, None))

        coming = ask()
        while (ready := coming.result()) is not None:
            coming = ask()
            yield ready


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
