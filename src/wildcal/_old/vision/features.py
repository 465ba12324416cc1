"""What a network saw in an image: pooled outputs of some layers, as vectors of length one.

Neighbors are searched in these vectors; the squared distance of two of them is 2 - 2 cos.
"""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.checks import row_slices
from wildcal._old.vision.batches import Pixels

if TYPE_CHECKING:
    from wildcal._old.vision.classifiers import Classifier

LOGITS = "logits"
"""The name under which the logits themselves are a layer."""
# Keeps the vector of an image that a layer gives nothing but zeros for.
_TINY = 1e-10


@dataclass(frozen=True, slots=True)
class FeatureReader:
    """A classifier and the layers to read while it runs."""

    classifier: "Classifier"
    layers: tuple[str, ...]
    widths: tuple[int, ...]

    @property
    def about(self) -> list[dict[str, Any]]:
        """The layers as a suite's manifest lists them."""
        pairs = zip(self.layers, self.widths, strict=True)
        return [{"name": name, "width": width} for name, width in pairs]

    def __call__(self, images: Pixels) -> tuple[NDArray[np.float32], list[NDArray[np.float32]]]:
        """Return the logits and, for each layer, vectors of length one, shape (n, width)."""
        logits, vectors = _read(self.classifier, images, self.layers)
        for name, width, found in zip(self.layers, self.widths, vectors, strict=True):
            if found.shape[1] != width:
                raise ValueError(
                    f"layer {name} gave {width} numbers per image before, now {found.shape[1]};"
                    " choose another with layers=."
                )
        return logits, vectors


def make_reader(
    classifier: "Classifier", images: Pixels, layers: Sequence[str] | None = None
) -> FeatureReader:
    """Return a reader of the given layers, or of those the network is best known by.

    Parameters
    ----------
    images
        A few images to try the network on.
    layers
        Names of layers; "logits" stands for the logits. By default the last layer of every block,
        the one before the first block, the one before the last linear layer, and the logits.
        Among these, one with the same features as that before it is left out.
    """
    if layers is None:
        names = [name for name in classifier.default_layers(images) if name != LOGITS]
        names.append(LOGITS)
        _, vectors = _read(classifier, images, names)
        kept = [0] + [i for i in range(1, len(names)) if not _same(vectors[i - 1], vectors[i])]
        names, vectors = [names[i] for i in kept], [vectors[i] for i in kept]
    else:
        names = list(layers)
        if not any(names):
            raise ValueError("give at least one layer, such as layers=logits.")
        if not all(names):
            raise ValueError(f"the name of a layer is empty in layers={','.join(names)}.")
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"the layer {twice} was given twice.")
        _, vectors = _read(classifier, images, names)
    return FeatureReader(classifier, tuple(names), tuple(v.shape[1] for v in vectors))


def unit_rows(values: NDArray[Any], layer: str) -> NDArray[np.float32]:
    """Return float32 rows divided by their length plus 1e-10; raise if a number is not finite."""
    out = np.empty(values.shape, np.float32)
    for piece in row_slices(out):
        block = values[piece].astype(np.float64)
        if not np.isfinite(block).all():
            raise ValueError(
                f"the features of layer {layer} are not finite numbers; does the network overflow"
                " there? Choose other layers with layers=."
            )
        lengths = np.sqrt(np.einsum("ij,ij->i", block, block))
        out[piece] = block / (lengths + _TINY)[:, None]
    return out


def near_names(name: str, names: Iterable[str]) -> str:
    """Return a sentence with the names most like one that is unknown."""
    there = list(names)
    near = difflib.get_close_matches(name, there, n=5, cutoff=0.4) or there[:5]
    return f" Near names: {', '.join([*near, LOGITS])}."


def _read(
    classifier: "Classifier", images: Pixels, layers: Sequence[str]
) -> tuple[NDArray[np.float32], list[NDArray[np.float32]]]:
    inner = [name for name in layers if name != LOGITS]
    logits, pooled = classifier.features(images, inner)
    found = dict(zip(inner, pooled, strict=True)) | {LOGITS: logits}
    return logits, [unit_rows(found[name], name) for name in layers]


def _same(first: NDArray[np.float32], second: NDArray[np.float32]) -> bool:
    return first.shape == second.shape and np.allclose(first, second, rtol=1e-5, atol=1e-6)
