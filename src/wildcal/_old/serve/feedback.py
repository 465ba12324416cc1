"""`/feedback`: labels that come later, matched to the answers that they belong to."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from starlette.types import Receive, Scope

from wildcal._old.core.arrays import Labels
from wildcal._old.serve.body import read_body
from wildcal._old.serve.inference import Inference
from wildcal._old.serve.memory import Memory, Remembered
from wildcal._old.serve.messages import read_object
from wildcal._old.serve.model import Model
from wildcal._old.serve.refusal import bad
from wildcal._old.serve.replies import Headers, as_json


@dataclass(frozen=True, slots=True)
class Feedback:
    """Answers `/feedback` of all models."""

    inference: Inference
    memory: Memory

    async def __call__(self, scope: Scope, receive: Receive) -> tuple[Headers, bytes]:
        """Take labels in: all that are known, or none if one of them is wrong."""
        model = self.inference.model(scope)
        document = read_object(await read_body(scope, receive, self.inference.limits))
        entries = document.get("feedback", [document])
        if not isinstance(entries, list):
            raise bad('feedback must be a list of {"id": ..., "labels": [...]}.')
        checked = [self._check(model, entry) for entry in entries]
        unknown = [name for name, found, _ in checked if found is None]
        taken, streams = 0, {}
        for name, found, labels in checked:
            # An id that stands there twice has its labels once.
            if found is None or self.memory.find(model.name, name) is not found:
                continue
            self.memory.take(model.name, name)
            known = labels >= 0
            async with self.inference.lanes.turn(model, found.stream) as lane:
                right = found.label[known] == labels[known]
                lane.labels.add(found.confidence[known], right)
                lane.unsaved += 1
                streams[lane.name] = lane.labels.summary()
            taken += int(known.sum())
        return as_json({"accepted": taken, "unknown": unknown, "streams": streams})

    def _check(self, model: Model, entry: Any) -> tuple[str, Remembered | None, Labels]:
        """Return the id, the answer it names, and its labels, -1 where one is not known."""
        if not isinstance(entry, dict) or not isinstance(entry.get("id"), str):
            raise bad('feedback must be {"id": ..., "labels": [...]}, with the id of a request.')
        name, labels = entry["id"], entry.get("labels")
        if not isinstance(labels, list):
            raise bad(f"labels of {name!r:.60} must be a list, one for each row.")
        numbers = np.array([_number(model, label) for label in labels], np.int64)
        found = self.memory.find(model.name, name)
        if found is not None and len(numbers) != len(found.label):
            raise bad(
                f"labels of {name!r:.60} must be one for each of its {len(found.label)} rows, null"
                f" where it is not known, got {len(numbers)}."
            )
        return name, found, numbers


def _number(model: Model, label: Any) -> int:
    """Return the number of a class, told by number or by name; -1 for null."""
    if label is None:
        return -1
    classes, n = model.about.classes, model.calibrator.n_classes_
    if isinstance(label, str) and classes is not None and label in classes.names:
        return classes.names.index(label)
    if type(label) is not int or not 0 <= label < n:
        names = "" if classes is None else ", names of classes"
        raise bad(f"labels must be numbers from 0 to {n - 1}{names} or null, got {label!r:.40}.")
    return label
