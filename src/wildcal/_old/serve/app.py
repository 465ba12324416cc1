"""The routes of the server, as an ASGI application that other servers can mount."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route as At
from starlette.types import Receive, Scope

from wildcal._old.serve.feedback import Feedback
from wildcal._old.serve.guard import Guard
from wildcal._old.serve.inference import Inference
from wildcal._old.serve.lanes import Lanes, Windows
from wildcal._old.serve.limits import Limits
from wildcal._old.serve.live import PAGE, POLICY, Events
from wildcal._old.serve.memory import Memory
from wildcal._old.serve.metrics import Metrics
from wildcal._old.serve.model import VERSION, Model
from wildcal._old.serve.openapi import document
from wildcal._old.serve.replies import Headers, Route, as_json
from wildcal._old.serve.saved import Saved
from wildcal._old.serve.tokens import Tokens
from wildcal._old.serve.watcher import Watcher
from wildcal._old.stream.hook import Hook
from wildcal.version import __version__

LOG = logging.getLogger("wildcal._old.serve")


@dataclass(frozen=True, slots=True)
class Settings:
    """How a server behaves."""

    windows: Windows = field(default_factory=Windows)
    limits: Limits = field(default_factory=Limits)
    tokens: Tokens = field(default_factory=lambda: Tokens([]))
    state: Path | None = None
    """The folder of saved streams; None keeps them in memory alone."""
    save_seconds: float | None = 10.0
    save_rows: int | None = None
    hook: Hook | None = None
    """Who is told of alarms."""


def make_app(models: Sequence[Model], settings: Settings) -> Starlette:
    """Return the application that serves some models."""
    return Service(models, settings).app()


class Service:
    """The parts of a server, and the routes that lead to them."""

    def __init__(self, models: Sequence[Model], settings: Settings) -> None:
        self.models = {model.name: model for model in models}
        if len(self.models) < len(models):
            raise ValueError("models must have different names. Give NAME=FILE.")
        self.settings = settings
        saved = None if settings.state is None else Saved(settings.state)
        self.lanes = Lanes(settings.windows, settings.limits, saved)
        self.metrics = Metrics(self.lanes.all)
        memory = Memory(settings.limits.feedback_rows)
        self.watcher = Watcher(self.metrics, settings.save_rows, settings.hook, memory)
        self.inference = Inference(self.models, self.lanes, settings.limits, self.watcher)
        self.feedback = Feedback(self.inference, memory)
        self.events = Events(self.lanes)
        self._tasks: list[asyncio.Task[None]] = []

    def app(self) -> Starlette:
        """Return the application."""
        of_model = "/v2/models/{model}"
        of_version = of_model + "/versions/{version}"
        # Routes are tried in their order, and nearly all requests are of the first.
        routes = [
            At(path + "/infer", Route(self.inference), methods=["POST"])
            for path in (of_model, of_version)
        ]
        routes += [
            At("/v2/health/live", Route(self._alive)),
            At("/v2/health/ready", Route(self._alive)),
            At("/v2", Route(self._server)),
            At("/v2/repository/index", Route(self._index), methods=["POST"]),
            At("/", Route(self._page), methods=["GET"]),
            At("/openapi.json", Route(self._openapi), methods=["GET"]),
            At("/live", self.events, methods=["GET"]),
            At("/metrics", Route(self._metrics), methods=["GET"]),
        ]
        for path in (of_model, of_version):
            routes += [
                At(path, Route(self._metadata), methods=["GET"]),
                At(path + "/ready", Route(self._ready), methods=["GET"]),
                At(path + "/config", Route(self._config), methods=["GET"]),
                At(path + "/feedback", Route(self.feedback), methods=["POST"]),
                At(path + "/streams", Route(self._streams), methods=["GET"]),
            ]
        return Starlette(
            routes=routes,
            middleware=[Middleware(Guard, tokens=self.settings.tokens, first=self.start)],
            exception_handlers={HTTPException: _http_error, Exception: _our_error},
            lifespan=self._lifespan,
        )

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        await self.lanes.reopen(self.models)
        self.start()
        try:
            yield
        finally:
            for task in self._tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            await self.lanes.save_all()

    def start(self) -> None:
        """Begin what goes on beside the requests; a mounted application does so at the first."""
        if not self._tasks:
            beside = (self._keep_saving(), self.events.keep_looking())
            self._tasks = [asyncio.create_task(work) for work in beside]

    async def _keep_saving(self) -> None:
        while self.settings.save_seconds is not None:
            await asyncio.sleep(self.settings.save_seconds)
            try:
                await self.lanes.save_all()
            except OSError as error:  # a full disk must not end the service
                LOG.error("windows could not be saved: %s", error)

    async def _alive(self, scope: Scope, receive: Receive) -> tuple[Headers, bytes]:
        return [], b""

    async def _page(self, scope: Scope, receive: Receive) -> tuple[Headers, bytes]:
        policy = (b"content-security-policy", POLICY.encode())
        return [(b"content-type", b"text/html; charset=utf-8"), policy], PAGE

    async def _openapi(self, scope: Scope, receive: Receive) -> tuple[Headers, bytes]:
        return as_json(document(self.models))

    async def _server(self, scope: Scope, receive: Receive) -> tuple[Headers, bytes]:
        return as_json(
            {"name": "wildcal", "version": __version__, "extensions": ["binary_tensor_data"]}
        )

    async def _index(self, scope: Scope, receive: Receive) -> tuple[Headers, bytes]:
        ready = {"version": VERSION, "state": "READY", "reason": ""}
        return as_json([{"name": name, **ready} for name in self.models])

    async def _ready(self, scope: Scope, receive: Receive) -> tuple[Headers, bytes]:
        self.inference.model(scope)
        return [], b""

    async def _metadata(self, scope: Scope, receive: Receive) -> tuple[Headers, bytes]:
        return as_json(self._describe(self.inference.model(scope)))

    async def _config(self, scope: Scope, receive: Receive) -> tuple[Headers, bytes]:
        model = self.inference.model(scope)

        def entry(tensor: dict[str, Any]) -> dict[str, Any]:
            kind = f"TYPE_{tensor['datatype']}"
            return {"name": tensor["name"], "data_type": kind, "dims": tensor["shape"][1:]}

        return as_json(
            {
                "name": model.name,
                "platform": "wildcal",
                "max_batch_size": self.settings.limits.rows,
                "input": [entry(tensor) for tensor in model.inputs()],
                "output": [entry(tensor) for tensor in model.outputs()],
            }
        )

    async def _streams(self, scope: Scope, receive: Receive) -> tuple[Headers, bytes]:
        model = self.inference.model(scope)
        mine = [lane for lane in self.lanes.all() if lane.model == model.name]
        return as_json({"streams": [lane.now() for lane in mine]})

    async def _metrics(self, scope: Scope, receive: Receive) -> tuple[Headers, bytes]:
        kind = b"text/plain; version=0.0.4; charset=utf-8"
        return [(b"content-type", kind)], self.metrics.text()

    def _describe(self, model: Model) -> dict[str, Any]:
        classes = model.about.classes
        return {
            "name": model.name,
            "versions": [VERSION],
            "platform": "wildcal",
            "inputs": model.inputs(),
            "outputs": model.outputs(),
            "properties": {
                "method": model.calibrator.name,
                "title": model.calibrator.title,
                "classes": None if classes is None else list(classes.names),
                "reads_window": model.window_map is not None,
            },
        }


async def _http_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)


async def _our_error(_: Request, error: Exception) -> JSONResponse:
    LOG.error("an unexpected %s", type(error).__name__, exc_info=error)
    return JSONResponse({"error": "something went wrong here; the log says what."}, 500)
