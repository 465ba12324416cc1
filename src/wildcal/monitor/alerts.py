"""Tell a command, a web address or Prometheus what a monitor found."""

import json
import subprocess
import urllib.request
from collections.abc import Mapping
from typing import Any, Final

from wildcal.monitor.monitor import MonitorStatus

_SECONDS: Final = 10.0

GAUGES: Final = {
    "wildcal_stream_samples": ("n_samples", "Samples of the stream."),
    "wildcal_window_samples": ("n_window", "Samples in the window."),
    "wildcal_mean_confidence": ("confidence", "Mean calibrated confidence of the window."),
    "wildcal_estimated_accuracy": ("estimated_accuracy", "Accuracy of the window, estimated."),
    "wildcal_estimated_accuracy_low": ("estimated_accuracy_low", "Lower end of its interval."),
    "wildcal_estimated_accuracy_high": ("estimated_accuracy_high", "Upper end of its interval."),
    "wildcal_accuracy_at_calibration": ("accuracy_at_calibration", "Accuracy at calibration time."),
    "wildcal_drift_alert": ("drift_alert", "1 while there is a drift alert."),
    "wildcal_drift_log_e_value": ("log_e_value", "Evidence for drift."),
    "wildcal_drift_log_limit": ("log_limit", "Evidence at which an alert begins."),
    "wildcal_labels": ("n_labels", "Samples whose labels arrived."),
    "wildcal_realized_accuracy": ("realized_accuracy", "Accuracy of the last labels."),
    "wildcal_calibration_error": ("ece", "Expected calibration error of the last labels."),
    "wildcal_calibration_error_noise_floor": ("noise_floor", "That of a calibrated model."),
    "wildcal_not_calibrated": ("not_calibrated", "1 if labels contradict the confidence."),
}
"""Gauges of Prometheus: the number in `gauges`, and what it is."""


def gauges(status: MonitorStatus) -> dict[str, float | None]:
    """Return the numbers of a status by the name of their gauge."""
    numbers = status.to_dict()
    result = status.calibration
    numbers["not_calibrated"] = None if result is None else result == "not calibrated"
    found = {name: numbers[key] for name, (key, _) in GAUGES.items()}
    return {name: None if value is None else float(value) for name, value in found.items()}


def textfile(status: MonitorStatus) -> str:
    """Return the gauges for the textfile collector of the node exporter of Prometheus."""
    lines = []
    for name, value in gauges(status).items():
        if value is not None:
            lines += [
                f"# HELP {name} {GAUGES[name][1]}",
                f"# TYPE {name} gauge",
                f"{name} {value!r}",
            ]
    return "".join(line + "\n" for line in lines)


def notify(target: str, event: Mapping[str, Any]) -> None:
    """Give an event as JSON to a command on its standard input, or post it to an http address.

    The command runs through the shell. Nothing of the event becomes part of it.

    Raises
    ------
    OSError
        If the command fails or takes more than ten seconds, or the address does not accept it.
    """
    text = json.dumps(dict(event)).encode()
    if target.startswith(("http://", "https://")):
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(target, text, headers)
        with urllib.request.urlopen(request, timeout=_SECONDS):
            return
    try:
        done = subprocess.run(
            target, shell=True, input=text, timeout=_SECONDS, stdout=subprocess.DEVNULL, check=False
        )
    except subprocess.TimeoutExpired:
        raise OSError(f"it ran for more than {_SECONDS:g} s") from None
    if done.returncode:
        raise OSError(f"it ended with exit code {done.returncode}")
