"""What Prometheus reads at `/metrics`; the number of its series is bounded."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from wildcal._old.serve.lane import Lane
from wildcal._old.stream.gauges import GAUGES

_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
_LIMITS: Final = (*map(str, _SECONDS), "+Inf")
STREAM_GAUGES: Final = {
    **GAUGES,
    "labels": "Rows whose labels came later.",
    "accuracy": "True accuracy of the last rows with labels.",
    "ece": "Expected calibration error of the last rows with labels.",
    "noise_floor": "That error of a perfectly calibrated model on as many rows.",
    "refit": "1 where labels say that the calibrator should be fitted anew.",
}


class Counts:
    """What is counted of one model: plain numbers, because one thread counts and reads them."""

    def __init__(self) -> None:
        self.rows = self.alarms = 0
        self.statuses: dict[int, int] = {}
        self.seconds = 0.0
        self.within = [0] * (len(_SECONDS) + 1)
        """Requests by how long they took; the last are those beyond all limits."""

    def request(self, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        self.statuses[status] = self.statuses.get(status, 0) + 1
        self.seconds += seconds
        self.within[bisect_left(_SECONDS, seconds)] += 1


class Metrics:
    """The counters of a server, and gauges that are read off its streams when asked."""

    def __init__(self, lanes: Callable[[], Iterable[Lane]], most_streams: int = 100) -> None:
        self.registry = CollectorRegistry()
        self._counts: dict[str, Counts] = {}
        self.registry.register(_Requests(self._counts))
        self.registry.register(_Streams(lanes, most_streams))

    def of(self, model: str) -> Counts:
        """Return what is counted of a model."""
        found = self._counts.get(model)
        if found is None:
            found = self._counts[model] = Counts()
        return found

    def text(self) -> bytes:
        """Return all of it as Prometheus reads it."""
        return generate_latest(self.registry)


class _Requests(Collector):
    """Counters of each model."""

    def __init__(self, counts: dict[str, Counts]) -> None:
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        """Yield the counters at this moment."""
        requests = CounterMetricFamily("wildcal_requests", "Requests.", labels=["model", "status"])
        rows = CounterMetricFamily("wildcal_rows", "Rows calibrated.", labels=["model"])
        alarms = CounterMetricFamily("wildcal_alarms", "Alarms.", labels=["model"])
        seconds = HistogramMetricFamily(
            "wildcal_request_seconds", "From the head of a request to its answer.", labels=["model"]
        )
        for model, counts in self._counts.items():
            for status, count in counts.statuses.items():
                requests.add_metric([model, str(status)], count)
            rows.add_metric([model], counts.rows)
            alarms.add_metric([model], counts.alarms)
            upto = accumulate(counts.within)
            buckets = list(zip(_LIMITS, map(float, upto), strict=True))
            seconds.add_metric([model], buckets, counts.seconds)
        yield from (requests, rows, alarms, seconds)


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
