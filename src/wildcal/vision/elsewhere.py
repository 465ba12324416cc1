"""Networks on a cluster: pieces of cells are tasks, and each worker opens what it needs once.

A worker has its own network and reads the images itself. Rows and changes come with the task, and
logits go back. What could change their bits is compared first: the network's weights, the images,
the packages; and the number of threads is that of whoever asks.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from threading import Lock
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wildcal.core.errors import FileFormatError
from wildcal.core.parallel import thread_count, use_threads
from wildcal.vision.batches import filled
from wildcal.vision.cells import Cell, Plan
from wildcal.vision.classifiers import Classifier
from wildcal.vision.datasets import ImageSet
from wildcal.vision.pieces import Piece
from wildcal.vision.versions import versions


class Tasks(Protocol):
    """Who does them; `wildcal.engine.Cluster` is one."""

    def each(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Yield function(item) of every item, in their order."""


@dataclass(frozen=True)
class Recipe:
    """How a network and a plan are opened, and what tells that they are the same everywhere."""

    network: Callable[[], Classifier]
    plan: Callable[[], Plan]
    threads: int
    about: dict[str, Any]
    data: dict[str, Any]
    versions: dict[str, str]

    def open(self) -> tuple[Classifier, Plan]:
        """Return the network and the plan; raise if they are not those of who asks."""
        for name, wanted in self.versions.items():
            found = versions().get(name)
            if found != wanted:
                raise FileFormatError(
                    f"there is {'no ' + name if found is None else f'{name} {found}'}, and where"
                    f" the suite is written {name} {wanted}: logits could differ. Install it there"
                    f' with: pip install "{name}=={wanted}"'
                )
        with use_threads(self.threads):
            network = self.network()
        plan = self.plan()
        if network.about != self.about:
            raise FileFormatError("the network there is another one: its weights differ.")
        if dict(plan.data) != self.data:
            raise FileFormatError("the images there are others: their number or pixels differ.")
        return network, plan


class Elsewhere:
    """Reads pieces of cells on a cluster.

    Parameters
    ----------
    tasks
        The cluster.
    network, plan
        Open the network and the plan; called once by every worker, so sent there. What they name
        must be found there under the same paths.
    """

    def __init__(
        self, tasks: Tasks, network: Callable[[], Classifier], plan: Callable[[], Plan]
    ) -> None:
        self._tasks, self._network, self._plan = tasks, network, plan

    def logits(
        self, classifier: Classifier, plan: Plan, pieces: Sequence[Piece]
    ) -> Iterator[NDArray[np.float32]]:
        """Yield the logits of every piece, in their order."""
        recipe = Recipe(
            self._network,
            self._plan,
            thread_count(),
            classifier.about,
            dict(plan.data),
            versions(),
        )
        # Cells of a search for noise have names of their own, and the images of a cell of the plan.
        places = {cell.source: cell.name for cell in plan.cells}
        tasks = (
            (
                places[piece.cell.source],
                replace(piece.cell, source=_left_behind, rows=piece.cell.rows[piece.rows]),
                piece.skip,
            )
            for piece in pieces
        )
        return self._tasks.each(partial(_logits, pickle.dumps(recipe)), tasks)


def _left_behind() -> ImageSet:
    raise AssertionError("images do not travel; the plan of the worker has them.")


def _logits(recipe: bytes, task: tuple[str, Cell, int]) -> NDArray[np.float32]:
    """Return the logits of one piece: what a worker does."""
    place, cell, skip = task
    with _opening:
        classifier, plan = _opened(recipe)
        source = _images(recipe, place)
    images = cell.pixels(source, cell.rows, plan.seed)
    logits = classifier.logits(filled(images, classifier.block(plan.data["size"])))
    return logits[skip : len(images)]


_opening = Lock()  # of several threads of a worker one opens, and the others wait


@lru_cache(1)
def _opened(recipe: bytes) -> tuple[Classifier, Plan]:
    made: Recipe = pickle.loads(recipe)  # made by this very program, sent by Dask
    return made.open()


@lru_cache(2)
def _images(recipe: bytes, place: str) -> ImageSet:
    _, plan = _opened(recipe)
    return next(cell.source() for cell in plan.cells if cell.name == place)
