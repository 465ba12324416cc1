"""A network and a plan to a suite, cell by cell; what was done survives an interruption."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wildcal.core.checks import check_logits, refuse_log_probabilities
from wildcal.io.suite import Suite, SuiteWriter
from wildcal.vision.ahead import ahead
from wildcal.vision.batches import Pixels, batch_size
from wildcal.vision.classifiers import Classifier
from wildcal.vision.datasets import ImageSet
from wildcal.vision.match import check_match, check_width
from wildcal.vision.noise import Noise
from wildcal.vision.perturb import with_noise
from wildcal.vision.plan import Cell, Plan
from wildcal.vision.training_features import remove_cache

if TYPE_CHECKING:  # needs faiss
    from wildcal.vision.densities import DensityPlan

Read = Callable[[Pixels], tuple[NDArray[np.float32], NDArray[np.float32] | None]]
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
    densities: "DensityPlan | None" = None,
    on_rows: Callable[[str, int], None] = lambda cell, rows: None,
    on_expected: Callable[[int], None] = lambda rows: None,
) -> Suite:
    """Write the logits of every cell of a plan into a folder and return the suite.

    Cells that the folder holds already are not computed again. A run that was killed goes on with
    the cell it was in, and ends with the bytes of a run that was not. A finished suite that lacks
    cells of the plan gets them, in their place.

    Parameters
    ----------
    densities
        Write distances to the nearest training images as well, also for cells that are there. Then
        their logits must come out as they were written, bit for bit.
    on_rows
        Told the cell and the number of images whenever some are done; cells found done count too,
        and so do training images.
    on_expected
        Told, before the cells, how many images the search for the strengths of noise is expected
        still to take; again whenever that changes.
    """
    folder = Path(folder)
    check_match(classifier, plan)
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
    done = {c.name for c in plan.cells if writer.done(c.name, rows=len(c.rows))}
    if densities is not None:
        _check_densities(densities, plan, writer, done)
    _save_rows(folder, plan)

    def only_logits(images: Pixels) -> tuple[NDArray[np.float32], None]:
        return classifier.logits(images), None

    plan = with_noise(
        plan,
        classifier.normalise,
        lambda cell: _read_cell(only_logits, plan, cell, cell.source(), on_rows)[0],
        stored=writer.perturbation,
        keep=lambda record: writer.describe(perturbation=record),
        on_expected=on_expected,
    )
    if densities is None:
        _extract_cells(plan, writer, done, only_logits, on_rows, finished=done)
    else:
        _with_densities(densities, plan, writer, done, on_rows)
    writer.finish([cell.name for cell in plan.cells])
    remove_cache(folder)
    return Suite.open(folder)


def _check_densities(
    densities: "DensityPlan", plan: Plan, writer: SuiteWriter, done: Collection[str]
) -> None:
    """Raise if the suite cannot get these distances, as long as nothing in it has changed.

    The first split that has logits alone stands for the others: where something else computed them,
    such as another number of threads, its bits differ as a rule.
    """
    writer.check_description(neighbours=densities.about)
    for cell in plan.cells:
        # The strengths of noise are filled in later.
        if cell.name in done and not isinstance(cell.change, Noise):
            if not writer.has_densities(cell.name):
                logits, _ = _read_cell(densities.only_logits, plan, cell, cell.source(), _silent)
                _check_same(writer, cell.name, logits)
                return


def _silent(cell: str, rows: int) -> None:
    """Count nothing: these rows come again."""


def _with_densities(
    densities: "DensityPlan",
    plan: Plan,
    writer: SuiteWriter,
    done: Collection[str],
    on_rows: Callable[[str, int], None],
) -> None:
    """Extract what is missing, with the distances to the training images."""
    finished = {name for name in done if writer.has_densities(name)}
    if len(finished) < len(plan.cells):
        measure = densities.prepare(writer.folder, on_rows)
        writer.describe(neighbours=densities.about)
        _extract_cells(plan, writer, done, measure, on_rows, finished)
    else:
        on_rows("everything", len(densities.training.rows) + plan.rows)


def _extract_cells(
    plan: Plan,
    writer: SuiteWriter,
    done: Collection[str],
    read: Read,
    on_rows: Callable[[str, int], None],
    finished: Collection[str],
) -> None:
    """Write all cells but those finished; what is done already must come out the same."""
    for cell in plan.cells:
        if cell.name in finished:
            on_rows(cell.name, len(cell.rows))
            continue
        source = cell.source()
        logits, distances = _read_cell(read, plan, cell, source, on_rows)
        if cell.name in done:
            _check_same(writer, cell.name, logits)
        else:
            writer.add(
                cell.name,
                logits,
                cell.labels(source),
                role=cell.role,
                shift=cell.shift,
                corruption=cell.corruption,
                severity=cell.severity,
            )
        if distances is not None:
            writer.add_densities(cell.name, distances)


def _check_same(writer: SuiteWriter, name: str, logits: NDArray[np.float32]) -> None:
    """Raise unless logits are those that a split was written with."""
    stored = writer.stored(name)
    if not np.array_equal(stored, logits.astype(stored.dtype)):
        apart = np.abs(stored.astype(np.float64) - logits).max()
        raise ValueError(
            f"{writer.folder}: the logits of {name} come out otherwise than they were written (up"
            f" to {apart:.2g} apart), so distances would not belong to them. Run with the threads"
            " and the device that the suite was extracted with, or choose another folder."
        )


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


def _read_cell(
    read: Read,
    plan: Plan,
    cell: Cell,
    source: ImageSet,
    on_rows: Callable[[str, int], None],
) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
    """Return the logits of a cell and, where `read` gives them, distances."""
    size = batch_size(plan.data["size"])
    chunks = [cell.rows[i : i + size] for i in range(0, len(cell.rows), size)]
    parts, distances = [], []
    for images in ahead(cell.pixels(source, rows, plan.seed) for rows in chunks):
        logits, near = read(images)
        check_width(logits, plan)
        check_logits(logits, fitting=True)
        refuse_log_probabilities(logits, "A suite")
        parts.append(logits)
        if near is not None:
            distances.append(near)
        on_rows(cell.name, len(images))
    return np.concatenate(parts), np.concatenate(distances) if distances else None


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
