"""A data set of picture files, each decoded when it is asked for."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.checks import check_choice, check_count
from wildcal._old.core.parallel import run_parts, thread_count
from wildcal._old.vision.datasets.images import INTERPOLATIONS, Rows, check_rows


@dataclass(frozen=True, slots=True, eq=False)
class PictureFiles:
    """Pictures in class folders, cut to squares of one size.

    Parameters
    ----------
    name
        A short name.
    folder
        Where the class folders are.
    files
        The pictures, relative to the folder, with forward slashes.
    labels
        Shape (n,), integers 0..K-1.
    class_names
        The K names.
    classes
        The sorted classes that the set is made of.
    size
        Width and height of the images, in pixels.
    resize
        What the short side of a picture is resized to before the center is cut out.
    interpolation
        How: "nearest", "bilinear", "bicubic" or "lanczos".
    """

    name: str
    folder: Path
    files: tuple[str, ...]
    labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    classes: NDArray[np.int64]
    size: int
    resize: int
    interpolation: str = "bilinear"

    def __post_init__(self) -> None:
        # Imported to fail now, with the pip line, and not at the first batch.
        import wildcal._old.vision.datasets.decode  # noqa: F401

        check_choice("interpolation", self.interpolation, INTERPOLATIONS)
        if check_count("resize", self.resize) < check_count("size", self.size):
            raise ValueError(f"resize must be at least size = {self.size}, got {self.resize}.")

    def __len__(self) -> int:
        return len(self.files)

    def read(self, rows: Rows) -> NDArray[np.uint8]:
        """Return some images, shape (n, size, size, 3), in the order asked for.

        Pictures are decoded by as many threads as `wildcal._old.core.parallel` allows.
        """
        from wildcal._old.vision.datasets.decode import read_square

        chosen = check_rows(rows, len(self))
        images = np.empty((len(chosen), self.size, self.size, 3), np.uint8)

        def work(places: Sequence[int]) -> None:
            for i in places:
                path = self.folder / self.files[chosen[i]]
                images[i] = read_square(path, self.size, self.resize, self.interpolation)

        run_parts(work, range(len(chosen)), thread_count())
        return images
