"""What a monitor returns: `MonitorResult` for samples, `MonitorStatus` for a stream."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class MonitorResult:
    """What `Monitor.update` returns for its samples."""

    probabilities: NDArray[Any]
    """Calibrated probabilities; with `input="confidence"` calibrated confidences."""
    confidence: NDArray[Any]
    predicted: NDArray[np.int64]
    alerts: tuple[int, ...] = ()
    """Numbers of the samples of the stream, from 1, at which a drift alert began."""


@dataclass(frozen=True)
class MonitorStatus:
    """The state of a stream in plain numbers, and in one sentence."""

    message: str
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
    """Evidence for drift; an alert begins at `log_limit`."""
    log_limit: float
    n_labels: int = 0
    realized_accuracy: float | None = None
    """Accuracy of the last labels, at most 1,000."""
    ece: float | None = None
    noise_floor: float | None = None
    """ECE that a perfectly calibrated model has on as many samples."""
    gap_low: float | None = None
    """Mean confidence minus accuracy of the labels since the last alert began: 99 % interval."""
    gap_high: float | None = None
    calibration: str | None = None
    """"calibrated", "not calibrated" or "too few labels"; None without labels."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)
