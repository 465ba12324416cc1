"""`Extractor`: logits and neighbor distances of the conditions of a plan."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from threading import Lock
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wildcal.core.exceptions import InputError
from wildcal.core.validation import check_input, check_number, check_raw_logits
from wildcal.vision.classifiers import Classifier
from wildcal.vision.datasets import CIFAR, image_folder
from wildcal.vision.features import LOGITS
from wildcal.vision.images import Images, ImageSet, Indices, Preprocess
from wildcal.vision.neighbors import Features, NeighborSearch, unit_vectors
from wildcal.vision.plan import Plan
from wildcal.vision.splits import draw, n_learned

# Images of 32 x 32 pixels that a CPU runs fastest together; larger ones in proportion.
_CPU_PIXELS: Final = 32 * 32 * 32
_MIN_BATCH: Final = 8
_GPU_FACTOR: Final = 16
# Training images whose features are computed and kept together.
PART_SIZE: Final = 5000
_N_TRIED: Final = 8
# A worker of a cluster may have several threads, which share one network.
_LOCK: Final = Lock()
Progress = Callable[[int], object]


@dataclass(frozen=True, eq=False, kw_only=True)
class Neighbors:
    """Distances to the k-th nearest training image, for density-aware calibration.

    Parameters
    ----------
    training
        The images that the network was trained on.
    indices
        Which of them are searched.
    layers
        Names of layers; "logits" are the logits. Our own networks have a default.
    k
        Which neighbor.
    """

    training: ImageSet
    indices: Indices
    layers: tuple[str, ...] | None = None
    k: int = 10

    @property
    def parts(self) -> list[Indices]:
        """The indices of the training images whose features are computed together."""
        n = len(self.indices)
        return [self.indices[i : i + PART_SIZE] for i in range(0, n, PART_SIZE)]


def training_neighbors(
    dataset: str,
    data: Path,
    preprocess: Preprocess,
    *,
    folder: Path | None = None,
    n: int | None = None,
    seed: int = 0,
    layers: tuple[str, ...] | None = None,
    k: int = 10,
) -> Neighbors:
    """Return the training images of a data set, to search neighbors in.

    Parameters
    ----------
    dataset
        cifar10 and cifar100: the first nine tenths of the training images. Others: the folders of
        classes in `train` inside `data`.
    data
        Where the data are.
    preprocess
        How pictures are cropped.
    folder
        Another folder of folders of classes.
    n
        How many, drawn at random. Default: all, of imagenet 1 %.
    seed
        Of the draw.
    layers, k
        As in `Neighbors`.
    """
    if folder is None and dataset in CIFAR:
        images = CIFAR[dataset](data, "train")
        available = np.arange(n_learned(len(images)))
    else:
        images = image_folder(folder or data / "train", preprocess)
        available = np.arange(len(images))
    if n is None:
        n = max(1, len(available) // 100) if dataset == "imagenet" else len(available)
    check_number("n_train", n, 1, len(available), whole=True)
    check_number("n_neighbors", k, 1, n, whole=True)
    indices = np.sort(draw(available, n, seed))
    return Neighbors(training=images, indices=indices, layers=layers, k=k)


@dataclass(frozen=True, eq=False)
class Result:
    """The samples of one condition."""

    logits: NDArray[np.float32]
    y: NDArray[np.int64] | None
    knn_distances: NDArray[np.float32] | None
    n_known: int
    """Images that are among the training images."""


@dataclass(eq=False, repr=False)
class Extractor:
    """A network and the plan whose images it classifies; each worker of a cluster gets a copy.

    Parameters
    ----------
    open_network
        Returns the classifier; called once per process.
    plan
        What to read.
    preprocess
        How the network expects its images.
    neighbors
        Which distances to measure, if any.
    """

    open_network: Callable[[], Classifier]
    plan: Plan
    preprocess: Preprocess
    neighbors: Neighbors | None = None
    layers: tuple[str, ...] = field(default=(), init=False)
    n_features: tuple[int, ...] = field(default=(), init=False)
    train_features: list[Features] = field(default_factory=list, init=False)

    def __getstate__(self) -> dict[str, Any]:
        opened = ("classifier", "_search")
        return {name: value for name, value in vars(self).items() if name not in opened}

    @cached_property
    def classifier(self) -> Classifier:
        """The network."""
        return self.open_network()

    @cached_property
    def _search(self) -> NeighborSearch:
        assert self.neighbors is not None
        return NeighborSearch(self.train_features, self.neighbors.k)

    def check(self) -> None:
        """Try the network on a few images: its classes, and which layers it has."""
        condition = self.plan.conditions[0]
        images = condition.open()
        pixels = self.preprocess.normalize(images.read(condition.indices[:_N_TRIED]))
        classifier, n_classes = self.classifier, len(self.plan.class_names)
        if classifier.size not in (None, self.preprocess.crop):
            raise InputError(
                f"crop must be {classifier.size} for this network, got {self.preprocess.crop}.",
                "crop",
            )
        if classifier.class_names not in (None, self.plan.class_names):
            raise InputError("network must be trained for the classes of the images.", "network")
        if classifier.batch_size:
            pixels = pixels[: classifier.batch_size]
        logits, _ = classifier.outputs(pixels)
        if logits.ndim != 2 or logits.shape[1] != n_classes:
            raise InputError(
                f"network must return {n_classes} logits per image, one per class of the data, got"
                f" shape {logits.shape} for {len(pixels)} images.",
                "network",
            )
        check_input(logits, "logits", n_classes=n_classes)  # refuses probabilities
        check_raw_logits(logits, "a suite")
        if self.neighbors is None:
            return
        layers = self.neighbors.layers or classifier.layers
        if not layers:
            raise InputError(
                f"layers must be given for {classifier.about['name']}: names of its layers,"
                " separated by commas. A wrong name lists others.",
                "layers",
            )
        self.layers = tuple(dict.fromkeys(layers))
        _, vectors = self._outputs(pixels)
        self.n_features = tuple(values.shape[1] for values in vectors)
        NeighborSearch(vectors, 1)  # raises now, not after the training images, without faiss

    def run(self, name: str, progress: Progress = lambda n: None) -> Result:
        """Return the logits and distances of a condition."""
        condition = next(c for c in self.plan.conditions if c.name == name)
        images, n_known = condition.open(), 0
        logits, distances = [], []
        with _LOCK:
            read = partial(condition.pixels, images, seed=self.plan.seed)
            for pixels in self._batches(read, condition.indices):
                z, vectors = self._outputs(pixels)
                logits.append(z)
                if self.neighbors is not None:
                    found, known = self._search(vectors)
                    distances.append(found)
                    n_known += known
                progress(len(z))
        return Result(
            np.concatenate(logits),
            None if condition.domain is None else images.labels[condition.indices],
            np.concatenate(distances) if distances else None,
            n_known,
        )

    def training_part(self, part: int) -> list[Features]:
        """Return the features of a part of the training images, one array per layer."""
        assert self.neighbors is not None
        read, indices = self.neighbors.training.read, self.neighbors.parts[part]
        with _LOCK:
            found = [self._outputs(pixels)[1] for pixels in self._batches(read, indices)]
        return [np.concatenate(layer) for layer in zip(*found, strict=True)]

    def _outputs(self, pixels: NDArray[np.float32]) -> tuple[NDArray[np.float32], list[Features]]:
        """Return logits, and the features of each layer as unit vectors."""
        inner = [name for name in self.layers if name != LOGITS]
        logits, features = self.classifier.outputs(pixels, inner)
        features[LOGITS] = logits
        return logits, [unit_vectors(features[name]) for name in self.layers]

    def _batches(
        self, read: Callable[[Indices], Images], indices: Indices
    ) -> Iterator[NDArray[np.float32]]:
        """Yield normalized images; a thread prepares the next while the network runs."""
        size = self.batch_size()
        parts = [indices[i : i + size] for i in range(0, len(indices), size)]

        def prepare(part: Indices) -> NDArray[np.float32]:
            return self.preprocess.normalize(read(part))

        with ThreadPoolExecutor(1) as pool:
            coming = pool.submit(prepare, parts[0])
            for following in [*parts[1:], None]:
                ready = coming.result()
                if following is not None:
                    coming = pool.submit(prepare, following)
                yield ready

    def batch_size(self) -> int:
        """Return how many images the network reads at once."""
        if self.classifier.batch_size:
            return self.classifier.batch_size
        on_cpu = getattr(self.classifier, "device", "cpu") == "cpu"
        size = max(_MIN_BATCH, _CPU_PIXELS // self.preprocess.crop**2)
        return size if on_cpu else _GPU_FACTOR * size
