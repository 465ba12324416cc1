"""Prometheus metrics; the number of series is bounded."""

from collections.abc import Iterator
from functools import cache, partial
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from wildcal.serve.streams import Streams

# Largest number of streams with series.
MAX_SERIES: Final = 100
_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
# Gauges of a stream: the field of its status, and the help text.
_GAUGES: Final = {
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


class Metrics(Collector):
    """Counters of a server, and gauges of its streams."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self.registry = CollectorRegistry()
        counter = partial(Counter, registry=self.registry)
        samples = counter("wildcal_samples_total", "Samples calibrated.", ["model"])
        requests = counter("wildcal_requests_total", "Requests to infer.", ["model", "status"])
        seconds = Histogram(
            "wildcal_request_duration_seconds",
            "Duration of requests to infer, after their head was read.",
            ["model"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        # Looking up a series takes longer than counting.
        self.samples, self.requests = cache(samples.labels), cache(requests.labels)
        self.seconds = cache(seconds.labels)
        self.alerts = counter("wildcal_alerts_total", "Drift alerts that began.", ["model"])
        self.notification_failures = counter(
            "wildcal_notification_failures_total", "Alerts that could not be sent."
        )
        self.task_failures = counter("wildcal_task_failures_total", "Background tasks that failed.")
        self.registry.register(self)

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self.registry)

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges of at most 100 streams: alerting ones first, then others by name."""
        live = {(each.model, each.name): each.monitor.status() for each in self._streams.all()}
        order = sorted(live, key=lambda key: (not live[key].drift_alert, key))
        yield GaugeMetricFamily("wildcal_streams", "Streams in memory.", value=len(live))
        alerting = GaugeMetricFamily(
            "wildcal_streams_alerting", "Streams with a drift alert.", labels=["model"]
        )
        for model in sorted({key[0] for key in live}):
            n = sum(status.drift_alert for key, status in live.items() if key[0] == model)
            alerting.add_metric([model], n)
        yield alerting
        yield CounterMetricFamily(
            "wildcal_save_failures", "Streams not saved.", value=self._streams.save_failures
        )
        shown = {key: live[key].to_dict() for key in sorted(order[:MAX_SERIES])}
        for numbers in shown.values():
            result = numbers["calibration"]
            numbers["not_calibrated"] = None if result is None else result == "not calibrated"
        for name, (number, text) in _GAUGES.items():
            family = GaugeMetricFamily(name, text, labels=["model", "stream"])
            for key, numbers in shown.items():
                if numbers[number] is not None:
                    family.add_metric(list(key), float(numbers[number]))
            yield family
