"""The routes of the server, as a FastAPI application that other applications can mount."""

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import FileResponse, JSONResponse
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from pydantic_core import to_json
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from wildcal.accuracy.base import AccuracyEstimator
from wildcal.core.calibrator import Calibrator
from wildcal.core.exceptions import InputError
from wildcal.monitor.alerts import notify
from wildcal.serve import dashboard, protocol
from wildcal.serve.metrics import Metrics
from wildcal.serve.model import VERSION, Model
from wildcal.serve.security import Security
from wildcal.serve.settings import Settings
from wildcal.serve.streams import Stream, Streams
from wildcal.version import __version__

_MODEL: Final = "/v2/models/{model}"
LOG: Final = logging.getLogger("wildcal.serve")
# With "4XX", FastAPI does not add 422: requests that are not valid are answered 400.
_ERRORS: Final[dict[int | str, dict[str, Any]]] = {
    "4XX": {"model": protocol.ErrorResponse},
    503: {"model": protocol.ErrorResponse},
}


def make_app(
    calibrators: Calibrator | Mapping[str, Calibrator],
    settings: Settings | None = None,
    *,
    estimators: Mapping[str, AccuracyEstimator] | None = None,
) -> FastAPI:
    """Return the application that `wildcal serve` runs.

    To mount it in an application of yours, enter its lifespan in yours: with a state folder, that
    saves the streams at intervals and at the end.

    Parameters
    ----------
    calibrators
        A fitted calibrator, served as "calibrator", or several by name.
    settings
        Options and limits.
    estimators
        Accuracy estimators by the name of their calibrator.

    Examples
    --------
    >>> import wildcal
    >>> from fastapi import FastAPI
    >>> calibrator = wildcal.TemperatureScaling().fit([[3, 0], [2, 0], [1, 0]] * 20, [0, 0, 1] * 20)
    >>> your_app = FastAPI()
    >>> your_app.mount("/calibration", make_app(calibrator))
    """
    if isinstance(calibrators, Calibrator):
        calibrators = {"calibrator": calibrators}
    return Service(calibrators, settings or Settings(), estimators or {}).app


class Service:
    """The parts of a server and its routes."""

    def __init__(
        self,
        calibrators: Mapping[str, Calibrator],
        settings: Settings,
        estimators: Mapping[str, AccuracyEstimator],
    ) -> None:
        self.settings = settings
        self.models = {
            name: Model(name, calibrator, settings, estimators.get(name))
            for name, calibrator in calibrators.items()
        }
        self.streams = Streams(self.models, settings)
        self.metrics = Metrics(self.streams)
        self.saved = True
        """Whether the last save succeeded."""
        self.app = FastAPI(
            title="wildcal",
            version=__version__,
            description="Calibrated confidence by the Open Inference Protocol, version 2.",
            responses=_ERRORS,
            docs_url=None,  # these pages load scripts from another host
            redoc_url=None,
            lifespan=self._lifespan,
        )
        self.app.add_middleware(Security, settings=settings)
        self.app.add_exception_handler(HTTPException, _refuse)
        self.app.add_exception_handler(InputError, _refuse)
        self.app.add_exception_handler(Exception, _fail)
        self._add_routes()
        self.app.openapi = self._openapi  # type: ignore[method-assign]

    def _add_routes(self) -> None:
        # For most requests: FastAPI would add a third of their time to parse parameters.
        self.app.add_route(f"{_MODEL}/infer", self._infer_model, methods=["POST"])
        model = APIRouter()
        model.get("")(self.metadata)
        model.get("/ready")(self.is_ready)
        model.post("/infer", **_bodies(protocol.InferRequest, protocol.InferResponse))(self.infer)
        feedback = _bodies(protocol.Feedback, protocol.FeedbackResponse)
        model.post("/feedback", **feedback)(self.feedback)
        model.get("/streams")(self.list_streams)
        version = f"{_MODEL}/versions/{{version}}"
        self.app.include_router(model, prefix=_MODEL)
        self.app.include_router(model, prefix=version, include_in_schema=False)
        self.app.get("/v2")(self.server)
        self.app.get("/v2/health/live")(self.health)
        self.app.get("/v2/health/ready")(self.health)
        self.app.get("/metrics", response_class=Response)(self.prometheus)
        self.app.get("/live")(self.live)
        self.app.get("/", response_class=FileResponse)(self.page)

    async def infer(self, request: Request, model: str) -> Response:
        """Calibrate samples and add them to their stream."""
        found = self._model(request, model)
        start, status = time.perf_counter(), 500
        try:
            answer = await self._infer(request, found)
            status = 200
            return answer
        except (HTTPException, InputError) as error:
            status = getattr(error, "status_code", 400)
            raise
        finally:
            self.metrics.requests(found.name, status).inc()
            self.metrics.seconds(found.name).observe(time.perf_counter() - start)

    async def _infer_model(self, request: Request) -> Response:
        return await self.infer(request, request.path_params["model"])

    async def _infer(self, request: Request, model: Model) -> Response:
        asked, tensors = protocol.read_request(
            await self._body(request), request.headers.get(protocol.HEADER)
        )
        x, distances = model.read(asked, tensors)
        try:
            if not self.streams.is_live(model.name, asked.stream):  # refused samples open none
                model.monitor.new().update(x, knn_distances=distances)
            stream = await self.streams.ready(model, asked.stream)
            result = stream.monitor.update(x, asked.id, knn_distances=distances)
        except InputError as error:  # the argument X is named after its tensor
            raise InputError(re.sub("^X ", f"{model.calibrator.input_} ", str(error))) from error
        if asked.id is not None:
            self.streams.remember(stream, asked.id, len(x))
        self.metrics.samples(model.name).inc(len(x))
        stream.note(len(x), result.alerts)
        background = self._report(stream, len(result.alerts)) if result.alerts else None
        outputs = model.answer(asked, x, result, stream.monitor)
        content, size = protocol.write_response(model.name, VERSION, asked, outputs)
        if self.streams.is_due(stream):
            await self.streams.save(stream)  # if it fails, requests are refused until one succeeds
        headers = None if size is None else {protocol.HEADER: str(size)}
        media_type = "application/json" if size is None else "application/octet-stream"
        return Response(content, 200, headers, media_type, background)

    async def _body(self, request: Request) -> bytes:
        """Return the body of a request without its Content-Encoding, within the limits."""
        body, settings = bytearray(), self.settings
        try:
            async with asyncio.timeout(settings.max_seconds):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > settings.max_bytes:
                        raise protocol.too_large(settings.max_bytes)
        except TimeoutError:
            message = f"the body must arrive within {settings.max_seconds:g} s."
            raise HTTPException(408, message) from None
        except ClientDisconnect:
            raise HTTPException(400, "the connection was closed before the end.") from None
        encoding = request.headers.get("content-encoding")
        return protocol.decompressed(bytes(body), encoding, settings.max_bytes)

    async def feedback(
        self, request: Request, model: str, version: str = VERSION
    ) -> dict[str, Any]:
        """Add labels of earlier samples; none of them if one is not valid."""
        found = self._model(request, model)
        entries = protocol.parse(protocol.Feedback, await self._body(request)).feedback
        for entry in entries:
            if (stream := await self._stream_of(found, entry)) is not None:
                stream.monitor.check_labels(entry.id, entry.labels)
        accepted, unknown, statuses = 0, [], {}
        for entry in entries:
            if (stream := await self._stream_of(found, entry)) is None:
                unknown.append(entry.id)
                continue
            n = stream.monitor.label(entry.id, entry.labels)
            self.streams.forget(found.name, entry.id)
            stream.note(max(n, 1))
            accepted += n
            statuses[stream.name] = stream.monitor.status().to_dict()
        return {"accepted": accepted, "unknown": unknown, "streams": statuses}

    async def _stream_of(self, model: Model, entry: protocol.Labels) -> Stream | None:
        """Return the stream in which samples wait for these labels."""
        name = entry.stream or self.streams.stream_of(model.name, entry.id)
        if name is None or not self.streams.exists(model.name, name):
            return None
        stream = await self.streams.open(model, name)
        return stream if entry.id in stream.monitor.pending else None

    async def metadata(self, request: Request, model: str) -> dict[str, Any]:
        """Return inputs and outputs of a model."""
        return self._model(request, model).describe()

    async def is_ready(self, request: Request, model: str) -> dict[str, Any]:
        """Answer 200 if there is such a model."""
        return {"name": self._model(request, model).name, "ready": True}

    async def list_streams(self, request: Request, model: str) -> dict[str, Any]:
        """Return the status of the streams of a model that are in memory."""
        name = self._model(request, model).name
        mine = [stream for stream in self.streams.all() if stream.model == name]
        return {"streams": [{"stream": s.name, **s.monitor.status().to_dict()} for s in mine]}

    async def server(self) -> dict[str, Any]:
        """Return the metadata of the server."""
        return {"name": "wildcal", "version": __version__, "extensions": ["binary_tensor_data"]}

    async def health(self) -> dict[str, Any]:
        """Answer 200."""
        return {"live": True, "ready": True}

    async def prometheus(self) -> Response:
        """Return the metrics in the text format of Prometheus."""
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4")

    async def live(self) -> Response:
        """Return status and history of the streams for the live page."""
        return Response(to_json(dashboard.numbers(self.streams)), media_type="application/json")

    async def page(self) -> Response:
        """Return the live page."""
        return FileResponse(dashboard.PAGE, headers={"Content-Security-Policy": dashboard.POLICY})

    def _model(self, request: Request, name: str) -> Model:
        found = self.models.get(name)
        if found is None or request.path_params.get("version", VERSION) != VERSION:
            raise HTTPException(404, f"there is no such model; there are {', '.join(self.models)}.")
        return found

    def _report(self, stream: Stream, n_alerts: int) -> BackgroundTask:
        """Count and log alerts; return the task that sends them after the response."""
        status = stream.monitor.status().to_dict()
        self.metrics.alerts.labels(stream.model).inc(n_alerts)
        LOG.warning("alert in stream %r of %s: %s", stream.name, stream.model, status["message"])
        event = {"time": time.time(), "model": stream.model, "stream": stream.name, **status}
        return BackgroundTask(self._notify, event)

    def _notify(self, event: dict[str, Any]) -> None:
        target = self.settings.on_alert
        if target is None:
            return
        try:
            notify(target, event)
        except Exception as error:  # any failure is counted, and the server continues
            self.metrics.notification_failures.inc()
            LOG.error("%s did not get an alert: %s", target, error)

    @asynccontextmanager
    async def _lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(self.save_regularly())
        try:
            yield
        finally:
            task.cancel()
            self.saved = await self.streams.save_all()

    async def save_regularly(self) -> None:
        """Save the streams at intervals; a failure is logged and counted."""
        while self.settings.save_seconds is not None:
            await asyncio.sleep(self.settings.save_seconds)
            try:
                await self.streams.save_all()
            except Exception:
                self.metrics.task_failures.inc()
                LOG.exception("a background task failed")

    def _openapi(self) -> dict[str, Any]:
        """Return the document of FastAPI, with the bodies that are parsed here."""
        document = FastAPI.openapi(self.app)
        _, bodies = models_json_schema(
            [(protocol.InferRequest, "validation"), (protocol.Feedback, "validation")],
            ref_template="#/components/schemas/{model}",
        )
        document["components"]["schemas"] |= bodies["$defs"]
        return document


def _bodies(request: type[BaseModel], response: type[BaseModel]) -> dict[str, Any]:
    """Return the options of a route whose request is parsed here."""
    schema = {"$ref": f"#/components/schemas/{request.__name__}"}
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    return {"response_model": response, "openapi_extra": {"requestBody": body}}


async def _refuse(_: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)
    return JSONResponse({"error": str(error)}, 400)


async def _fail(_: Request, error: Exception) -> Response:
    # Starlette raises the error again after this answer, and uvicorn logs it.
    return JSONResponse({"error": "internal error; the log of the server has the details."}, 500)
