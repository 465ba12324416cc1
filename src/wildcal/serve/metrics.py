"""What Prometheus reads at `/metrics`; the number of its series is bounded."""

from collections.abc import Iterator
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from wildcal.monitor.alerts import GAUGES, gauges
from wildcal.serve.streams import Streams

# Streams that have series of their own.
MAX_SERIES: Final = 100
_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


class Metrics:
    """The counters of a server, and gauges that are read from its streams when asked."""

    def __init__(self, streams: Streams) -> None:
        self.registry = CollectorRegistry()
        own: dict[str, Any] = {"registry": self.registry}
        by_model = {"labelnames": ["model"], **own}
        self.samples = Counter("wildcal_samples_total", "Samples calibrated.", **by_model)
        self.alerts = Counter("wildcal_alerts_total", "Drift alerts that began.", **by_model)
        self.requests = Counter(
            "wildcal_requests_total", "Requests to infer.", labelnames=["model", "status"], **own
        )
        self.seconds = Histogram(
            "wildcal_request_duration_seconds",
            "Duration of requests to infer, after their head was read.",
            buckets=_SECONDS,
            **by_model,
        )
        self.notification_failures = Counter(
            "wildcal_notification_failures_total", "Alerts that could not be sent.", **own
        )
        self.task_failures = Counter(
            "wildcal_task_failures_total", "Background tasks that failed.", **own
        )
        self.registry.register(_Gauges(streams))

    def text(self) -> bytes:
        """Return all of it in the text format of Prometheus."""
        return generate_latest(self.registry)


class _Gauges(Collector):
    """Gauges of the streams. Alerting streams come first; removed ones make room for others."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._shown: set[tuple[str, str]] = set()

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges at this moment."""
        live = {(each.model, each.name): each.monitor.status() for each in self._streams.all()}
        order = sorted(live, key=lambda key: (not live[key].drift_alert, key not in self._shown))
        self._shown = set(order[:MAX_SERIES])
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
        shown = [(list(key), gauges(live[key])) for key in sorted(self._shown)]
        for name, (_, text) in GAUGES.items():
            family = GaugeMetricFamily(name, text, labels=["model", "stream"])
            for labels, values in shown:
                value = values[name]
                if value is not None:
                    family.add_metric(labels, value)
            yield family

    def describe(self) -> Iterator[Metric]:
        """Yield nothing, so that registering does not read the streams."""
        yield from ()
