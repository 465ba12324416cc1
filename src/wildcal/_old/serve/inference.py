"""`/infer`: tensors in, calibrated tensors out, and the rows into their window."""

import asyncio
import time
from dataclasses import dataclass
from typing import Any, Final

from numpy.typing import NDArray
from starlette.types import Receive, Scope

from wildcal._old.core.arrays import Logits
from wildcal._old.serve.body import read_body, whole_number
from wildcal._old.serve.lane import Lane
from wildcal._old.serve.lanes import Lanes
from wildcal._old.serve.limits import Limits
from wildcal._old.serve.messages import Request, read_request, write_answer
from wildcal._old.serve.model import VERSION, Answer, Model
from wildcal._old.serve.refusal import Refusal
from wildcal._old.serve.replies import Headers, status_of
from wildcal._old.serve.watcher import Watcher

# Fewer numbers are calibrated sooner than a thread is woken.
_SMALL: Final = 1 << 15
# Smaller bodies are read sooner than a thread is woken.
_SMALL_BODY: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class Inference:
    """Answers `/infer` of all models."""

    models: dict[str, Model]
    lanes: Lanes
    limits: Limits
    watcher: Watcher

    async def __call__(self, scope: Scope, receive: Receive) -> tuple[Headers, bytes]:
        """Return headers and body of the answer."""
        model = self.model(scope)
        start, status = time.perf_counter(), 200
        try:
            body = await read_body(scope, receive, self.limits)
            length = whole_number(scope, b"inference-header-content-length")
            if len(body) <= _SMALL_BODY:
                request = read_request(body, length)
            else:
                request = await asyncio.to_thread(read_request, body, length)
            return await self._answer(model, request)
        except Exception as error:
            status = status_of(error)
            raise
        finally:
            self.watcher.metrics.of(model.name).request(status, time.perf_counter() - start)

    def model(self, scope: Scope) -> Model:
        """Return the model that a path names."""
        names = scope["path_params"]
        model = self.models.get(names["model"])
        if model is None or names.get("version", VERSION) != VERSION:
            raise Refusal(404, f"there is no such model; there are {', '.join(self.models)}.")
        return model

    async def _answer(self, model: Model, request: Request) -> tuple[Headers, bytes]:
        logits, distances = model.read(request.inputs, self.limits.rows)
        small, stream = logits.size <= _SMALL, request.head.stream
        lane = self.lanes.idle(model, stream) if small else None
        if lane is not None:
            answer = _calibrate(model, lane, request, logits, distances)
            self.watcher.answered(lane, request, answer)
            if self.watcher.is_time_to_save(lane):
                await self.lanes.save(lane)
            return write_answer(model.name, VERSION, request, answer.outputs)
        async with self.lanes.turn(model, stream) as lane:
            work = (model, lane, request, logits, distances)
            answer = _calibrate(*work) if small else await asyncio.to_thread(_calibrate, *work)
            self.watcher.answered(lane, request, answer)
            if self.watcher.is_time_to_save(lane):
                await self.lanes.save(lane)
        return write_answer(model.name, VERSION, request, answer.outputs)


def _calibrate(
    model: Model, lane: Lane, request: Request, logits: Logits, distances: NDArray[Any] | None
) -> Answer:
    if lane.live is not None:
        return model.answer_in(lane.live, logits, request.head.outputs)
    return model.answer(logits, distances, request.head.outputs)
