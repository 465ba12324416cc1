"""The folder that streams are saved in: a file for what a stream is, and one for its window.

Names of files are hashes, so nothing in a request names a file.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from wildcal._old.core.errors import FileFormatError
from wildcal._old.io.files import replacing
from wildcal._old.io.sealed import Document, Kind
from wildcal._old.serve.lane import Lane
from wildcal._old.serve.lock import Held
from wildcal._old.serve.model import Model
from wildcal._old.serve.recent import Recent
from wildcal._old.stream import Stream
from wildcal._old.stream.folder import stream_files
from wildcal._old.stream.labels import LateLabels

_KIND: Final = Kind(
    "wildcal served stream", "served stream", "`wildcal serve --state`", version=1, largest=1 << 20
)
_LEFT: Final = re.compile(r"\.[0-9a-f]{64}\.(stream|window)\.json\.")


class Saved:
    """A folder of streams, of one server alone; another gets a BlockingIOError."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self._held = folder, Held(folder)
        for left in folder.glob(".*.json"):  # of a server that was killed while it wrote
            if _LEFT.match(left.name):
                left.unlink(missing_ok=True)
        self._count = sum(1 for _ in folder.glob("*.stream.json"))

    def count(self) -> int:
        """Return how many streams are saved."""
        return self._count

    def save(self, lane: Lane) -> None:
        """Write a stream, each of its files whole or not at all, and wait until it is on disk."""
        about, window = stream_files(self.folder, lane.model, lane.name)
        if lane.live is not None:
            lane.live.save(window)
        new = not about.exists()
        with replacing(about, sync=True) as temporary:
            temporary.write_text(json.dumps(_KIND.seal(_describe(lane))) + "\n", "utf-8")
        self._count += new

    def load(
        self, model: Model, name: str, read: Callable[[Model, Path], Stream | None]
    ) -> Lane | None:
        """Return a stream as it was saved, or None; damage gives a FileFormatError.

        `read` returns the window in a file.
        """
        about, window = stream_files(self.folder, model.name, name)
        if not about.exists() and not window.exists():
            return None
        try:
            document: Document = {"alarm_row": None, "rows": 0}
            if about.exists():
                document = _KIND.read(about)
            rows, alarm_row = int(document["rows"]), document["alarm_row"]
            labels = LateLabels()
            if document.get("labels") is not None:
                labels = LateLabels.from_dict(document["labels"])
        except (KeyError, TypeError, ValueError) as error:
            raise FileFormatError(f"{about} is not a valid stream: {error}") from error
        live = read(model, window)
        rows = rows if live is None else live.seen
        lane = Lane(model.name, name, live, rows=rows, alarm_row=alarm_row, labels=labels)
        if live is not None:
            lane.alarm, lane.recent = live.drift.alarm, Recent(live.estimated_accuracy.value)
        return lane

    def latest(self, most: int) -> list[tuple[str, str]]:
        """Return model and name of the streams that were saved last, the latest at the end."""
        paths = sorted(self.folder.glob("*.stream.json"), key=lambda path: path.stat().st_mtime)
        found = []
        for path in paths[-most:]:
            try:
                document = _KIND.read(path)
                found.append((str(document["model"]), str(document["stream"])))
            except (FileFormatError, KeyError):
                continue  # it is met, and set aside, when its name comes up
        return found

    def set_aside(self, model: str, name: str) -> None:
        """Rename what could not be read, so that a person can look at it."""
        for path in stream_files(self.folder, model, name):
            if path.exists():
                path.replace(path.with_name(path.name + ".refused"))


def _describe(lane: Lane) -> dict[str, Any]:
    return {
        "model": lane.model,
        "stream": lane.name,
        "rows": lane.rows,
        "alarm_row": lane.alarm_row,
        "labels": lane.labels.to_dict(),
    }
