"""What happens beside an answer: counting, saving, and raising the alarm."""

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from wildcal.serve.lane import Lane
from wildcal.serve.lanes import Lanes
from wildcal.serve.memory import Memory
from wildcal.serve.messages import Request
from wildcal.serve.metrics import Metrics
from wildcal.serve.model import Answer
from wildcal.serve.replies import status_of
from wildcal.stream.hook import Hook

LOG = logging.getLogger("wildcal.serve")
_MOST_AT_ONCE: Final = 32


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
    hook
        Who is told of alarms.
    memory
        The answers whose labels may come later.
    """

    def __init__(
        self,
        metrics: Metrics,
        lanes: Lanes,
        save_rows: int | None,
        hook: Hook | None,
        memory: Memory,
    ) -> None:
        self.memory = memory
        self.metrics, self._lanes, self._save_rows, self._hook = metrics, lanes, save_rows, hook
        self._telling: set[asyncio.Task[None]] = set()

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

    def answered(self, lane: Lane, request: Request, answer: Answer) -> None:
        """Take note of rows that are about to be answered, and then `save` them."""
        self.memory.keep(lane, request, answer)
        event = lane.note(answer.confidence, answer.rows)
        self.metrics.rows(lane.model, len(answer.label))
        if event is not None:
            self._alarm(event)

    async def save(self, lane: Lane) -> None:
        """Save a stream if it is time, before its rows are answered."""
        if self._save_rows is not None and lane.unsaved >= self._save_rows:
            await self._lanes.save(lane)

    def _alarm(self, event: dict[str, Any]) -> None:
        self.metrics.alarm(event["model"])
        LOG.warning("alarm in stream %(stream)r of %(model)s at row %(row)d", event)
        if self._hook is None:
            return
        if len(self._telling) >= _MOST_AT_ONCE:
            LOG.error("too many alarms at once: %s is not told of all", self._hook.target)
            return
        task = asyncio.create_task(self._tell(self._hook, event))
        self._telling.add(task)  # or it might be collected before it is done
        task.add_done_callback(self._telling.discard)

    async def _tell(self, hook: Hook, event: dict[str, Any]) -> None:
        try:
            await asyncio.to_thread(hook.tell, event)
        except (OSError, ValueError) as error:  # the service goes on
            LOG.error("%s could not be told of an alarm: %s", hook.target, error)
