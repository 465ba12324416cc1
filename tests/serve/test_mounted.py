"""The application inside another one, without a server: as FastAPI would mount it."""

import asyncio
import json
import warnings

import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

import wildcal
from wildcal._old.core.convert import softmax
from wildcal.core.exceptions import CalibrationWarning
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


@pytest.mark.parametrize(("name", "kind"), [("ts", "proba"), ("vector", "logits"), ("ts", "score")])
@pytest.mark.parametrize("n", [1, 100])
def test_a_calibrator_is_served_with_the_input_it_was_fitted_on(clean, name, kind, n):
    """Outputs are those of Python, also where the predicted class changes."""
    z, y = clean.logits[:2000].astype(np.float64), clean.y[:2000]
    if kind == "score":
        x, y = (z[:, 1] - z[:, 0])[:, None], y % 2
    else:
        x = softmax(z) if kind == "proba" else z + np.linspace(0, 4, 10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        calibrator = wildcal.get_calibrator(name).fit(x, y, input=kind)
    x = x[1000 : 1000 + n]
    tensor = {"name": kind, "datatype": "FP64", "shape": list(x.shape), "data": x.tolist()}
    body = json.dumps({"inputs": [tensor]}).encode()
    ((status, found),) = ask(app(calibrator), ("POST", "/v2/models/calibrator/infer", body))
    assert status == 200, found
    outputs = {o["name"]: o["data"] for o in json.loads(found)["outputs"]}
    p = calibrator.predict_proba(x)
    np.testing.assert_allclose(outputs["probabilities"], p.ravel(), atol=1e-7)
    np.testing.assert_allclose(outputs["confidence"], p.max(axis=1), atol=1e-7)
    np.testing.assert_array_equal(outputs["label"], calibrator.predict(x))


def test_a_calibrator_of_confidences_is_refused(clean):
    confidence = softmax(clean.logits).max(axis=1)
    right = clean.logits.argmax(axis=1) == clean.y
    calibrator = wildcal.TemperatureScaling().fit(confidence, right, input="confidence")
    with pytest.raises(ValueError, match="got input='confidence'"):
        app(calibrator)
