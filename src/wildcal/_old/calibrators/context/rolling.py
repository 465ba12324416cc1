"""What a live stream needs of a calibrator that reads windows: rows in, an offset for each out."""

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, final
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wildcal._old.calibrators.context.classes import ClassRows
from wildcal._old.calibrators.context.environments import rows_of_each
from wildcal._old.calibrators.context.window import Context, RowStatistics, window_sums
from wildcal._old.core.arrays import FloatArray, Labels, Source
from wildcal._old.core.block import Block
from wildcal._old.core.blocks import added, joined, map_blocks
from wildcal._old.core.bound import Bound
from wildcal._old.core.calibrator import Calibrator
from wildcal._old.core.rows import Rows

if TYPE_CHECKING:
    from wildcal._old.calibrators.context.one_row import OneRow


class WindowMap(Calibrator):
    """A temperature for each row, moved by an offset that the window around it gives.

    The window is known by a few sums over its rows, so it can roll: rows come, others go. A form
    says which features of a row are summed, which numbers it reads off the classes, and what
    offset both make.
    """

    preserves_accuracy: ClassVar[bool] = True
    clean_correlation_: float
    """Of the two features that drift is judged by, on clean rows."""
    clean_rows_: int

    @property
    @abstractmethod
    def features(self) -> tuple[str, ...]:
        """The names of what is summed of each row, as they stand in the state of a stream."""

    @property
    def by_class(self) -> tuple[int, ...]:
        """Which of them are summed for each predicted class too."""
        return ()

    def maker(self) -> str:
        """Return a fingerprint of what the sums of a row depend on, which its contexts carry."""
        numbers = self._sums_depend_on()
        # Six digits: the same fit on another machine may have other last bits.
        words = f"{self.name} {self.n_classes_} " + " ".join([f"{x:.6g}" for x in numbers])
        return f"{crc32(words.encode()):08x}" if numbers else ""

    def _sums_depend_on(self) -> list[float]:
        """Return the fitted numbers behind the features of a row."""
        return []

    @property
    def unread(self) -> frozenset[str]:
        """Fitted numbers that this form does not read; those who wrote it did not know them."""
        return frozenset()

    def one_row(self) -> "OneRow | None":
        """Return what says the same of one row after another in fewer calls, where there is one."""
        return None

    @abstractmethod
    def _look(self) -> Callable[[Block], RowStatistics]:
        """Return what tells what a window keeps of each row of a block."""

    @final
    def row_statistics(self, logits: Source) -> RowStatistics:
        """Return what a window keeps of each row."""
        look = self._look()

        def columns(block: Block) -> tuple[FloatArray, Labels, FloatArray]:
            seen = look(block)
            return seen.features.T, seen.pred, seen.own

        features, pred, own = map_blocks(logits, columns, joined)
        return RowStatistics(np.ascontiguousarray(features.T), pred, own)

    @abstractmethod
    def class_numbers(self, counts: Labels, inside: FloatArray) -> FloatArray:
        """Return what is read off the classes of one window, as whole numbers, shape (m,).

        `inside` are the sums by class, shape (sums, K).
        """

    @abstractmethod
    def rolling_class_numbers(
        self, counts: Labels, inside: NDArray[np.int64], entering: ClassRows, leaving: ClassRows
    ) -> FloatArray:
        """Return the same after each entering row, (m, n); the last ones each push one out.

        Here `inside` is in units of 2^-40.
        """

    @abstractmethod
    def window_offset(self, n: ArrayLike, means: FloatArray, classes: ArrayLike) -> FloatArray:
        """Return what each of several windows adds, from their sizes, means and class numbers."""

    @abstractmethod
    def standardized(self, means: FloatArray) -> FloatArray:
        """Return two means of windows in units of clean rows, (2, ...), to judge drift by."""

    @abstractmethod
    def moved(self, own: FloatArray, offset: float | FloatArray) -> FloatArray:
        """Return temperatures from what rows give themselves, and what their windows add."""

    @abstractmethod
    def bind_offset(self, rows: Rows, offset: float | FloatArray) -> Bound:
        """Return what is said of rows whose windows have these offsets."""

    @abstractmethod
    def accuracy_error(self, offset: ArrayLike) -> FloatArray:
        """Return how far mean confidence and accuracy may be apart, as one standard deviation."""

    def offset(self, context: Context | None) -> float:
        """Return what one window adds, 0 for none and for the clean one, more where it shifted."""
        if context is None:
            return 0.0
        self._check_context(context)
        if context.n == 0:
            return 0.0
        means = np.array(context.sums) / context.n
        inside = np.array(context.by_class, np.float64).reshape(-1, self.n_classes_)
        classes = self.class_numbers(np.array(context.counts, np.int64), inside)
        return float(self.window_offset(context.n, means, classes))

    def _check_context(self, context: Any) -> None:
        if not isinstance(context, Context):
            raise ValueError(
                "context must be what the method `context` returns for a window of logits, got"
                f" {type(context).__name__}."
            )
        if len(context.counts) != self.n_classes_:
            raise ValueError(
                f"context must be of {self.n_classes_} classes, got {len(context.counts)}."
            )
        inside = self.n_classes_ * len(self.by_class)
        if len(context.sums) != len(self.features) or len(context.by_class) != inside:
            raise ValueError(
                f"context must have {len(self.features)} sums and {inside} by class, those of"
                f" {self.name}, got {len(context.sums)} and {len(context.by_class)}."
            )
        if context.made_by and context.made_by != (mine := self.maker()) and mine:
            raise ValueError(
                "context must be made by this calibrator, got that of another fit, whose sums are"
                " of other numbers. Call the method `context` of this one."
            )
        counts = np.array(context.counts)
        if counts.min() < 0 or counts.sum() != context.n:
            raise ValueError(
                f"context must count each of its {context.n} rows in one class, got counts that"
                f" sum to {counts.sum()}."
            )
        if not np.isfinite([*context.sums, *context.by_class]).all():
            raise ValueError("context must have finite sums.")

    def _context(self, rows: Rows) -> Context:
        look, k, by_class = self._look(), self.n_classes_, self.by_class

        def sums(block: Block) -> tuple[NDArray[Any], ...]:
            return window_sums(look(block), k, by_class)

        total, counts, inside = map_blocks(rows.logits, sums, added)
        found = Context.of_sums(total, counts, inside, self.maker())
        self._doubt([found])
        return found

    def _bind(self, rows: Rows) -> Bound:
        if rows.window is None or rows.context is not None:
            return self.bind_offset(rows, self.offset(rows.context))
        statistics, offset = self.row_statistics(rows.logits), np.empty(len(rows))
        windows = []
        for mine in rows_of_each(rows.window).values():
            windows.append(Context.of_rows(statistics[mine], self.n_classes_, self.by_class))
            offset[mine] = self.offset(windows[-1])
        self._doubt(windows)
        return self.bind_offset(rows, offset)

    def _doubt(self, windows: list[Context]) -> None:
        """Warn of windows that refute what the method takes for granted, where it does so."""


def offset_in(offset: float | FloatArray, rows: slice) -> float | FloatArray:
    """Return the offsets of some rows, where there is one for each."""
    return offset if isinstance(offset, float) else offset[rows]
