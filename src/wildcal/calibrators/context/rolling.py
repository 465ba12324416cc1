"""What a live stream needs of a calibrator that reads windows: rows in, an offset for each out."""

from abc import abstractmethod
from typing import ClassVar

from numpy.typing import ArrayLike

from wildcal.calibrators.context.window import Context, RowStatistics
from wildcal.core.arrays import FloatArray, Source
from wildcal.core.bound import Bound
from wildcal.core.calibrator import Calibrator
from wildcal.core.rows import Rows


class WindowMap(Calibrator):
    """A temperature for each row, moved by an offset that the window around it gives.

    The window is known by a few sums over its rows, so it can roll: rows come, others go.
    """

    preserves_accuracy: ClassVar[bool] = True
    clean_correlation_: float
    """Of energy and confidence, on clean rows."""
    clean_rows_: int

    @abstractmethod
    def row_statistics(self, logits: Source) -> RowStatistics:
        """Return what a window keeps of each row."""

    @abstractmethod
    def offset(self, context: Context | None) -> float:
        """Return what one window adds, 0 for none."""

    @abstractmethod
    def window_offset(self, n: ArrayLike, means: FloatArray, same_class: ArrayLike) -> FloatArray:
        """Return what each of several windows adds, from their sizes, means and class counts."""

    @abstractmethod
    def bind_offset(self, rows: Rows, offset: float | FloatArray) -> Bound:
        """Return what is said of rows whose windows have these offsets."""

    @abstractmethod
    def accuracy_error(self, offset: ArrayLike) -> FloatArray:
        """Return how far mean confidence and accuracy may be apart, as one standard deviation."""
