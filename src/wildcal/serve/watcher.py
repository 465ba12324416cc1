"""What happens beside an answer: counting, saving, and raising the alarm."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from wildcal.serve.lane import Lane
from wildcal.serve.lanes import Lanes
from wildcal.serve.messages import Request
from wildcal.serve.metrics import Metrics
from wildcal.serve.model import Answer
from wildcal.serve.replies import status_of


class Watcher:
    """Sees every request of a server.

    Parameters
    ----------
    metrics
        Where it counts.
    lanes
        The streams, to be saved.
    save_rows
        How many rows of a stream may be unsaved when they are answered; None for any.
    """

    def __init__(self, metrics: Metrics, lanes: Lanes, save_rows: int | None = None) -> None:
        self.metrics, self._lanes, self._save_rows = metrics, lanes, save_rows

    @contextmanager
    def request(self, model: str) -> Iterator[None]:
        """Count a request, and how long it took."""
        start, status = time.perf_counter(), 200
        try:
            yield
        except Exception as error:
            status = status_of(error)
            raise
        finally:
            self.metrics.request(model, status, time.perf_counter() - start)

    async def answered(self, lane: Lane, request: Request, answer: Answer) -> None:
        """Take note of rows that are about to be answered."""
        event = lane.note(answer.confidence, answer.rows)
        self.metrics.rows(lane.model, len(answer.label))
        if event is not None:
            self.metrics.alarm(lane.model)
        if self._save_rows is not None and lane.unsaved >= self._save_rows:
            await self._lanes.save(lane)
