"""A live stream: each row calibrated in the context of the rows before it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self, final

import numpy as np
from numpy.typing import ArrayLike

from wildcal._old.calibrators.context import Context, RowStatistics, WindowMap
from wildcal._old.core.arrays import BoolArray, FloatArray, Labels, Logits, Proba
from wildcal._old.core.blocks import joined, map_blocks
from wildcal._old.core.calibrator import Calibrator
from wildcal._old.core.checks import check_choice, check_logits
from wildcal._old.core.softmax import softmax_at
from wildcal._old.stream.accuracy import AccuracyEstimate, accuracy_interval
from wildcal._old.stream.drift import Drift, DriftTest
from wildcal._old.stream.evidence import BLOCK, Evidence
from wildcal._old.stream.judged import judged, make_bets
from wildcal._old.stream.one_row import RowTaker
from wildcal._old.stream.sequential import follow
from wildcal._old.stream.state import (
    State,
    check_false_alarms,
    check_per_100k,
    check_window,
    read_state,
    write_state,
)
from wildcal._old.stream.window import UNIT, Step, Window

DEFAULT_WINDOW: Final = 256
DEFAULT_FALSE_ALARMS: Final = 0.01
DEFAULT_PER_100K: Final = 1.0
ALARMS: Final = ("sequential", "window")
DEFAULT_ALARM: Final = "sequential"
# As many rows are read sooner one by one than together.
_FEW: Final = 6


@dataclass(frozen=True, slots=True)
class StreamRows:
    """What a stream says of each row, as arrays; windows end with the row itself."""

    first: int
    """Number of the first of these rows in the stream, which begins at 0."""
    pred: Labels
    confidence: FloatArray
    temperature: FloatArray
    accuracy: FloatArray
    """Estimated accuracy over the window."""
    accuracy_low: FloatArray
    accuracy_high: FloatArray
    drift: FloatArray
    """Score of the window."""
    alarm: BoolArray
    """Whether the alarm rings."""

    def __len__(self) -> int:
        return len(self.pred)


@final
class Stream:
    """Calibrate rows as they come, each in the context of the last `window` rows up to itself.

    The result does not depend on how rows are split into calls, to the last bit. Until the window
    is full, the context is pulled towards the clean one. Memory is constant. Calls from several
    threads take turns; the rows of one call stay together.

    Parameters
    ----------
    calibrator
        A fitted `ContextScaling`.
    window
        Rows in the context, from 1 to 100,000.
    false_alarms
        How often a window of clean rows may look too far from clean. Windows are judged when they
        are all new, at rows W, 2 W, ..., so that decisions do not share rows. The rate is that of
        independent clean rows and W of at least 32; features are skewed, so that smaller windows
        look far more often.
    alarm
        "sequential" looks at every eighth row, at all that came since a change may have begun: see
        docs/stream.md. It ends when a window that is all new looks clean. "window" rings from one
        such window that is too far from clean to the next that is not.
    false_alarms_per_100k
        How many alarms 100,000 clean rows may raise on average, with alarm="sequential".

    Examples
    --------
    >>> import wildcal
    >>> from wildcal._old.calibrators.context import ContextScaling
    >>> suite = wildcal._old.suites.load("cifar10-resnet20")
    >>> logits, y, environment = wildcal._old.evaluation.environments(suite)
    >>> calibrator = ContextScaling().fit(logits, y, environment=environment)
    >>> stream = Stream(calibrator)
    >>> proba = stream(suite.split("test").logits[:512])
    >>> stream.drift.alarm
    False
    >>> proba = stream(suite.split("fog-5").logits[:512])
    >>> stream.drift.alarm
    True
    """

    def __init__(
        self,
        calibrator: WindowMap,
        window: int = DEFAULT_WINDOW,
        *,
        false_alarms: float = DEFAULT_FALSE_ALARMS,
        alarm: str = DEFAULT_ALARM,
        false_alarms_per_100k: float = DEFAULT_PER_100K,
    ) -> None:
        _check_calibrator(calibrator)
        check_window(window)
        check_false_alarms(false_alarms)
        check_choice("alarm", alarm, ALARMS)
        check_per_100k(false_alarms_per_100k)
        self.alarm = alarm
        self.false_alarms_per_100k = float(false_alarms_per_100k)
        self._bets = make_bets(calibrator, false_alarms_per_100k) if alarm == "sequential" else None
        self._evidence = Evidence.none()
        self.calibrator = calibrator
        self.window = int(window)
        self.false_alarms = false_alarms
        self._test = DriftTest(
            calibrator.clean_correlation_, calibrator.clean_rows_, window, false_alarms
        )
        self._threshold = self._test.threshold
        self._window = Window(window, calibrator)
        self._taker: RowTaker | None = None
        form = calibrator.one_row()
        if form is not None:
            self._taker = RowTaker(calibrator, form, self._window, self._test, self._bets)
        self._lock = threading.Lock()

    def __call__(self, logits: ArrayLike) -> Proba:
        """Return calibrated probabilities, shape (n_samples, n_classes), dtype as the logits."""
        z = check_logits(logits, n_classes=self.calibrator.n_classes_)
        temperature = self._read(z).temperature
        return softmax_at(z, lambda block: temperature[block.rows])

    def read(self, logits: ArrayLike) -> StreamRows:
        """Take rows into the stream and return what it says of each of them."""
        return self._read(check_logits(logits, n_classes=self.calibrator.n_classes_))

    def _read(self, z: Logits) -> StreamRows:
        if len(z) <= _FEW and self._taker is not None:
            return self._read_few(z, self._taker)
        # Whatever is wrong with a row comes up here, before the window has changed.
        statistics = self.calibrator.row_statistics(z)
        n, piece = len(z), self._window.piece
        columns = np.empty((7, n))
        with self._turn(n):
            first = self._window.totals.seen
            for start in range(0, n, piece):
                part = slice(start, min(start + piece, n))
                columns[:, part] = self._take(z[part], statistics[part])
        return _rows(first, statistics.pred, columns)

    def _read_few(self, z: Logits, taker: RowTaker) -> StreamRows:
        """Do what `_read` does, for a row or a few."""
        looks = [taker.look(z, i) for i in range(len(z))]
        found = []
        with self._turn(len(z)):
            first, evidence = self._window.totals.seen, self._evidence
            for look in looks:
                columns, evidence = taker.take(look, evidence)
                found.append(columns)
            self._evidence = evidence
        pred = np.array([look.pred for look in looks])
        return _rows(first, pred, np.array(found).T)

    @contextmanager
    def _turn(self, n: int) -> Iterator[None]:
        """Let n rows in while other threads wait; an interrupt leaves no trace of them."""
        with self._lock:
            before, evidence = self._window.totals, self._evidence
            # One piece of rows goes to slots that are not in use, the next to those of the window.
            rows = self._window.rows() if n > self._window.piece else None
            try:
                yield
            except BaseException:  # an interrupt
                if rows is not None:
                    self._window.restore(before.seen, rows, before.filled)
                self._window.totals, self._evidence = before, evidence
                raise

    def _take(self, z: Logits, statistics: RowStatistics) -> FloatArray:
        """Let a piece of rows into the window; return the columns of `StreamRows`, shape (7, n)."""
        step = self._window.enter(statistics)
        means = step.means()
        offset = self.calibrator.window_offset(step.n, means, step.classes)
        temperature = self.calibrator.moved(statistics.own, offset)
        sure = map_blocks(z, lambda b: b.confidence(1.0 / temperature[b.rows]), joined)
        confidence = np.minimum(sure, 1.0)  # float32 kernels may round it to just above 1
        total, variance = self._window.commit(step, confidence) * UNIT
        n = step.n.astype(np.float64)
        error = self.calibrator.accuracy_error(offset)
        accuracy = accuracy_interval(n, total, variance, error)
        score = self._score(n, means)
        alarms = self._alarms(step)
        if self._bets is not None:
            x, decided = judged(self.calibrator, statistics), step.seen % self.window == 0
            alarms, self._evidence = follow(
                self._bets, self._evidence, x, decided, alarms, self.window
            )
        return np.stack([confidence, temperature, *accuracy, score, alarms])

    def _score(self, n: FloatArray | float, means: FloatArray) -> FloatArray:
        """Return the drift of windows of n rows with these mean features."""
        return self._test.score(n, self.calibrator.standardized(means))

    def _alarms(self, step: Step) -> BoolArray:
        score = self._score(self.window, step.filled * UNIT / self.window)
        return (score > self._threshold) & (step.seen >= self.window)

    @property
    def seen(self) -> int:
        """How many rows have come since the stream began."""
        return self._window.totals.seen

    @property
    def rows_to_decision(self) -> int:
        """How many rows must come before the alarm can change."""
        rows = self.window - self.seen % self.window
        return rows if self._bets is None else min(rows, BLOCK - self._evidence.count)

    @property
    def context(self) -> Context:
        """The context of the rows now in the window."""
        return replace(self._window.totals.context(), made_by=self.calibrator.maker())

    @property
    def estimated_accuracy(self) -> AccuracyEstimate:
        """The accuracy over the window, estimated without labels; NaN before the first row."""
        now = self._window.totals
        n = min(now.seen, self.window)
        if n == 0:
            return AccuracyEstimate(np.nan, np.nan, np.nan, 0)
        total, variance = now.sums[-2:] * UNIT
        # Of the same moment: another thread may be letting rows in.
        offset = self.calibrator.offset(now.context())
        value, low, high = accuracy_interval(
            np.array(float(n)), total, variance, self.calibrator.accuracy_error(offset)
        )
        return AccuracyEstimate(float(value), float(low), float(high), n)

    @property
    def drift(self) -> Drift:
        """How far the window is from the clean rows, and whether that was an alarm."""
        now = self._window.totals
        n = min(now.seen, self.window)
        score = float(self._score(n, now.sums[:-2] * UNIT / max(n, 1)))
        alarm = False
        if now.filled is not None:
            last = self._score(self.window, now.filled * UNIT / self.window)
            alarm = bool(last > self._threshold)
        if self._bets is not None:
            alarm = self._evidence.alarm
        return Drift(score, self._test.p_value(score), self._threshold, alarm)

    def save(self, path: str | Path) -> None:
        """Write the state to a JSON file, from which `load` goes on with the same output."""
        with self._lock:
            now, rows, evidence = self._window.totals, self._window.rows(), self._evidence
        kept = None if self._bets is None else (self.false_alarms_per_100k, evidence)
        state = State(self.window, self.false_alarms, now.seen, rows, now.filled, kept)
        write_state(path, state, self.calibrator)

    @classmethod
    def load(
        cls,
        path: str | Path,
        calibrator: WindowMap,
        *,
        false_alarms: float | None = None,
        alarm: str | None = None,
        false_alarms_per_100k: float | None = None,
    ) -> Self:
        """Return the stream saved in a file; its calibrator is not in the file.

        How alarms are decided may be set anew. Damage, or another calibrator, gives a
        FileFormatError.
        """
        _check_calibrator(calibrator)
        state = read_state(path, calibrator)
        saved_rate, evidence = state.sequential or (DEFAULT_PER_100K, Evidence.none())
        saved_alarm = "window" if state.sequential is None else "sequential"
        stream = cls(
            calibrator,
            state.window,
            false_alarms=state.false_alarms if false_alarms is None else false_alarms,
            alarm=saved_alarm if alarm is None else alarm,
            false_alarms_per_100k=(
                saved_rate if false_alarms_per_100k is None else false_alarms_per_100k
            ),
        )
        stream._evidence = evidence
        stream._window.restore(state.seen, state.rows, state.filled)
        return stream


def _check_calibrator(calibrator: Calibrator) -> None:
    if not isinstance(calibrator, WindowMap):
        raise ValueError(
            f"calibrator must be a ContextScaling, got {type(calibrator).__name__}. Only it knows"
            " what clean rows look like."
        )
    calibrator.check_is_fitted()


def _rows(first: int, pred: Labels, columns: FloatArray) -> StreamRows:
    """Return rows by their columns, of which the last says whether there is an alarm."""
    confidence, temperature, accuracy, low, high, drift, alarm = columns
    ringing = alarm.astype(np.bool_)
    return StreamRows(first, pred, confidence, temperature, accuracy, low, high, drift, ringing)
