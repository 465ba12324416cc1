"""Results of a monitor: `MonitorResult` for samples, `MonitorStatus` for a stream."""

from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

# With fewer samples the message has no accuracy.
_MIN_ESTIMATE: Final = 20
_CALIBRATION: Final = {
    None: "",
    "calibrated": "; confidence still calibrated",
    "not calibrated": "; confidence no longer calibrated: fit again",
    "too few labels": "; too few labels to test confidence",
}


@dataclass(frozen=True)
class MonitorResult:
    """Result of `Monitor.update`."""

    probabilities: NDArray[Any]
    """Calibrated probabilities; with `input="confidence"` calibrated confidences."""
    confidence: NDArray[Any]
    predicted: NDArray[np.int64]
    alerts: tuple[int, ...] = ()
    """Numbers of the samples of the stream, from 1, at which a drift alert began."""


@dataclass(frozen=True)
class MonitorStatus:
    """Status of a stream: numbers, and a message of one sentence."""

    n_samples: int
    """Samples of the stream."""
    n_window: int
    """Samples in the window."""
    confidence: float | None
    """Mean calibrated confidence of the window."""
    estimated_accuracy: float | None
    estimated_accuracy_low: float | None
    estimated_accuracy_high: float | None
    accuracy_at_calibration: float
    drift_alert: bool
    alert_since: int | None
    """The sample at which the alert began."""
    n_alerts: int
    log_e_value: float
    """Logarithm of the e-value of the drift test; an alert begins at `log_limit`."""
    log_limit: float
    n_labels: int = 0
    realized_accuracy: float | None = None
    """Accuracy of the last labels, at most 1,000."""
    ece: float | None = None
    noise_floor: float | None = None
    """ECE that a perfectly calibrated model has on as many samples."""
    calibration: str | None = None
    """"calibrated", "not calibrated" or "too few labels"; None without labels."""

    @property
    def message(self) -> str:
        """The status in one sentence."""
        drift = f", drift since sample {self.alert_since:,}" if self.drift_alert else ""
        value, baseline = self.estimated_accuracy, self.accuracy_at_calibration
        low, high = self.estimated_accuracy_low, self.estimated_accuracy_high
        if value is None or low is None or high is None:
            return "no samples yet"
        if self.n_window < _MIN_ESTIMATE:
            return f"fewer than {_MIN_ESTIMATE} samples, too few to estimate accuracy{drift}"
        points = round(100 * (baseline - value))
        if points == 0 or (not self.drift_alert and low <= baseline <= high):
            place = "as at calibration time"
        else:
            side = "below" if points > 0 else "above"
            place = f"{abs(points)} point{'s' * (abs(points) > 1)} {side} calibration time"
        estimate = f"estimated accuracy {100 * value:.0f} % ({100 * low:.0f} to {100 * high:.0f})"
        return f"{estimate}, {place}{drift}{_CALIBRATION[self.calibration]}"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, and the message."""
        return {"message": self.message, **asdict(self)}
