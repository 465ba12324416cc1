"""The streams of a server, each with a monitor, in memory and on disk."""

import asyncio
import logging
import os
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from starlette.exceptions import HTTPException

from wildcal.core.exceptions import FileFormatError
from wildcal.monitor.monitor import Monitor
from wildcal.monitor.result import MonitorStatus
from wildcal.monitor.state import read_state, stream_file, write_state
from wildcal.serve.model import Model
from wildcal.serve.settings import Settings

LOG: Final = logging.getLogger("wildcal.serve")
# Points in the history of a stream; every other one is dropped when there are more.
_N_POINTS: Final = 240
_POINT: Final = (
    "n_samples",
    "confidence",
    "estimated_accuracy",
    "estimated_accuracy_low",
    "estimated_accuracy_high",
    "log_e_value",
    "realized_accuracy",
)
_N_ALERTS: Final = 50
_LOCK: Final = "server.lock"

Key = tuple[str, str]


@dataclass(eq=False)
class Stream:
    """One stream of a model, such as a camera or a tenant."""

    model: str
    name: str
    monitor: Monitor
    points: list[dict[str, Any]] = field(default_factory=list)
    """The history for the page."""
    alerts: list[dict[str, Any]] = field(default_factory=list)
    """Time and sample at which alerts began, the newest at the end."""
    n_unsaved: int = 0
    seconds: float = 1.0
    """Least time between two points of the history; it doubles when they are thinned out."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a snapshot is written."""

    def note(self, n: int, alerts: Sequence[int] = ()) -> None:
        """Update the history after samples or labels were added."""
        self.n_unsaved += n
        now = time.time()
        self.alerts += [{"time": now, "sample": sample} for sample in alerts]
        del self.alerts[:-_N_ALERTS]
        if self.points and now - self.points[-1]["time"] < self.seconds and not alerts:
            return
        status = self.monitor.status()
        self.points.append(self.point(status, now))
        if alerts:  # the test restarted
            self.points[-1]["log_e_value"] = status.log_limit
        if len(self.points) > _N_POINTS:
            del self.points[-2::-2]
            self.seconds *= 2

    def point(self, status: MonitorStatus, now: float) -> dict[str, Any]:
        """Return a point of the history."""
        return {"time": now, **{name: getattr(status, name) for name in _POINT}}

    def to_dict(self) -> dict[str, Any]:
        """Return a snapshot, which does not change while it is written."""
        return {
            **self.monitor.to_dict(),
            "model": self.model,
            "stream": self.name,
            "points": list(self.points),
            "alerts": list(self.alerts),
            "seconds": self.seconds,
        }


class Streams:
    """All streams of a server; everything here runs on its event loop.

    Parameters
    ----------
    models
        By name.
    settings
        Limits, and the folder of the state. It belongs to one server at a time.
    """

    def __init__(self, models: dict[str, Model], settings: Settings) -> None:
        self._models, self._settings = models, settings
        self._live: OrderedDict[Key, Stream] = OrderedDict()
        # Stream and number of samples by model and id, the oldest first.
        self._pending: dict[Key, tuple[str, int]] = {}
        self._n_pending = self._n_saved = 0
        self.save_failures = 0
        if settings.state is not None:
            settings.state.mkdir(parents=True, exist_ok=True)
            self._lock = _lock(settings.state)
            self._reopen(settings.state)

    def all(self) -> list[Stream]:
        """Return the streams in memory, the least recently used first."""
        return list(self._live.values())

    def is_live(self, model: str, name: str) -> bool:
        """Return whether a stream is in memory."""
        return (model, name) in self._live

    def exists(self, model: str, name: str) -> bool:
        """Return whether a stream is in memory or on disk."""
        return (model, name) in self._live or self._is_saved((model, name))

    async def open(self, model: Model, name: str) -> Stream:
        """Return a stream from memory or disk, or a new one.

        Raises
        ------
        HTTPException
            429 if there are too many streams, 503 if none can be removed from memory.
        """
        key = (model.name, name)
        if self._n_saved >= self._settings.max_saved_streams and not self.exists(*key):
            raise HTTPException(429, f"there are {self._n_saved:,} streams, the limit.")
        while key not in self._live and len(self._live) >= self._settings.max_streams:
            await self._evict()
        if key not in self._live:  # nothing is awaited from here on
            saved = self._load(self._path(key)) if self._is_saved(key) else None
            self._add(saved or Stream(model.name, name, model.monitor.new()))
        self._live.move_to_end(key)
        return self._live[key]

    async def ready(self, model: Model, name: str) -> Stream:
        """Return a stream for samples, saved first if a save is due."""
        stream = await self.open(model, name)
        while self.is_due(stream):
            if not await self.save(stream):
                raise HTTPException(503, "the stream cannot be saved. Try again.")
            stream = await self.open(model, name)  # it may have left memory meanwhile
        return stream

    def is_due(self, stream: Stream) -> bool:
        """Return whether a stream must be saved before it takes more samples."""
        most = self._settings.save_samples
        return self._settings.state is not None and most is not None and stream.n_unsaved >= most

    def remember(self, stream: Stream, key: str, n: int) -> None:
        """Store the id of n samples that wait for labels; forget others with this id."""
        if self.stream_of(stream.model, key) not in (None, stream.name):
            self.forget(stream.model, key)
        _, before = self._pending.pop((stream.model, key), (None, 0))
        self._pending[stream.model, key] = (stream.name, n)
        self._n_pending += n - before
        while self._n_pending > self._settings.max_pending:
            self.forget(*next(iter(self._pending)))

    def stream_of(self, model: str, key: str) -> str | None:
        """Return the name of the stream whose samples have this id."""
        return self._pending.get((model, key), (None, 0))[0]

    def forget(self, model: str, key: str) -> None:
        """Forget samples that wait for their labels."""
        name, n = self._pending.pop((model, key), ("", 0))
        self._n_pending -= n
        if (model, name) in self._live:
            self._live[model, name].monitor.forget(key)

    async def save(self, stream: Stream) -> bool:
        """Write a stream to disk if anything is new; log, count and return if that fails."""
        if self._settings.state is None:
            return True
        async with stream.lock:
            n, path = stream.n_unsaved, self._path((stream.model, stream.name))
            if not n:
                return True
            new = not path.exists()
            try:
                await asyncio.to_thread(write_state, path, stream.to_dict())
            except OSError as error:  # such as a full disk
                self.save_failures += 1
                LOG.error("stream %r of %s is not saved: %s", stream.name, stream.model, error)
                return False
            stream.n_unsaved -= n
            self._n_saved += new
            return True

    async def save_all(self) -> bool:
        """Write streams until one cannot be written; return whether all were."""
        for stream in list(self._live.values()):
            if not await self.save(stream):
                return False
        return True

    async def _evict(self) -> None:
        """Save the least recently used stream and, if it was not used meanwhile, remove it."""
        key, stream = next(iter(self._live.items()))
        if not await self.save(stream):
            raise HTTPException(503, "there is no room for a new stream: others cannot be saved.")
        if self._live.get(key) is not stream:
            return
        if self._settings.state is None:
            for own in stream.monitor.pending:
                self.forget(stream.model, own)
        elif stream.n_unsaved:
            return
        del self._live[key]

    def _add(self, stream: Stream) -> None:
        self._live[stream.model, stream.name] = stream
        for key, n in stream.monitor.pending.items():
            if (stream.model, key) not in self._pending:
                self._pending[stream.model, key] = (stream.name, n)
                self._n_pending += n

    def _is_saved(self, key: Key) -> bool:
        return self._settings.state is not None and self._path(key).exists()

    def _path(self, key: Key) -> Path:
        assert self._settings.state is not None
        return stream_file(self._settings.state, *key)

    def _load(self, path: Path) -> Stream | None:
        """Read a stream; None if its model is not served, or the file is not valid."""
        try:
            document = read_state(path)
            model = self._models.get(str(document["model"]))
            if model is None:
                return None
            monitor = model.monitor.restored(document, path)
            more = {name: document[name] for name in ("points", "alerts", "seconds")}
            return Stream(model.name, str(document["stream"]), monitor, **more)
        except (FileFormatError, KeyError) as error:
            kept = path.replace(path.with_suffix(".invalid"))
            LOG.warning("a stream begins anew, its file is now %s: %s", kept, error)
            self._n_saved -= 1
            return None

    def _reopen(self, folder: Path) -> None:
        """Read the streams that were saved last; the only time that the folder is listed."""
        for leftover in folder.glob("*.tmp"):  # from a server that was killed during a save
            leftover.unlink(missing_ok=True)
        paths = sorted(folder.glob("*.json"), key=os.path.getmtime)
        self._n_saved = len(paths)
        for path in paths[-self._settings.max_streams :]:
            stream = self._load(path)
            if stream is not None:
                self._add(stream)


def _lock(folder: Path) -> Any:
    """Lock a folder until the process ends, where the system has such locks."""
    file = (folder / _LOCK).open("w")
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise BlockingIOError(
            f"{folder} is in use by another server. Stop it, or give each server a folder."
        ) from None
    except (ImportError, OSError):  # Windows, and some network file systems
        pass
    return file
