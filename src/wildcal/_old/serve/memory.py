"""The answers whose labels may still come."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from wildcal._old.core.arrays import Labels
from wildcal._old.serve.lane import Lane
from wildcal._old.serve.messages import Request
from wildcal._old.serve.model import Answer


@dataclass(frozen=True, slots=True)
class Remembered:
    """An answer whose labels may still come."""

    stream: str
    label: Labels
    confidence: NDArray[Any]


class Memory:
    """The last answers by model and request id; the oldest are forgotten first."""

    def __init__(self, most_rows: int) -> None:
        self._most, self._rows = most_rows, 0
        self._answers: OrderedDict[tuple[str, str], Remembered] = OrderedDict()

    def keep(self, lane: Lane, request: Request, answer: Answer) -> None:
        """Remember an answer, if its request had an id; a later one takes its place."""
        name = request.head.id
        if name is None:
            return
        key = (lane.model, name)
        self.take(*key)
        self._answers[key] = Remembered(lane.name, answer.label, answer.confidence)
        self._rows += len(answer.label)
        while self._rows > self._most and self._answers:
            self._rows -= len(self._answers.popitem(last=False)[1].label)

    def find(self, model: str, name: str) -> Remembered | None:
        """Return an answer."""
        return self._answers.get((model, name))

    def take(self, model: str, name: str) -> None:
        """Forget an answer."""
        found = self._answers.pop((model, name), None)
        if found is not None:
            self._rows -= len(found.label)
