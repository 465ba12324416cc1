"""What every reader returns: labeled images that are fetched by row number."""

from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.checks import check_choice, check_labels

Rows: TypeAlias = NDArray[np.int64] | slice
INTERPOLATIONS: Final = ("nearest", "bilinear", "bicubic", "lanczos")
"""How images are resized; all but the first are antialiased."""


class ImageSet(Protocol):
    """Labeled images of one size; pixels are fetched only when asked for."""

    @property
    def name(self) -> str:
        """A short name, such as cifar10-test."""

    @property
    def labels(self) -> NDArray[np.int64]:
        """The class of each image, shape (n,), as the classifier numbers its outputs."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """All classes that the labels index, whether they occur or not."""

    @property
    def classes(self) -> NDArray[np.int64]:
        """The sorted classes that the published set is made of: 200 of 1000 for ImageNet-R."""

    def __len__(self) -> int:
        """Return the number of images."""

    def read(self, rows: Rows) -> NDArray[np.uint8]:
        """Return a C-contiguous copy of some images, shape (n, H, W, 3), in the order asked for."""


@dataclass(frozen=True, slots=True, eq=False)
class ArrayImages:
    """Images that are one array, in memory or mapped from a file.

    Parameters
    ----------
    name
        A short name.
    images
        Shape (n, H, W, 3), uint8. Not copied.
    labels
        Shape (n,), integers 0..K-1.
    class_names
        The K names.
    size
        Side to which images are resized when they are read; needs Pillow. By default as they are.
    interpolation
        How they are resized.

    Examples
    --------
    >>> import numpy as np
    >>> from wildcal._old.vision.datasets import ArrayImages
    >>> images = np.arange(2 * 32 * 32 * 3, dtype=np.uint8).reshape(2, 32, 32, 3)
    >>> data = ArrayImages("mine", images, np.array([1, 0]), ("cat", "dog"))
    >>> len(data), data.read(np.array([1, 0, 1])).shape
    (2, (3, 32, 32, 3))
    """

    name: str
    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    size: int | None = None
    interpolation: str = "bilinear"

    def __post_init__(self) -> None:
        check_choice("interpolation", self.interpolation, INTERPOLATIONS)
        images = self.images
        if images.ndim != 4 or images.shape[3] != 3 or images.dtype != np.uint8 or not len(images):
            raise ValueError(
                "images must be uint8 of shape (n >= 1, H, W, 3),"
                f" got {images.dtype} of shape {images.shape}."
            )
        labels = check_labels(self.labels, len(images), len(self.class_names), accepts_ood=False)
        object.__setattr__(self, "labels", labels)

    def __len__(self) -> int:
        return len(self.images)

    @property
    def classes(self) -> NDArray[np.int64]:
        """All classes, 0..K-1."""
        return np.arange(len(self.class_names), dtype=np.int64)

    def read(self, rows: Rows) -> NDArray[np.uint8]:
        """Return a C-contiguous copy of some images, shape (n, H, W, 3), in the order asked for."""
        chosen = rows if isinstance(rows, slice) else check_rows(rows, len(self))
        images = np.array(self.images[chosen], order="C")
        if self.size is None or self.size == images.shape[1]:
            return images
        from wildcal._old.vision.datasets.decode import resized

        return np.stack([resized(image, self.size, self.interpolation) for image in images])


def check_rows(rows: Rows, n: int) -> NDArray[np.int64]:
    """Return row numbers as int64 of shape (m,), each in 0..n-1."""
    if isinstance(rows, slice):
        return np.arange(n, dtype=np.int64)[rows]
    array: NDArray[Any] = np.asarray(rows)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        hint = " Try np.flatnonzero(rows)." if array.dtype.kind == "b" else ""
        raise ValueError(
            "rows must be a slice or a 1-D array of integers,"
            f" got {array.dtype} of shape {array.shape}.{hint}"
        )
    if array.size and (array.min() < 0 or array.max() >= n):
        raise ValueError(f"rows must lie in [0, {n - 1}], got [{array.min()}, {array.max()}].")
    return array.astype(np.int64, copy=False)
