"""How far images lie from the training images: which distances are wanted, and how to get them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal._old.vision.batches import Pixels
from wildcal._old.vision.cells import Plan
from wildcal._old.vision.classifiers import Classifier
from wildcal._old.vision.features import FeatureReader, make_reader
from wildcal._old.vision.match import check_match, check_width
from wildcal._old.vision.neighbors import NeighborSearch, about_search, check_k, stored_ranks
from wildcal._old.vision.training_features import FeatureCache, training_features
from wildcal._old.vision.training_images import TrainingImages, without_shared

# As many images tell which layers there are and how wide.
_TRIED = 8
Measure = Callable[[Pixels], tuple[NDArray[np.float32], NDArray[np.float32]]]


@dataclass(frozen=True, kw_only=True)
class Neighbors:
    """Which neighbors are searched, and where.

    Parameters
    ----------
    training
        The images to search among.
    layers
        Names of layers; by default those of `wildcal._old.vision.features.make_reader`.
    k
        Distances to the nearest and to the k-th neighbor are kept.
    search
        "exact" or "ivf"; see `wildcal._old.vision.neighbors`.
    """

    training: TrainingImages
    layers: Sequence[str] | None = None
    k: int = 10
    search: str = "exact"


class DistancePlan:
    """The layers and training images of one suite, checked before any of the work is done."""

    def __init__(self, classifier: Classifier, plan: Plan, wanted: Neighbors) -> None:
        check_match(classifier, plan)
        check_k(wanted.k, len(wanted.training.rows))
        validation = next(c for c in plan.cells if c.role == "tune" and c.shift == "none")
        source = validation.source()
        tried = validation.pixels(source, validation.rows[:_TRIED], plan.seed)
        check_width(classifier.logits(tried), plan)
        self.reader: FeatureReader = make_reader(classifier, tried, wanted.layers)
        self.training = without_shared(wanted.training, source, validation.rows)
        check_k(wanted.k, len(self.training.rows))
        self._wanted, self._plan = wanted, plan

    @property
    def about(self) -> dict[str, Any]:
        """What the suite's manifest says of the distances."""
        training = self.training
        return {
            "layers": self.reader.about,
            "ranks": stored_ranks(self._wanted.k),
            "distance": "squared, of features of length one",
            "train_rows": len(training.rows),
            "train": {
                "name": training.images.name,
                "images": len(training.images),
                "duplicates_left_out": training.duplicates,
                "sha256": training.sha256,
            },
            **about_search(self._wanted.search, len(training.rows), self._wanted.k),
        }

    def prepare(self, folder: Path, on_rows: Callable[[str, int], None]) -> Measure:
        """Return what gives logits and distances of images; first the training images are read.

        Their features are kept inside the suite's `folder` until it is finished.
        """
        classifier = self.reader.classifier
        about = self.about | {"network": classifier.about, "seed": self._plan.seed}
        features = training_features(
            self.reader,
            self.training,
            FeatureCache(folder, about),
            size=self._plan.data["size"],
            on_rows=on_rows,
        )
        # The search has a copy, so each layer is let go when its turn has come.
        handed_over = (features.pop(0) for _ in self.reader.layers)
        search = NeighborSearch(
            handed_over, k=self._wanted.k, search=self._wanted.search, seed=self._plan.seed
        )

        block = classifier.block(self._plan.data["size"])

        def measure(images: Pixels) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
            logits, vectors = self.reader(images)
            # As many at once as the network reads: how faiss multiplies depends on their number.
            starts = range(0, len(images), block)
            near = [search([v[i : i + block] for v in vectors]) for i in starts]
            return logits, np.concatenate(near)

        return measure

    def only_logits(self, images: Pixels) -> tuple[NDArray[np.float32], None]:
        """Return the logits as they come out while the layers are read."""
        return self.reader(images)[0], None
