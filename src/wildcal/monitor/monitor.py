"""`Monitor`: drift, estimated and realized accuracy of a stream of samples."""

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Self

import array_api_compat.numpy as np_compat
import numpy as np
from numpy.typing import NDArray

from wildcal.accuracy.base import AccuracyEstimate, AccuracyEstimator, AccuracyStatistics
from wildcal.core.arrays import N_CONFIDENCE_BINS as N_BINS
from wildcal.core.arrays import FloatArray, confidence_bins, uncalibrated_confidence, unmask
from wildcal.core.calibrator import Calibrator
from wildcal.core.conversion import to_logits
from wildcal.core.exceptions import InputError
from wildcal.core.labels import ClassNames
from wildcal.core.profile import Profile
from wildcal.core.validation import check_column_names, check_input, check_number
from wildcal.monitor.checks import check_estimator, check_ids
from wildcal.monitor.drift import BLOCK, DriftTest
from wildcal.monitor.labels import DelayedLabels
from wildcal.monitor.result import MonitorResult, MonitorStatus
from wildcal.monitor.state import N_BUCKETS, MonitorState, fingerprint, read_state, write_state
from wildcal.window.base import WindowCalibrator, WindowStatistics

DEFAULT_WINDOW: Final = 400
DEFAULT_RATE: Final = 0.01
MAX_WINDOW: Final = 1_000_000
MAX_PENDING: Final = 100_000
"""Samples that are kept until their labels arrive."""
# Error of ATC, as a part of its fall below calibration time: benchmarks/studies/monitor.py.
_RELATIVE_ERROR: Final = 0.45
_Z: Final = 1.959963984540054
# So few samples are not checked again before the prediction.
_FEW: Final = 8
# The sentence of `status` names no accuracy of fewer samples.
_MIN_ESTIMATE: Final = 20
# Columns of `MonitorState.sums`.
_N, _ABOVE, _CALIBRATED, _ESTIMATED = range(4)


class Monitor:
    """Watches a stream of predictions, with any fitted calibrator.

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
        profile = calibrator.profile_
        if profile is None:
            raise InputError("calibrator must have a profile. Try fitting it again.", "calibrator")
        check_number("window", window, N_BUCKETS, MAX_WINDOW, whole=True)
        check_number("false_alert_rate", false_alert_rate, 1e-9, 0.5)
        if estimator is not None:
            check_estimator(estimator, calibrator)
        self.calibrator, self.estimator = calibrator, estimator
        self.window, self.false_alert_rate = int(window), float(false_alert_rate)
        self._profile: Profile = profile
        self._bucket = self.window // N_BUCKETS
        self._test = DriftTest(profile, self.false_alert_rate)
        self._fingerprint = fingerprint(calibrator, estimator)
        self._converted: dict[Any, Calibrator] = {}
        self._held = self._empty()
        self._waiting: list[tuple[NDArray[Any], NDArray[Any]]] = []

    def new(self) -> Self:
        """Return a monitor with the same options and no samples."""
        other = copy.copy(self)
        other._held, other._waiting = self._empty(), []
        return other

    def update(
        self, X: Any, ids: str | Sequence[Any] | None = None, *, knn_distances: Any = None
    ) -> MonitorResult:
        """Take samples into the stream and return their calibrated probabilities.

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
        kind = self.calibrator.input_
        x = check_input(X, kind, n_classes=self.calibrator.n_classes_)
        keys = check_ids(ids, len(x))
        parts = self._parts(len(x))
        windows, totals = self._statistics(x, parts, knn_distances)
        proba = self._proba(self._adapted(windows, parts), X, x, knn_distances)
        if proba.ndim == 1:
            predicted, calibrated = (proba >= 0.5).astype(np.int64), proba
        else:
            predicted, calibrated = proba.argmax(axis=1), proba.max(axis=1)
        # From here on the state changes, and nothing raises.
        if parts:
            alerts = self._take(x, calibrated, parts, windows, totals)
        else:
            self._waiting.append((x, calibrated))
            n = sum(len(each) for each, _ in self._waiting) + len(self._held.drift.pending)
            alerts = self._take_waiting() if n >= BLOCK else ()
        if keys is not None:
            labels, together = self._held.labels, isinstance(ids, str)
            for j, key in enumerate(keys):
                if key is not None:
                    own = slice(None) if together else slice(j, j + 1)
                    labels.remember(key, predicted[own].tolist(), calibrated[own].tolist())
            labels.limit(MAX_PENDING)
        return MonitorResult(proba, calibrated, predicted, alerts)

    def label(self, ids: str | Sequence[Any], y: Any) -> int:
        """Take labels that arrive later and return the number of samples they belong to.

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
        return self.take_labels(self.check_labels(ids, y))

    def check_labels(self, ids: str | Sequence[Any], y: Any) -> dict[str, list[int | None]]:
        """Return labels by id for `take_labels`; raise an InputError if one is wrong."""
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

    def take_labels(self, checked: dict[str, list[int | None]]) -> int:
        """Take labels that were checked; return the number of samples they belong to."""
        confidences, correct = [], []
        for key, labels in checked.items():
            predicted, confidence = self._state.labels.forget(key) or ([], [])
            for c, p, label in zip(predicted, confidence, labels, strict=False):
                if label is not None:
                    confidences.append(p)
                    correct.append(self._is_right(c, label))
        if correct:
            self._state.labels.add(confidences, correct)
        return len(correct)

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
        return np.asarray(self._state.histogram.sum(axis=0))

    @property
    def histogram_at_calibration(self) -> FloatArray:
        """Uncalibrated confidence of the calibration samples in 20 bins."""
        return self._profile.histogram.astype(np.float64)

    def adapted(self) -> Calibrator:
        """Return the calibrator, one that adapts to windows adapted to the rolling window."""
        return self._adapted([], [])

    def estimated_accuracy(self) -> AccuracyEstimate | None:
        """Return the estimated accuracy of the window with its 95 % interval; None if it is empty.

        The interval has the error of sampling and that of the method under shift, which is taken
        as 45 % of the fall below calibration time, or measured on domains by a fitted estimator.
        """
        sums = self._state.sums.sum(axis=0)
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
        sums = self._state.sums.sum(axis=0)
        alert = drift.is_alert(drift.n_samples, self.window)
        labels = self._state.labels.status()
        return MonitorStatus(
            message=self._message(estimate, drift.since if alert else None, labels),
            n_samples=drift.n_samples,
            n_window=round(float(sums[_N])),
            confidence=float(sums[_CALIBRATED] / sums[_N]) if estimate else None,
            estimated_accuracy=estimate.value if estimate else None,
            estimated_accuracy_low=estimate.low if estimate else None,
            estimated_accuracy_high=estimate.high if estimate else None,
            accuracy_at_calibration=self._accuracy_at_calibration(),
            drift_alert=alert,
            alert_since=drift.since if alert else None,
            n_alerts=drift.n_alerts,
            log_e_value=float(np.log(drift.e_value)),
            log_limit=float(np.log(self._test.limit)),
            **labels,
        )

    def save(self, path: str | Path) -> None:
        """Write the state to a JSON file; the calibrator is not in it."""
        write_state(path, self.to_dict())

    @classmethod
    def load(
        cls,
        path: str | Path,
        calibrator: Calibrator,
        *,
        estimator: AccuracyEstimator | None = None,
        false_alert_rate: float | None = None,
    ) -> Self:
        """Return the monitor of a file; calibrator and estimator must be those it was saved with.

        Raises
        ------
        FileFormatError
            If the file is damaged or of another calibrator.
        """
        document = read_state(path)
        rate = document["false_alert_rate"] if false_alert_rate is None else false_alert_rate
        made = cls(
            calibrator, window=document["window"], estimator=estimator, false_alert_rate=rate
        )
        return made.restored(document, path)

    def to_dict(self) -> dict[str, Any]:
        """Return options and state as JSON values."""
        return {
            "calibrator": self._fingerprint,
            "window": self.window,
            "false_alert_rate": self.false_alert_rate,
            **self._state.to_dict(),
        }

    def restored(self, document: dict[str, Any], path: str | Path = "the state") -> Self:
        """Return a monitor with these options and the state that `to_dict` returned.

        A different false-alert rate starts the drift test anew.
        """
        other = self.new()
        other._held = self._empty().restored(document, self._fingerprint, path)
        if document["window"] != self.window:
            raise InputError(
                f"window must be {document['window']} as in {path}, got {self.window}.", "window"
            )
        if document["false_alert_rate"] != self.false_alert_rate:
            drift = self._test.start()
            drift.n_samples = other._held.drift.n_samples
            other._held.drift = drift
        return other

    def merged(self, other: "Monitor") -> Self:
        """Return a monitor of the samples of two streams, such as two replicas of a server.

        Windows, labels and evidence are put together. The window is that of both until its buckets
        are replaced.
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
        k = self.calibrator.n_classes_
        has_window = isinstance(self.calibrator, WindowCalibrator)
        return MonitorState(
            sums=np.zeros((N_BUCKETS, 4)),
            histogram=np.zeros((N_BUCKETS, N_BINS)),
            classes=np.zeros((N_BUCKETS, 2, k)) if has_window else None,
            drift=self._test.start(),
            labels=DelayedLabels(),
        )

    @property
    def _state(self) -> MonitorState:
        """The state, with the samples that wait for their block."""
        if self._waiting:
            self._take_waiting()
        return self._held

    def _take_waiting(self) -> tuple[int, ...]:
        """Take the samples of several calls into the state; it takes as long as for one."""
        x, calibrated = (np.concatenate(column) for column in zip(*self._waiting, strict=True))
        self._waiting = []
        parts = self._buckets(len(x))
        return self._take(x, calibrated, parts, [], [0.0] * len(parts))

    def _take(
        self,
        x: NDArray[Any],
        calibrated: NDArray[Any],
        parts: list[tuple[int, slice]],
        windows: list[WindowStatistics],
        totals: list[float],
    ) -> tuple[int, ...]:
        """Add samples to their buckets and test them; return where alerts begin."""
        kind, state = self.calibrator.input_, self._held
        logits = x.astype(np.float64)
        if kind not in ("logits", "log_proba"):
            logits = np.asarray(to_logits(np, logits, kind, self.calibrator.eps_))
        logits = unmask(logits)
        confidence = uncalibrated_confidence(logits, kind)
        bins = confidence_bins(confidence)
        above = confidence >= self._profile.atc_threshold
        for i, (number, part) in enumerate(parts):
            slot = number % N_BUCKETS
            if number > state.bucket:
                state.clear(slot)
                state.bucket = number
            n_above, total = np.count_nonzero(above[part]), calibrated[part].sum(dtype=np.float64)
            state.sums[slot] += (len(above[part]), n_above, total, totals[i])
            state.histogram[slot] += np.bincount(bins[part], minlength=N_BINS)
            if state.classes is not None:
                state.classes[slot] += windows[i].counts, windows[i].confidence_sums
        alerts = self._test.update(state.drift, bins, logits.argmax(axis=1), self.window)
        if alerts:
            state.labels.restart_test()
        return tuple(alerts)

    def _parts(self, n: int) -> list[tuple[int, slice]]:
        """Return `_buckets`; nothing if the samples can wait for a whole block."""
        needed = self.estimator is not None or self._held.classes is not None
        if not needed and n < BLOCK:
            return []
        if self._waiting:  # too few for a block, so no alert begins
            self._take_waiting()
        return self._buckets(n)

    def _buckets(self, n: int) -> list[tuple[int, slice]]:
        """Return number and samples of the buckets that n samples fall into, the last 20."""
        state = self._held
        free = self._bucket - round(float(state.sums[state.bucket % N_BUCKETS, _N]))
        first = state.bucket if free > 0 else state.bucket + 1
        stop = min(n, free if free > 0 else self._bucket)
        found = [(first, slice(0, stop))]
        for start in range(stop, n, self._bucket):
            found.append((found[-1][0] + 1, slice(start, min(start + self._bucket, n))))
        return found[-N_BUCKETS:]

    def _statistics(
        self, x: NDArray[Any], parts: list[tuple[int, slice]], knn_distances: Any
    ) -> tuple[list[WindowStatistics], list[float]]:
        """Return the statistics of each bucket for adaptation, and for the accuracy estimator."""
        windows, totals = [], [0.0] * len(parts)
        for i, (_, part) in enumerate(parts):
            if isinstance(self.calibrator, WindowCalibrator):
                near = None if knn_distances is None else knn_distances[part]
                windows.append(self.calibrator.window_statistics(x[part], knn_distances=near))
            if self.estimator is not None:
                totals[i] = self.estimator.statistics(x[part]).total
        return windows, totals

    def _proba(
        self, calibrator: Calibrator, X: Any, x: NDArray[Any], knn_distances: Any
    ) -> NDArray[Any]:
        """Return `calibrator.predict_proba(X)`; for few samples in half of its time."""
        if len(x) >= _FEW or calibrator is not self.calibrator or calibrator.requires:
            return np.asarray(calibrator.predict_proba(X, knn_distances=knn_distances))
        if not isinstance(X, np.ndarray):
            check_column_names(X, calibrator.feature_names_in_)
        if x.dtype not in self._converted:
            self._converted[x.dtype] = calibrator.converted(np_compat, x)
        return np.asarray(self._converted[x.dtype].probabilities(np_compat, x))

    def _adapted(
        self, windows: list[WindowStatistics], parts: list[tuple[int, slice]]
    ) -> Calibrator:
        """Return the calibrator for the window with these buckets added."""
        classes = self._held.classes
        if classes is None or not isinstance(self.calibrator, WindowCalibrator):
            return self.calibrator
        replaced = [number % N_BUCKETS for number, _ in parts if number > self._held.bucket]
        kept = np.delete(classes, replaced, axis=0).sum(axis=0)
        return self.calibrator.adapt(sum(windows, WindowStatistics(kept[0], kept[1])))

    def _encode(self, label: Any) -> int | None:
        """Return a label as a class index, None if it is unknown."""
        if label is None:
            return None
        k, names = self.calibrator.n_classes_, self.calibrator.class_names_
        if isinstance(label, str) and names is not None:
            return int(ClassNames(names).encode([label])[0])
        whole = isinstance(label, int | np.integer | np.bool_) and 0 <= int(label) < k
        if not whole or (isinstance(label, bool) and self.calibrator.input_ != "confidence"):
            also = "" if names is None else ", class names"
            raise InputError(
                f"y must be class indices from 0 to {k - 1}{also} or None, got {label!r:.40}.", "y"
            )
        return int(label)

    def _is_right(self, predicted: int, label: int) -> bool:
        return label == 1 if self.calibrator.input_ == "confidence" else label == predicted

    def _accuracy_at_calibration(self) -> float:
        if self.estimator is not None:
            return self.estimator.source_accuracy_
        return self._profile.accuracy

    def _message(
        self, estimate: AccuracyEstimate | None, since: int | None, labels: dict[str, Any]
    ) -> str:
        if estimate is None:
            return "no samples yet"
        if estimate.n_samples < _MIN_ESTIMATE:
            drift = "" if since is None else f", drift since sample {since:,}"
            n = "1 sample" if estimate.n_samples == 1 else f"{estimate.n_samples} samples"
            return f"{n}, too few to estimate accuracy{drift}"
        low, value, high = (f"{100 * v:.0f}" for v in (estimate.low, estimate.value, estimate.high))
        baseline = self._accuracy_at_calibration()
        points = round(100 * (baseline - estimate.value))
        if points == 0 or (since is None and estimate.low <= baseline <= estimate.high):
            place = "as at calibration time"
        else:
            side = "below" if points > 0 else "above"
            place = f"{abs(points)} point{'s' * (abs(points) > 1)} {side} calibration time"
        text = f"accuracy {value} % ({low} to {high}), {place}"
        if since is not None:
            text += f", drift since sample {since:,}"
        if labels:
            sure = {
                "calibrated": "confidence still calibrated",
                "not calibrated": "confidence no longer calibrated: fit again",
                "too few labels": "too few labels to test confidence",
            }
            text += f"; {sure[labels['calibration']]}"
        return text
