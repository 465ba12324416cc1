"""A network and a plan to a suite, cell by cell; what was done survives an interruption."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wildcal.core.checks import check_logits, refuse_log_probabilities
from wildcal.io.suite import Suite, SuiteWriter
from wildcal.io.suite.arrays import stored_logits
from wildcal.io.suite.lock import writing
from wildcal.vision.batches import Pixels, filled
from wildcal.vision.cells import Cell, Plan
from wildcal.vision.classifiers import Classifier
from wildcal.vision.grow import check_cells, check_rows, grows, save_rows
from wildcal.vision.match import check_match, check_width
from wildcal.vision.pieces import Piece, pieces_of, pixels_of
from wildcal.vision.training_features import remove_cache
from wildcal.vision.versions import versions

if TYPE_CHECKING:
    from wildcal.vision.distances import DistancePlan  # needs faiss
    from wildcal.vision.elsewhere import Elsewhere

Found = tuple[NDArray[np.float32], NDArray[np.float32] | None]
Read = Callable[[Pixels], Found]


def extract(
    classifier: Classifier,
    plan: Plan,
    folder: str | Path,
    *,
    dtype: str = "float32",
    distances: "DistancePlan | None" = None,
    elsewhere: "Elsewhere | None" = None,
    on_rows: Callable[[str, int], None] = lambda cell, rows: None,
    on_there: Callable[[int], None] = lambda rows: None,
) -> Suite:
    """Write the logits of every cell of a plan into a folder and return the suite.

    Rows that the folder holds already are not computed again. A run that was killed goes on with
    the cell it was in, and ends with the bytes of a run that was not. A finished suite that lacks
    cells of the plan gets them, in their place, and cells with fewer rows than the plan's get the
    others; that suite, too, has the bytes of one that was made at once.

    Parameters
    ----------
    distances
        Write distances to the nearest training images as well, also for cells that are there. Then
        their logits must come out as they were written, bit for bit.
    elsewhere
        Run the network there instead of here; the suite has the same bytes. Not with distances,
        whose training images one machine has to hold.
    on_rows
        Told the cell and the number of images whenever some are done, training images too.
    on_there
        Told the number of images that were found done.
    """
    folder = Path(folder)
    if elsewhere is not None and distances is not None:
        raise ValueError(
            "distances to training images are measured on one machine: extract the suite on the"
            " cluster first, then the distances here."
        )
    check_match(classifier, plan)
    folder.mkdir(parents=True, exist_ok=True)
    with writing(folder):
        check_rows(folder, plan)
        writer = SuiteWriter(
            folder,
            network=classifier.about | {"normalize": asdict(classifier.normalize)},
            data=plan.data,
            seed=plan.seed,
            versions=versions(),
            n_classes=len(plan.class_names),
            class_names=plan.class_names,
            dtype=dtype,
            grows=grows,
        )
        check_cells(writer, plan)
        work = _Work(classifier, plan, writer, distances, elsewhere, on_rows, on_there)
        work.check()
        save_rows(folder, plan)
        work.run()
        writer.finish([cell.name for cell in plan.cells])
        remove_cache(folder)
    return Suite.open(folder)


class _Work:
    """The cells of one run: what is there, and what is computed."""

    def __init__(
        self,
        classifier: Classifier,
        plan: Plan,
        writer: SuiteWriter,
        distances: "DistancePlan | None",
        elsewhere: "Elsewhere | None",
        on_rows: Callable[[str, int], None],
        on_there: Callable[[int], None],
    ) -> None:
        self.classifier, self.plan, self.writer = classifier, plan, writer
        self.distances, self.elsewhere = distances, elsewhere
        self.on_rows, self.on_there = on_rows, on_there
        # Damaged ones are made anew.
        self.there = {c.name: writer.rows(c.name) for c in plan.cells if writer.done(c.name)}
        self.near = {name for name in self.there if writer.has_distances(name)}

    def check(self) -> None:
        """Raise if the suite cannot get what is asked for, as long as nothing in it has changed.

        The first split that has logits alone stands for the others: where something else computed
        them, such as another number of threads, its bits differ as a rule.
        """
        if self.distances is None:
            grown = [c.name for c in self.plan.cells if self._missing(c) and c.name in self.near]
            if grown:
                raise ValueError(
                    f"{self.writer.folder}: {grown[0]} has distances to training images, so more"
                    " rows of it need them too: run an extraction with features."
                )
            return
        self.writer.check_description(neighbors=self.distances.about)
        for cell in self.plan.cells:
            if cell.name in self.there and cell.name not in self.near:
                self._check_same(cell, self._read(self.distances.only_logits, cell)[0])
                return

    def run(self) -> None:
        """Compute what is missing."""
        read: Read = self._only_logits
        if self.distances is not None:
            finished = all(c.name in self.near and not self._missing(c) for c in self.plan.cells)
            if finished:
                self.on_there(len(self.distances.training.rows))
            else:
                read = self.distances.prepare(self.writer.folder, self.on_rows)
                self.writer.describe(neighbors=self.distances.about)
        # One walk over the pieces of all cells, so that what comes next is begun in time.
        pieces = {cell.name: self._pieces(cell, self._start(cell)) for cell in self.plan.cells}
        results = self._results(read, [piece for part in pieces.values() for piece in part])
        for cell in self.plan.cells:
            self._extract(cell, islice(results, len(pieces[cell.name])))

    def _missing(self, cell: Cell) -> int:
        return len(cell.rows) - self.there.get(cell.name, 0)

    def _lacks_near(self, cell: Cell) -> bool:
        there = self.there.get(cell.name, 0)
        return self.distances is not None and there > 0 and cell.name not in self.near

    def _start(self, cell: Cell) -> int:
        """Return the first row that is computed: all are, where distances join logits."""
        return 0 if self._lacks_near(cell) else self.there.get(cell.name, 0)

    def _extract(self, cell: Cell, results: Iterator[Found]) -> None:
        """Write what is missing of a cell; where distances are, what is there must come out so."""
        name, there = cell.name, self.there.get(cell.name, 0)
        if self._lacks_near(cell):
            logits, distances = self._joined(cell, results, self.on_rows)
            self._check_same(cell, logits)
            assert distances is not None
            self.writer.add_distances(name, distances[:there])
            if there < len(logits):
                labels = cell.labels(cell.source())[there:]
                self.writer.extend(name, logits[there:], labels, distances[there:])
            return
        if there:
            self.on_there(there)
        if not self._missing(cell):
            return
        logits, distances = self._joined(cell, results, self.on_rows)
        labels = cell.labels(cell.source())[there:]
        if there:
            self.writer.extend(name, logits, labels, distances)
            return
        self.writer.add(
            name,
            logits,
            labels,
            role=cell.role,
            shift=cell.shift,
            corruption=cell.corruption,
            severity=cell.severity,
        )
        if distances is not None:
            self.writer.add_distances(name, distances)

    def _only_logits(self, images: Pixels) -> tuple[NDArray[np.float32], None]:
        return self.classifier.logits(images), None

    def _read(
        self,
        read: Read,
        cell: Cell,
        on_rows: Callable[[str, int], None] = lambda cell, rows: None,
    ) -> Found:
        """Return the logits of a cell and, where `read` gives them, distances."""
        return self._joined(cell, self._results(read, self._pieces(cell, 0)), on_rows)

    def _block(self) -> int:
        return self.classifier.block(self.plan.data["size"])

    def _pieces(self, cell: Cell, start: int) -> list[Piece]:
        return pieces_of(cell, start, block=self._block(), side=self.plan.data["size"])

    def _results(self, read: Read, pieces: Sequence[Piece]) -> Iterator[Found]:
        """Yield what the network says of each piece, here or elsewhere."""
        if self.elsewhere is not None:
            for logits in self.elsewhere.logits(self.classifier, self.plan, pieces):
                yield logits, None
            return
        block = self._block()
        for images, piece in zip(pixels_of(pieces, self.plan.seed), pieces, strict=True):
            logits, near = read(filled(images, block))
            mine = slice(piece.skip, len(images))
            yield logits[mine], None if near is None else near[mine]

    def _joined(
        self, cell: Cell, results: Iterator[Found], on_rows: Callable[[str, int], None]
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
        """Raise unless logits begin with those that a split was written with."""
        stored = self.writer.stored(cell.name)
        found = logits[: len(stored)]
        if not np.array_equal(stored, stored_logits(found, found.shape[1], stored.dtype.name)):
            apart = np.abs(stored.astype(np.float64) - found).max()
            raise ValueError(
                f"{self.writer.folder}: the logits of {cell.name} come out otherwise than they were"
                f" written (up to {apart:.2g} apart), so distances would not belong to them. Run"
                " with the threads and the device that the suite was extracted with, or choose"
                " another folder."
            )
