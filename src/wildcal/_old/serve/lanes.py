"""All streams of a server: made when first seen, the least recently used go to disk."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wildcal._old.core.errors import FileFormatError
from wildcal._old.serve.lane import Lane
from wildcal._old.serve.limits import Limits
from wildcal._old.serve.model import Model
from wildcal._old.serve.refusal import Refusal
from wildcal._old.serve.saved import Saved
from wildcal._old.stream import Stream

LOG = logging.getLogger("wildcal._old.serve")


@dataclass(frozen=True, slots=True)
class Windows:
    """How windows are made."""

    window: int = 256
    false_alarms: float = 0.01
    alarm: str = "sequential"
    false_alarms_per_100k: float = 1.0

    def new(self, model: Model) -> Stream | None:
        """Return an empty window, where the model reads one."""
        if model.window_map is None:
            return None
        return Stream(model.window_map, self.window, **self._decisions())

    def load(self, model: Model, path: Path) -> Stream | None:
        """Return the window in a file, decided upon as new ones are."""
        if model.window_map is None:
            return None
        return Stream.load(path, model.window_map, **self._decisions())

    def _decisions(self) -> dict[str, Any]:
        return {
            "false_alarms": self.false_alarms,
            "alarm": self.alarm,
            "false_alarms_per_100k": self.false_alarms_per_100k,
        }


class Lanes:
    """The streams of all models, by model and name.

    Parameters
    ----------
    windows
        How windows are made.
    limits
        How many there may be.
    saved
        Where those go that are not in memory; without it they begin anew.
    """

    def __init__(self, windows: Windows, limits: Limits, saved: Saved | None = None) -> None:
        self.windows, self.limits, self.saved = windows, limits, saved
        self._live: OrderedDict[tuple[str, str], Lane] = OrderedDict()
        self._opening = asyncio.Lock()

    def all(self) -> list[Lane]:
        """Return the streams in memory, the least recently used first."""
        return list(self._live.values())

    def find(self, model: str, name: str) -> Lane | None:
        """Return a stream that is in memory."""
        return self._live.get((model, name))

    def idle(self, model: Model, name: str) -> Lane | None:
        """Return a stream that is in memory and nobody reads; it is ours until the next await."""
        lane = self._live.get((model.name, name))
        if lane is None or lane.turn.locked():
            return None
        self._live.move_to_end((model.name, name))
        return lane

    @asynccontextmanager
    async def turn(self, model: Model, name: str) -> AsyncIterator[Lane]:
        """Yield a stream while nobody else reads rows into it."""
        while True:
            lane = self._live.get((model.name, name)) or await self._open(model, name)
            async with lane.turn:
                if lane.closed:  # it went to disk while we waited
                    continue
                self._live.move_to_end((model.name, name))
                yield lane
                return

    async def _open(self, model: Model, name: str) -> Lane:
        async with self._opening:
            key = (model.name, name)
            if key in self._live:
                return self._live[key]
            lane = await asyncio.to_thread(self._load, model, name)
            self._live[key] = lane
            while len(self._live) > self.limits.streams:
                await self._close(next(iter(self._live.values())))
            return lane

    def _load(self, model: Model, name: str) -> Lane:
        if self.saved is None:
            return Lane(model.name, name, self.windows.new(model))
        try:
            found = self.saved.load(model, name, self.windows.load)
        except FileFormatError as error:
            LOG.warning("stream %r of %s begins anew: %s", name, model.name, error)
            self.saved.set_aside(model.name, name)
            found = None
        if found is None:
            if self.saved.count() >= self.limits.saved_streams:
                raise Refusal(429, f"there are {self.limits.saved_streams:,} streams already.")
            return Lane(model.name, name, self.windows.new(model))
        LOG.info("stream %r of %s goes on after row %s.", name, model.name, f"{found.rows:,}")
        return found

    async def _close(self, lane: Lane) -> None:
        """Let a stream go to disk, when its turn ends."""
        async with lane.turn:
            await self.save(lane)
            lane.closed = True
            del self._live[lane.model, lane.name]

    async def save(self, lane: Lane) -> None:
        """Write a stream to disk, if there is anything new."""
        if self.saved is None or not lane.unsaved:
            return
        async with lane.writing:
            unsaved = lane.unsaved
            await asyncio.to_thread(self.saved.save, lane)
            lane.unsaved -= unsaved

    async def save_all(self) -> None:
        """Write all streams to disk that have anything new."""
        for lane in self.all():
            await self.save(lane)

    async def reopen(self, models: dict[str, Model]) -> None:
        """Read the streams that were used last, so that they are seen before they are asked."""
        if self.saved is None:
            return
        for model, name in await asyncio.to_thread(self.saved.latest, self.limits.streams):
            if model in models:
                await self._open(models[model], name)
