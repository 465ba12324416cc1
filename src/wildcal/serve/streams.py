"""The streams of a server: a monitor for each, in memory and on disk."""

import asyncio
import logging
import os
import sys
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fastapi import HTTPException

from wildcal.core.exceptions import FileFormatError
from wildcal.monitor.monitor import Monitor, MonitorResult, MonitorStatus
from wildcal.monitor.state import read_state, state_text, stream_file, write_text
from wildcal.serve.model import Model
from wildcal.serve.settings import Settings

LOG: Final = logging.getLogger("wildcal.serve")
# Moments of the history of a stream; every other one is dropped when there are more.
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
    seconds: float = 0.0
    """Least time between two points of the history; it doubles when they are thinned out."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a snapshot is written."""

    def note(self, result: MonitorResult | None, n: int) -> MonitorStatus | None:
        """Take note of samples or labels that were taken in; return the status at an alert."""
        self.n_unsaved += n
        now = time.time()
        alerts = () if result is None else result.alerts
        self.alerts += [{"time": now, "sample": sample} for sample in alerts]
        del self.alerts[:-_N_ALERTS]
        due = not self.points or now - self.points[-1]["time"] >= max(self.seconds, 1.0)
        if not due and not alerts:
            return None
        status = self.monitor.status()
        self.points.append({"time": now, **{name: getattr(status, name) for name in _POINT}})
        if len(self.points) > _N_POINTS:
            del self.points[-2::-2]
            self.seconds = 2 * max(self.seconds, 1.0)
        return status if alerts else None

    def snapshot(self) -> str:
        """Return the text of the state file."""
        more = {name: getattr(self, name) for name in ("points", "alerts", "seconds")}
        own = {"model": self.model, "stream": self.name, **more}
        return state_text({**self.monitor.to_dict(), **own})


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
        self._pending: OrderedDict[Key, tuple[str, int]] = OrderedDict()
        self._n_pending = self._n_saved = 0
        self.save_failures = 0
        if settings.state is not None:
            settings.state.mkdir(parents=True, exist_ok=True)
            self._lock = _lock(settings.state)
            self._reopen(settings.state)

    def all(self) -> list[Stream]:
        """Return the streams in memory, the least recently used first."""
        return list(self._live.values())

    def live(self, model: str, name: str) -> Stream | None:
        """Return a stream if it is in memory."""
        found = self._live.get((model, name))
        if found is not None:
            self._live.move_to_end((model, name))
        return found

    def open(self, model: Model, name: str, *, create: bool = True) -> Stream | None:
        """Return a stream from memory or disk, or a new one.

        Raises
        ------
        HTTPException
            429 if there are too many streams, 503 if none can be removed from memory.
        """
        found = self.live(model.name, name)
        if found is not None:
            return found
        found = self._load(model, name)
        if found is None and not create:
            return None
        if found is None and self._n_saved >= self._settings.max_saved_streams:
            raise HTTPException(429, f"there are {self._n_saved:,} streams, which is the limit.")
        while len(self._live) >= self._settings.max_streams:
            self._evict()
        stream = found or Stream(model.name, name, model.monitor.new())
        self._add(stream)
        return stream

    def remember(self, stream: Stream, key: str, n: int) -> None:
        """Note that samples of a stream wait for their labels."""
        old = self._forget((stream.model, key))
        if old is not None and old != stream.name and (stream.model, old) in self._live:
            self._live[stream.model, old].monitor.forget(key)
        self._pending[stream.model, key] = (stream.name, n)
        self._n_pending += n
        while self._n_pending > self._settings.max_pending:
            oldest = next(iter(self._pending))
            name = self._forget(oldest)
            if name is not None and (oldest[0], name) in self._live:
                self._live[oldest[0], name].monitor.forget(oldest[1])

    def stream_of(self, model: str, key: str) -> str | None:
        """Return the name of the stream whose samples have this id."""
        found = self._pending.get((model, key))
        return None if found is None else found[0]

    def labeled(self, model: str, key: str) -> None:
        """Note that the labels of an id arrived."""
        self._forget((model, key))

    async def save(self, stream: Stream) -> None:
        """Write a stream to disk if anything is new; raise an OSError if that fails."""
        if self._settings.state is None:
            return
        async with stream.lock:
            n, path = stream.n_unsaved, self._path(stream.model, stream.name)
            if not n:
                return
            new = not path.exists()
            await asyncio.to_thread(write_text, path, stream.snapshot())
            stream.n_unsaved -= n
            self._n_saved += new

    async def save_all(self) -> bool:
        """Write all streams that have anything new; return whether that succeeded."""
        for stream in self.all():
            try:
                await self.save(stream)
            except OSError as error:  # a full disk does not end the service
                self.failed(stream, error)
                return False
        return True

    def failed(self, stream: Stream, error: OSError) -> None:
        """Count and log that a stream could not be saved."""
        self.save_failures += 1
        LOG.error("stream %r of %s could not be saved: %s", stream.name, stream.model, error)

    def _evict(self) -> None:
        """Remove the least recently used stream from memory, after it is saved."""
        stream = next((each for each in self._live.values() if not each.lock.locked()), None)
        if stream is None:
            raise HTTPException(503, "all streams in memory are being saved. Try again.")
        if self._settings.state is None:
            for key in stream.monitor.pending:
                self._forget((stream.model, key))
        elif stream.n_unsaved:
            path = self._path(stream.model, stream.name)
            new = not path.exists()
            try:
                write_text(path, stream.snapshot())
            except OSError as error:
                self.failed(stream, error)
                raise HTTPException(
                    503, "there is no room for a new stream: others cannot be saved."
                ) from error
            stream.n_unsaved = 0
            self._n_saved += new
        del self._live[stream.model, stream.name]

    def _add(self, stream: Stream) -> None:
        self._live[stream.model, stream.name] = stream
        for key, n in stream.monitor.pending.items():
            if (stream.model, key) not in self._pending:
                self._pending[stream.model, key] = (stream.name, n)
                self._n_pending += n

    def _forget(self, key: Key) -> str | None:
        name, n = self._pending.pop(key, (None, 0))
        self._n_pending -= n
        return name

    def _path(self, model: str, name: str) -> Path:
        assert self._settings.state is not None
        return stream_file(self._settings.state, model, name)

    def _load(self, model: Model, name: str) -> Stream | None:
        if self._settings.state is None:
            return None
        path = self._path(model.name, name)
        if not path.exists():
            return None
        try:
            return _read(model, name, read_state(path), path)
        except FileFormatError as error:
            LOG.warning("stream %r of %s begins anew: %s", name, model.name, error)
            path.replace(path.with_suffix(".invalid"))
            self._n_saved -= 1
            return None

    def _reopen(self, folder: Path) -> None:
        """Read the streams that were saved last; the only time that the folder is listed."""
        files = []
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(".tmp"):  # of a server that was killed while it wrote
                    Path(entry.path).unlink(missing_ok=True)
                elif entry.name.endswith(".json"):
                    files.append((entry.stat().st_mtime, entry.path))
        self._n_saved = len(files)
        for _, path in sorted(files)[-self._settings.max_streams :]:
            try:
                document = read_state(path)
                model = self._models.get(str(document["model"]))
                if model is not None:
                    self._add(_read(model, str(document["stream"]), document, path))
            except (FileFormatError, KeyError) as error:
                LOG.warning("%s is left out: %s", path, error)


def _read(model: Model, name: str, document: dict[str, Any], path: str | Path) -> Stream:
    monitor = model.monitor.restored(document, path)
    LOG.info("stream %r of %s continues after sample %d.", name, model.name, monitor.n_samples)
    more = {key: document[key] for key in ("points", "alerts", "seconds") if key in document}
    return Stream(model.name, name, monitor, **more)


def _lock(folder: Path) -> Any:
    """Lock a folder until the process ends, however it does."""
    file = (folder / _LOCK).open("w")
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        file.close()
        raise BlockingIOError(
            f"{folder} is in use by another server. Stop it, or give each server a folder."
        ) from None
    except OSError:  # some network file systems have no locks
        pass
    return file
