"""What Prometheus reads at `/metrics`; the number of its series is bounded."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from wildcal.serve.lane import Lane
from wildcal.stream.gauges import GAUGES

_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
STREAM_GAUGES: Final = {
    **GAUGES,
    "labels": "Rows whose labels came later.",
    "accuracy": "True accuracy of the last rows with labels.",
    "ece": "Expected calibration error of the last rows with labels.",
    "refit": "1 where labels say that the calibrator should be fitted anew.",
}


class Metrics:
    """The counters of a server, and gauges that are read off its streams when asked."""

    def __init__(self, lanes: Callable[[], Iterable[Lane]], most_streams: int = 100) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "wildcal_requests", "Requests.", ["model", "status"], registry=self.registry
        )
        self._rows = Counter("wildcal_rows", "Rows calibrated.", ["model"], registry=self.registry)
        self._alarms = Counter("wildcal_alarms", "Alarms.", ["model"], registry=self.registry)
        self._seconds = Histogram(
            "wildcal_request_seconds",
            "From the head of a request to its answer.",
            ["model"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._known: dict[tuple[str, ...], Any] = {}
        self.registry.register(_Streams(lanes, most_streams))

    def request(self, model: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        self._of(self._requests, model, str(status)).inc()
        self._of(self._seconds, model).observe(seconds)

    def rows(self, model: str, n: int) -> None:
        """Count rows."""
        self._of(self._rows, model).inc(n)

    def alarm(self, model: str) -> None:
        """Count an alarm."""
        self._of(self._alarms, model).inc()

    def text(self) -> bytes:
        """Return all of it as Prometheus reads it."""
        return generate_latest(self.registry)

    def _of(self, metric: Any, *labels: str) -> Any:
        key = (metric._name, *labels)
        if key not in self._known:
            self._known[key] = metric.labels(*labels)
        return self._known[key]


class _Streams(Collector):
    """Gauges of each stream; once there are too many, later ones have none of their own."""

    def __init__(self, lanes: Callable[[], Iterable[Lane]], most: int) -> None:
        self._lanes, self._most = lanes, most
        self._shown: set[tuple[str, str]] = set()

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges at this moment."""
        lanes = list(self._lanes())
        yield GaugeMetricFamily("wildcal_streams", "Streams in memory.", value=len(lanes))
        said = [(lane.model, lane.name, lane.now()) for lane in lanes if self._is_shown(lane)]
        for name, words in STREAM_GAUGES.items():
            family = GaugeMetricFamily(f"wildcal_stream_{name}", words, labels=["model", "stream"])
            for model, stream, now in said:
                if now.get(name) is not None:
                    family.add_metric([model, stream], float(now[name]))
            yield family

    def describe(self) -> Iterator[Metric]:
        """Yield nothing: names are not looked up when this is registered."""
        yield from ()

    def _is_shown(self, lane: Lane) -> bool:
        key = (lane.model, lane.name)
        if key not in self._shown and len(self._shown) < self._most:
            self._shown.add(key)
        return key in self._shown
