"""The application inside another one, without a server: as FastAPI would mount it."""

import asyncio
import json

import numpy as np
from starlette.applications import Starlette
from starlette.routing import Mount

import wildcal
from wildcal.interop.asgi import Settings, Windows, app


def ask(application, *requests):
    """Send requests (method, path, body) one after the other; return status and body of each."""

    async def one(method, path, body):
        sent = []
        waiting = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive():
            return waiting.pop(0) if waiting else {"type": "http.disconnect"}

        async def send(message):
            sent.append(message)

        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": b"",
            "headers": [(b"host", b"x")],
        }
        await application(scope, receive, send)
        return sent[0]["status"], b"".join(m.get("body", b"") for m in sent[1:])

    async def all_of_them():
        return [await one(*request) for request in requests]

    return asyncio.run(all_of_them())


def test_mounted(context, scaled, clean):
    settings = Settings(windows=Windows(window=64, alarm="window"))
    outer = Starlette(routes=[Mount("/c", app({"a": scaled, "b": context}, settings))])
    z = clean.logits[:100].astype(np.float64)
    tensor = {"name": "logits", "datatype": "FP64", "shape": list(z.shape), "data": z.tolist()}
    body = json.dumps({"inputs": [tensor]}).encode()
    found = ask(
        outer,
        ("GET", "/c/v2/health/ready", b""),
        ("POST", "/c/v2/models/a/infer", body),
        ("POST", "/c/v2/models/b/infer", body),
        ("GET", "/c/metrics", b""),
        ("GET", "/c/", b""),
        ("GET", "/c/openapi.json", b""),
    )
    assert [status for status, _ in found] == [200] * 6
    outputs = {o["name"]: o["data"] for o in json.loads(found[1][1])["outputs"]}
    np.testing.assert_allclose(outputs["probabilities"], scaled.predict_proba(z).ravel())
    outputs = {o["name"]: o["data"] for o in json.loads(found[2][1])["outputs"]}
    rows = wildcal.Stream(context, 64).read(z)
    np.testing.assert_array_equal(outputs["drift"], rows.drift)
    assert b'wildcal_rows_total{model="b"} 100.0' in found[3][1]
    assert "/v2/models/{model}/infer" in json.loads(found[5][1])["paths"]


def test_one_alone_is_called_calibrator(scaled):
    ((status, body),) = ask(app(scaled), ("GET", "/v2/models/calibrator", b""))
    assert (status, json.loads(body)["name"]) == (200, "calibrator")
