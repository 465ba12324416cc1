"""What happens beside an answer: counting, saving, and raising the alarm."""

import asyncio
import logging
from typing import Any, Final

from wildcal._old.serve.lane import Lane
from wildcal._old.serve.memory import Memory
from wildcal._old.serve.messages import Request
from wildcal._old.serve.metrics import Metrics
from wildcal._old.serve.model import Answer
from wildcal._old.stream.hook import Hook

LOG = logging.getLogger("wildcal._old.serve")
_MOST_AT_ONCE: Final = 32


class Watcher:
    """Sees every request of a server.

    Parameters
    ----------
    metrics
        Where it counts.
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
        save_rows: int | None,
        hook: Hook | None,
        memory: Memory,
    ) -> None:
        self.memory = memory
        self.metrics, self._save_rows, self._hook = metrics, save_rows, hook
        self._telling: set[asyncio.Task[None]] = set()

    def answered(self, lane: Lane, request: Request, answer: Answer) -> None:
        """Take note of rows that are about to be answered."""
        self.memory.keep(lane, request, answer)
        event = lane.note(answer.confidence, answer.rows)
        self.metrics.of(lane.model).rows += len(answer.label)
        if event is not None:
            self._alarm(event)

    def is_time_to_save(self, lane: Lane) -> bool:
        """Return whether a stream must be saved before its rows are answered."""
        return self._save_rows is not None and lane.unsaved >= self._save_rows

    def _alarm(self, event: dict[str, Any]) -> None:
        self.metrics.of(event["model"]).alarms += 1
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
