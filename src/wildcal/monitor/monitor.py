"""`Monitor`: drift, estimated and realized accuracy of a stream of samples."""

import copy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from wildcal.accuracy.base import AccuracyEstimate, AccuracyEstimator, AccuracyStatistics
from wildcal.core import validation
from wildcal.core.arrays import N_CONFIDENCE_BINS as N_BINS
from wildcal.core.arrays import FloatArray, confidence_bins, uncalibrated_confidence, unmask
from wildcal.core.calibrator import Calibrator
from wildcal.core.conversion import to_logits
from wildcal.core.exceptions import InputError
from wildcal.monitor.drift import BLOCK, DriftTest
from wildcal.monitor.labels import DelayedLabels
from wildcal.monitor.result import MonitorResult, MonitorStatus
from wildcal.monitor.ring import N_BUCKETS, Ring
from wildcal.monitor.state import MonitorState, fingerprint, read_state, write_state
from wildcal.window.base import WindowCalibrator, WindowStatistics

DEFAULT_WINDOW: Final = 400
DEFAULT_RATE: Final = 0.01
MAX_WINDOW: Final = 1_000_000
# Error of ATC, as a part of its fall below calibration time: benchmarks/studies/monitor.py.
_RELATIVE_ERROR: Final = 0.45
_Z: Final = 1.959963984540054
# Columns of `MonitorState.buckets`: samples, those above the ATC threshold, sums of the calibrated
# confidence and of the accuracy estimator, samples by uncalibrated confidence; for calibrators that
# adapt to windows also counts and confidence sums of the classes.
_N, _ABOVE, _CALIBRATED, _ESTIMATED = range(4)
_HISTOGRAM: Final = slice(4, 4 + N_BINS)
_CLASSES: Final = slice(4 + N_BINS, None)
_OPTIONS: Final = ("window", "false_alert_rate")


class Monitor:
    """Monitor a stream of predictions of any fitted calibrator.

    Parameters
    ----------
    calibrator
        Fitted on in-distribution samples, whose statistics it holds (`profile_`). One that adapts
        to windows is adapted to the rolling window.
    window
        Samples in the rolling window. It consists of 20 buckets, so it holds between 19/20 of
        `window` and `window` samples.
    estimator
        A fitted accuracy estimator whose statistics are sums: AC, DoC, ATC or CBPE. Default: ATC
        from the profile of the calibrator.
    false_alert_rate
        Probability that an endless stream without drift ever raises an alert, if samples are
        independent.

    Examples
    --------
    >>> import numpy as np
    >>> from wildcal import TemperatureScaling
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(4000, 4))
    >>> y = (logits + 2 * rng.gumbel(size=(4000, 4))).argmax(axis=1)
    >>> monitor = Monitor(TemperatureScaling().fit(logits[:2000], y[:2000]))
    >>> result = monitor.update(logits[2000:3000])
    >>> monitor.status().drift_alert
    False
    >>> result = monitor.update(logits[3000:] / 4)
    >>> monitor.status().drift_alert
    True
    """

    def __init__(
        self,
        calibrator: Calibrator,
        *,
        window: int = DEFAULT_WINDOW,
        estimator: AccuracyEstimator | None = None,
        false_alert_rate: float = DEFAULT_RATE,
    ) -> None:
        if not isinstance(calibrator, Calibrator):
            raise InputError(
                f"calibrator must be a Calibrator, got {type(calibrator).__name__}.", "calibrator"
            )
        calibrator.check_is_fitted()
        assert calibrator.profile_ is not None  # every fit sets it
        validation.check_number("window", window, N_BUCKETS, MAX_WINDOW, whole=True)
        validation.check_number("false_alert_rate", false_alert_rate, 1e-9, 0.5)
        if estimator is not None:
            _check_estimator(estimator, calibrator)
        self.calibrator, self.estimator = calibrator, estimator
        self.window, self.false_alert_rate = int(window), float(false_alert_rate)
        self._profile = calibrator.profile_
        self._test = DriftTest(self._profile, self.false_alert_rate)
        self._fingerprint = fingerprint(calibrator, estimator)
        self._held = self._empty()
        self._waiting: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]] = []
        try:
            self.adapted()
        except InputError as error:
            raise InputError(
                f"calibrator must adapt to sums over a window, got {type(calibrator).__name__}. Try"
                " WindowScaling, or calibrator.adapt(X), which returns an ordinary calibrator.",
                "calibrator",
            ) from error

    def new(self) -> Self:
        """Return a monitor with the same options and no samples."""
        other = copy.copy(self)
        other._held, other._waiting = self._empty(), []
        return other

    def update(
        self, X: Any, ids: str | Sequence[Any] | None = None, *, knn_distances: Any = None
    ) -> MonitorResult:
        """Add samples to the stream and return their calibrated probabilities.

        Samples that are refused by an error change nothing.

        Parameters
        ----------
        X
            Samples of the kind given to `calibrator.fit`.
        ids
            One id for each sample or None, or one text for all of them, to give to `label` later.
        knn_distances
            For calibrators that need them.
        """
        validation.check_column_names(X, self.calibrator.feature_names_in_)
        x = validation.check_input(X, self.calibrator.input_, n_classes=self.calibrator.n_classes_)
        parts = _split(ids, len(x))
        adapted = self._adapted(x, knn_distances)
        proba = np.asarray(adapted.predict_proba(x, knn_distances=knn_distances))
        if proba.ndim == 1:
            predicted, calibrated = (proba >= 0.5).astype(np.int64), proba
        else:
            predicted, calibrated = proba.argmax(axis=1), proba.max(axis=1)
        # From here on the state changes, and nothing raises.
        near = (
            validation.as_numpy(knn_distances, "knn_distances")
            if self.calibrator.requires
            else None
        )
        self._waiting.append((x, calibrated, near))
        n_waiting = sum(len(each[0]) for each in self._waiting) + len(self._held.drift.pending)
        alerts = self._take_waiting() if n_waiting >= BLOCK else ()
        for key, part in parts:
            own = predicted[part].tolist(), calibrated[part].tolist()
            self._held.labels.remember(key, *own)
        return MonitorResult(proba, calibrated, predicted, alerts)

    def label(self, ids: str | Sequence[Any], y: Any) -> int:
        """Add delayed labels and return the number of samples that they belong to.

        Each id counts once; ids that are not known are ignored.

        Parameters
        ----------
        ids
            As given to `update`.
        y
            For each id a class index or name, or None if it stays unknown; for one text as the id,
            a label for each of its samples. With `input="confidence"`: whether the prediction was
            right.
        """
        confidences, correct = [], []
        for key, labels in self.check_labels(ids, y).items():
            predicted, confidence = self._state.labels.forget(key)
            for c, p, label in zip(predicted, confidence, labels, strict=False):
                if label is not None:
                    confidences.append(p)
                    correct.append(label == (1 if self.calibrator.input_ == "confidence" else c))
        if correct:
            self._state.labels.add(confidences, correct)
        return len(correct)

    def check_labels(self, ids: str | Sequence[Any], y: Any) -> dict[str, list[int | None]]:
        """Return labels by id as class indices; raise an InputError if one is wrong."""
        given = list(y) if np.ndim(y) else [y]
        if not isinstance(ids, str):
            keys = [str(key) for key in ids]
            if len(given) != len(keys):
                raise InputError(
                    f"y must have one label per id, got {len(given)} for {len(keys)} ids.", "y"
                )
            return {key: [self._encode(label)] for key, label in zip(keys, given, strict=True)}
        found = self._state.labels.pending.get(ids)
        if found is not None and len(given) != len(found[0]):
            raise InputError(
                f"y must have a label for each of the {len(found[0])} samples of id {ids!r:.60},"
                f" got {len(given)}.",
                "y",
            )
        return {ids: [self._encode(label) for label in given]}

    @property
    def pending(self) -> dict[str, int]:
        """Number of samples that wait for their labels by id, the oldest first."""
        return {key: len(found[0]) for key, found in self._state.labels.pending.items()}

    def forget(self, key: str) -> None:
        """Forget an id."""
        self._state.labels.forget(key)

    @property
    def n_samples(self) -> int:
        """Samples of the stream."""
        return self._state.drift.n_samples

    @property
    def histogram(self) -> FloatArray:
        """Uncalibrated confidence of the window in 20 bins."""
        return np.asarray(self._state.buckets.sums.sum(axis=0)[_HISTOGRAM])

    @property
    def histogram_at_calibration(self) -> FloatArray:
        """Uncalibrated confidence of the calibration samples in 20 bins."""
        return self._profile.histogram.astype(np.float64)

    def adapted(self) -> Calibrator:
        """Return the calibrator, one that adapts to windows adapted to the rolling window."""
        return self._adapted()

    def estimated_accuracy(self) -> AccuracyEstimate | None:
        """Return the estimated accuracy of the window with its 95 % interval; None if it is empty.

        The interval has the error of sampling and that of the method under shift, which is taken
        as 45 % of the fall below calibration time, or measured on domains by a fitted estimator.
        """
        sums = self._state.buckets.sums.sum(axis=0)
        n = round(float(sums[_N]))
        if not n:
            return None
        if self.estimator is not None:
            total = float(sums[_ESTIMATED])
            return self.estimator.estimate(AccuracyStatistics(self.estimator.name, n, total))
        value = float(sums[_ABOVE]) / n
        source, n_source = self._profile.accuracy, self._profile.n_samples
        # Four samples at the accuracy of calibration, after Agresti and Coull (1998).
        v = (n * value + 4 * source) / (n + 4)
        chance = max(v * (1 - v), 1 / (n_source + 4)) * (1 / n + 1 / n_source)
        fall = max((value - source) ** 2 - chance, 0.0)
        reach = _Z * float(np.sqrt(chance + _RELATIVE_ERROR**2 * fall))
        return AccuracyEstimate(value, max(value - reach, 0.0), min(value + reach, 1.0), n)

    def status(self) -> MonitorStatus:
        """Return the numbers of the stream at this moment."""
        drift, estimate = self._state.drift, self.estimated_accuracy()
        sums = self._state.buckets.sums.sum(axis=0)
        alert = drift.is_alert(drift.n_samples, self.window)
        watched = self.estimator
        return MonitorStatus(
            n_samples=drift.n_samples,
            n_window=round(float(sums[_N])),
            confidence=float(sums[_CALIBRATED] / sums[_N]) if estimate else None,
            estimated_accuracy=estimate.value if estimate else None,
            estimated_accuracy_low=estimate.low if estimate else None,
            estimated_accuracy_high=estimate.high if estimate else None,
            accuracy_at_calibration=watched.source_accuracy_ if watched else self._profile.accuracy,
            drift_alert=alert,
            alert_since=drift.since if alert else None,
            n_alerts=drift.n_alerts,
            log_e_value=float(np.log(drift.e_value)),
            log_limit=float(np.log(self._test.limit)),
            **self._state.labels.status(),
        )

    def save(self, path: str | Path) -> None:
        """Write the state to a JSON file; the calibrator is not in it."""
        write_state(path, self.to_dict())

    @classmethod
    def load(
        cls, path: str | Path, calibrator: Calibrator, *, estimator: AccuracyEstimator | None = None
    ) -> Self:
        """Return the monitor of a file; calibrator and estimator must be those it was saved with.

        Raises
        ------
        FileFormatError
            If the file is damaged or of another calibrator.
        """
        document = read_state(path)
        options = {name: document[name] for name in _OPTIONS}
        return cls(calibrator, estimator=estimator, **options).restored(document, path)

    def to_dict(self) -> dict[str, Any]:
        """Return options and state as JSON values."""
        return {
            "calibrator": self._fingerprint,
            **{name: getattr(self, name) for name in _OPTIONS},
            **self._state.to_dict(),
        }

    def restored(self, document: dict[str, Any], path: str | Path = "the state") -> Self:
        """Return a monitor with these options and the state that `to_dict` returned."""
        other = self.new()
        other._held = other._held.restored(document, self._fingerprint, path)
        for name in _OPTIONS:
            if document[name] != getattr(self, name):
                raise InputError(
                    f"{name} must be {document[name]} as in {path}, got {getattr(self, name)}.",
                    name,
                )
        return other

    def merged(self, other: "Monitor") -> Self:
        """Return a monitor of the samples of two streams, such as two replicas of a server.

        Windows and labels are added, the wealth of the bets is averaged. The window is that of both
        streams until its buckets are replaced.
        """
        if self._fingerprint != other._fingerprint or self.window != other.window:
            raise InputError(
                "monitors must have the same calibrator, estimator and window to be merged.",
                "monitors",
            )
        new = self.new()
        new._held = self._state.merged(other._state)
        return new

    def _empty(self) -> MonitorState:
        k = self.calibrator.n_classes_ if isinstance(self.calibrator, WindowCalibrator) else 0
        window = Ring(np.zeros((N_BUCKETS, _CLASSES.start + 2 * k)))
        return MonitorState(window, self._test.start(), DelayedLabels())

    @property
    def _state(self) -> MonitorState:
        """The state, with the samples that wait for their block."""
        if self._waiting:
            self._take_waiting()
        return self._held

    def _take_waiting(self) -> tuple[int, ...]:
        """Add waiting samples to the window and test them; return where alerts begin.

        The samples of several calls take as long as those of one.
        """
        xs, calibrated, nears = zip(*self._waiting, strict=True)
        self._waiting = []
        x, p = np.concatenate(xs), np.concatenate(calibrated)
        kind, state = self.calibrator.input_, self._held
        logits = unmask(to_logits(np, x.astype(np.float64), kind, self.calibrator.eps_))
        confidence = uncalibrated_confidence(logits, kind)
        bins = confidence_bins(confidence)
        above = self._profile.above_threshold(confidence)
        near = None if nears[0] is None else np.concatenate(nears)
        for sums, part in self._fill(state.buckets, x, near):
            sums[_N] += len(p[part])
            sums[_ABOVE] += above[part].sum()
            sums[_CALIBRATED] += p[part].sum(dtype=np.float64)
            sums[_HISTOGRAM] += np.bincount(bins[part], minlength=N_BINS)
            if self.estimator is not None:
                sums[_ESTIMATED] += self.estimator.statistics(x[part]).total
        alerts = self._test.update(state.drift, bins, logits.argmax(axis=1), self.window)
        if alerts:
            state.labels.restart_test()
        return tuple(alerts)

    def _fill(
        self, window: Ring, x: NDArray[Any], knn_distances: Any
    ) -> Iterator[tuple[FloatArray, slice]]:
        """Distribute samples over the buckets; for adaptation, add the statistics of classes."""
        for sums, part in window.fill(len(x), self.window // N_BUCKETS):
            if isinstance(self.calibrator, WindowCalibrator):
                distances = None if knn_distances is None else knn_distances[part]
                found = self.calibrator.window_statistics(x[part], knn_distances=distances)
                sums[_CLASSES] += np.concatenate([found.counts, found.confidence_sums])
            yield sums, part

    def _adapted(self, x: NDArray[Any] | None = None, knn_distances: Any = None) -> Calibrator:
        """Return the calibrator, adapted to the window with more samples if it adapts."""
        if not isinstance(self.calibrator, WindowCalibrator):
            return self.calibrator
        window = self._state.buckets.copy()
        if x is not None:
            for _ in self._fill(window, x, knn_distances):
                pass
        counts, confidence_sums = window.sums.sum(axis=0)[_CLASSES].reshape(2, -1)
        return self.calibrator.adapt(WindowStatistics(counts, confidence_sums))

    def _encode(self, label: Any) -> int | None:
        """Return a label as a class index, None if it is unknown."""
        if label is None:
            return None
        k, names = self.calibrator.n_classes_, self.calibrator.class_names_ or ()
        if isinstance(label, str) and label in names:
            return names.index(label)
        is_bool = isinstance(label, bool | np.bool_)
        whole = is_bool or isinstance(label, int | np.integer)
        if (is_bool and self.calibrator.input_ != "confidence") or not (whole and 0 <= label < k):
            also = ", class names" if names else ""
            raise InputError(
                f"y must be class indices from 0 to {k - 1}{also} or None, got {label!r:.40}.", "y"
            )
        return int(label)


def _check_estimator(estimator: AccuracyEstimator, calibrator: Calibrator) -> None:
    """Raise unless an estimator has statistics that are sums and the inputs of a calibrator."""
    is_estimator = isinstance(estimator, AccuracyEstimator)
    if not is_estimator or not estimator.summable or estimator.requires_second_logits:
        raise InputError(
            f"estimator must have statistics that are sums, got {type(estimator).__name__}. Try"
            " ATC, AC, DoC or CBPE.",
            "estimator",
        )
    estimator.check_is_fitted()
    ours = calibrator.input_, calibrator.n_classes_
    if (estimator.input_, estimator.n_classes_) != ours:
        raise InputError(
            f"estimator must be fitted on {ours[0]} of {ours[1]} classes as the calibrator, got"
            f" {estimator.input_} of {estimator.n_classes_}.",
            "estimator",
        )


def _split(ids: str | Sequence[Any] | None, n: int) -> list[tuple[str, slice]]:
    """Return the ids as texts, each with the samples that it belongs to."""
    if ids is None:
        return []
    if isinstance(ids, str):
        return [(ids, slice(None))]
    if len(ids) != n:
        raise InputError(f"ids must have one id per sample, got {len(ids)} for {n}.", "ids")
    parts = [(str(key), slice(i, i + 1)) for i, key in enumerate(ids) if key is not None]
    if len(dict(parts)) < len(parts):
        raise InputError("ids must be unique.", "ids")
    return parts
