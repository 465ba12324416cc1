"""A network and a plan to a suite, cell by cell; what was done survives an interruption."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.checks import check_logits, refuse_log_probabilities
from wildcal._old.io.suite import Suite, SuiteWriter
from wildcal._old.io.suite.arrays import stored_logits
from wildcal._old.io.suite.lock import writing
from wildcal._old.vision.batches import Pixels, filled
from wildcal._old.vision.cells import Cell, Plan
from wildcal._old.vision.classifiers import Classifier
from wildcal._old.vision.datasets import Split
from wildcal._old.vision.match import check_match, check_width
from wildcal._old.vision.pieces import Piece, pieces_of, pixels_of
from wildcal._old.vision.training_features import remove_cache
from wildcal._old.vision.versions import versions

if TYPE_CHECKING:
    from wildcal._old.vision.distances import DistancePlan  # needs faiss

Found = tuple[NDArray[np.float32], NDArray[np.float32] | None]
Read = Callable[[Pixels], Found]


def extract(
    classifier: Classifier,
    plan: Plan,
    folder: str | Path,
    *,
    dtype: str = "float32",
    distances: "DistancePlan | None" = None,
    on_rows: Callable[[str, int], None] = lambda cell, rows: None,
    on_there: Callable[[int], None] = lambda rows: None,
) -> Suite:
    """Write the logits of every cell of a plan into a folder and return the suite.

    Cells that the folder holds already are not computed again. A run that was killed goes on with
    the cell it was in, and ends with the bytes of a run that was not.

    Parameters
    ----------
    distances
        Write distances to the nearest training images as well, also for cells that are there. Then
        their logits must come out as they were written, bit for bit.
    on_rows
        Told the cell and the number of images whenever some are done, training images too.
    on_there
        Told the number of images that were found done.
    """
    folder = Path(folder)
    check_match(classifier, plan)
    folder.mkdir(parents=True, exist_ok=True)
    with writing(folder):
        rows = {folder / f"rows-{name}.json": split for name, split in plan.splits.items()}
        _check_rows(rows)
        writer = SuiteWriter(
            folder,
            network=classifier.about | {"normalize": asdict(classifier.normalize)},
            data=plan.data,
            seed=plan.seed,
            versions=versions(),
            n_classes=len(plan.class_names),
            class_names=plan.class_names,
            dtype=dtype,
        )
        strange = sorted(set(writer.names) - {cell.name for cell in plan.cells})
        if strange:
            raise ValueError(
                f"{folder} holds {strange[0]}, which was not asked for; choose another folder."
            )
        work = _Work(classifier, plan, writer, distances, on_rows, on_there)
        work.check()
        for path, split in rows.items():
            if not path.exists():
                split.save(path)
        work.run()
        writer.finish([cell.name for cell in plan.cells])
        remove_cache(folder)
    return Suite.open(folder)


def _check_rows(lists: dict[Path, Split]) -> None:
    """Raise unless the lists of rows beside the suite are those of the plan."""
    for path, wanted in lists.items():
        if path.exists() and not Split.load(path).same(wanted):
            raise ValueError(
                f"{path.parent} was extracted from other rows ({path.name}); choose another folder."
            )


class _Work:
    """The cells of one run: what is there, and what is computed."""

    def __init__(
        self,
        classifier: Classifier,
        plan: Plan,
        writer: SuiteWriter,
        distances: "DistancePlan | None",
        on_rows: Callable[[str, int], None],
        on_there: Callable[[int], None],
    ) -> None:
        self.classifier, self.plan, self.writer = classifier, plan, writer
        self.distances, self.on_rows, self.on_there = distances, on_rows, on_there
        # Damaged ones are made anew.
        self.there = {c.name for c in plan.cells if writer.done(c.name, rows=len(c.rows))}
        self.near = {name for name in self.there if writer.has_distances(name)}

    def check(self) -> None:
        """Raise if the suite cannot get distances, as long as nothing in it has changed.

        The first split that has logits alone stands for the others: where something else computed
        them, such as another number of threads, its bits differ as a rule.
        """
        if self.distances is None:
            return
        self.writer.check_description(neighbors=self.distances.about)
        for cell in self.plan.cells:
            if cell.name in self.there and cell.name not in self.near:
                results = self._results(self.distances.only_logits, self._pieces(cell))
                self._check_same(cell, self._joined(cell, results)[0])
                return

    def run(self) -> None:
        """Compute what is missing."""
        read: Read = self._only_logits
        missing = [cell for cell in self.plan.cells if not self._is_done(cell)]
        if self.distances is not None:
            if missing:
                read = self.distances.prepare(self.writer.folder, self.on_rows)
                self.writer.describe(neighbors=self.distances.about)
            else:
                self.on_there(len(self.distances.training.rows))
        self.on_there(self.plan.rows - sum(len(cell.rows) for cell in missing))
        # One walk over the pieces of all cells, so that what comes next is begun in time.
        pieces = {cell.name: self._pieces(cell) for cell in missing}
        results = self._results(read, [piece for part in pieces.values() for piece in part])
        for cell in missing:
            self._write(cell, islice(results, len(pieces[cell.name])))

    def _is_done(self, cell: Cell) -> bool:
        return cell.name in (self.there if self.distances is None else self.near)

    def _write(self, cell: Cell, results: Iterator[Found]) -> None:
        """Write a cell, or its distances alone where the logits are there and come out so."""
        logits, distances = self._joined(cell, results, self.on_rows)
        if cell.name in self.there:
            self._check_same(cell, logits)
        else:
            self.writer.add(
                cell.name,
                logits,
                cell.labels(cell.source()),
                role=cell.role,
                shift=cell.shift,
                corruption=cell.corruption,
                severity=cell.severity,
            )
        if distances is not None:
            self.writer.add_distances(cell.name, distances)

    def _only_logits(self, images: Pixels) -> tuple[NDArray[np.float32], None]:
        return self.classifier.logits(images), None

    def _block(self) -> int:
        return self.classifier.block(self.plan.data["size"])

    def _pieces(self, cell: Cell) -> list[Piece]:
        return pieces_of(cell, block=self._block(), side=self.plan.data["size"])

    def _results(self, read: Read, pieces: Sequence[Piece]) -> Iterator[Found]:
        """Yield what the network says of each piece."""
        block = self._block()
        for images in pixels_of(pieces, self.plan.seed):
            logits, near = read(filled(images, block))
            yield logits[: len(images)], None if near is None else near[: len(images)]

    def _joined(
        self,
        cell: Cell,
        results: Iterator[Found],
        on_rows: Callable[[str, int], None] = lambda cell, rows: None,
    ) -> Found:
        """Return the results of a cell's pieces as one, checked as they come."""
        parts, distances = [], []
        for logits, near in results:
            check_width(logits, self.plan)
            check_logits(logits, fitting=True)
            refuse_log_probabilities(logits, "A suite")
            parts.append(logits)
            if near is not None:
                distances.append(near)
            on_rows(cell.name, len(logits))
        return np.concatenate(parts), np.concatenate(distances) if distances else None

    def _check_same(self, cell: Cell, logits: NDArray[np.float32]) -> None:
        """Raise unless logits are those that a split was written with."""
        stored = self.writer.stored(cell.name)
        if not np.array_equal(stored, stored_logits(logits, logits.shape[1], stored.dtype.name)):
            apart = np.abs(stored.astype(np.float64) - logits).max()
            raise ValueError(
                f"{self.writer.folder}: the logits of {cell.name} come out otherwise than they were"
                f" written (up to {apart:.2g} apart), so distances would not belong to them. Run"
                " with the threads and the device that the suite was extracted with, or choose"
                " another folder."
            )
