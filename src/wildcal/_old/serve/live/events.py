"""Server-sent events: what all streams look like, and then what changes, once a second."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any, Final

from starlette.types import Receive, Scope, Send

from wildcal._old.serve.lane import Lane
from wildcal._old.serve.lanes import Lanes
from wildcal._old.serve.replies import refuse

SECONDS: Final = 1.0
_MOST_STREAMS: Final = 200
_MOST_READERS: Final = 50
_POINT: Final = (
    "rows",
    "confidence",
    "estimated_accuracy",
    "estimated_accuracy_low",
    "estimated_accuracy_high",
    "drift",
    "threshold",
    "alarm",
    "accuracy",
)


class Events:
    """Keeps the past of each stream, and tells readers of the page what is new."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._readers: set[asyncio.Queue[bytes]] = set()
        self._seen: dict[tuple[str, str], tuple[int, int]] = {}
        self._closing = False

    async def keep_looking(self) -> None:
        """Look at the streams again and again, until cancelled."""
        while True:
            await asyncio.sleep(SECONDS)
            self.look()

    def close(self) -> None:
        """Let all readers go, because the server stops."""
        self._closing = True
        for reader in self._readers:
            if not reader.full():
                reader.put_nowait(b"")  # only to wake it

    def look(self) -> None:
        """Note a point of each stream that has new rows, and tell the readers."""
        changed = []
        shown = self._lanes.all()[-_MOST_STREAMS:]
        before, self._seen = self._seen, {}
        for lane in shown:
            key, now = (lane.model, lane.name), (lane.rows, lane.labels.n)
            self._seen[key] = now
            if before.get(key) != now:
                lane.points.append(_point(lane))
                changed.append(_describe(lane, [lane.points[-1]]))
        if changed and self._readers:
            message = _event({"streams": changed})
            for reader in self._readers:
                if not reader.full():  # who is slow misses a point
                    reader.put_nowait(message)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the reader leaves."""
        if len(self._readers) >= _MOST_READERS:
            await refuse(send, 429, f"{_MOST_READERS} pages are open already.")
            return
        headers = [
            (b"content-type", b"text/event-stream"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        leaving = asyncio.ensure_future(_left(receive))
        try:
            async for message in self._messages(leaving):
                await send({"type": "http.response.body", "body": message, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            leaving.cancel()

    async def _messages(self, leaving: "asyncio.Future[None]") -> AsyncIterator[bytes]:
        mine: asyncio.Queue[bytes] = asyncio.Queue(maxsize=20)
        self._readers.add(mine)
        try:
            shown = self._lanes.all()[-_MOST_STREAMS:]
            past = [_describe(lane, list(lane.points) or [_point(lane)]) for lane in shown]
            yield _event({"streams": past, "all": True})
            while not leaving.done() and not self._closing:
                waiting = asyncio.ensure_future(mine.get())
                both: tuple[asyncio.Future[Any], ...] = (waiting, leaving)
                await asyncio.wait(both, timeout=15, return_when=asyncio.FIRST_COMPLETED)
                if waiting.done():
                    if message := waiting.result():
                        yield message
                else:
                    waiting.cancel()
                    yield b": still here\n\n"
            if self._closing:
                yield b": goodbye\n\n"
        finally:
            self._readers.discard(mine)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _event(document: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(document, allow_nan=False).encode() + b"\n\n"


def _point(lane: Lane) -> dict[str, Any]:
    now = lane.now()
    return {"time": time.time(), **{name: now[name] for name in _POINT if name in now}}


def _describe(lane: Lane, points: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        **lane.now(),
        "histogram": lane.recent.histogram.tolist(),
        "alarms": [{"row": event["row"], "time": event["time"]} for event in lane.alarms],
        "points": points,
    }
