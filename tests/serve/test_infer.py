"""Requests to a server process: results, wrong requests, binary tensors and limits."""

import gzip
import json
import struct

import numpy as np
import pytest

import wildcal
from wildcal.monitor import Monitor

pytestmark = pytest.mark.slow

STATUS = "estimated_accuracy estimated_accuracy_low estimated_accuracy_high".split()
STATUS += ["accuracy_at_calibration", "drift_alert"]


def arrays(document):
    return {o["name"]: np.array(o["data"]).reshape(o["shape"]) for o in document["outputs"]}


@pytest.fixture(scope="module")
def server(start):
    options = ("--max-samples", "1000", "--max-bytes", "200000")
    return start("window.json", "plain=ts.json", *options)


def test_metadata(server):
    assert server.request("/v2/health/live")[0] == 200
    assert server.request("/v2/models/plain/versions/1/ready")[0] == 200
    found = json.loads(server.get("/v2/models/window"))
    assert found["inputs"] == [{"name": "logits", "datatype": "FP32", "shape": [-1, 10]}]
    names = ["probabilities", "confidence", "label"]
    assert [o["name"] for o in found["outputs"]] == names + STATUS
    plain = json.loads(server.get("/v2/models/plain/versions/1"))
    assert [o["name"] for o in plain["outputs"]] == [*names, "temperature", *STATUS]
    assert json.loads(server.get("/v2"))["version"] == wildcal.__version__


def test_openapi(server):
    document = json.loads(server.get("/openapi.json"))
    infer = document["paths"]["/v2/models/{model}/infer"]["post"]
    schema = infer["requestBody"]["content"]["application/json"]["schema"]
    assert schema == {"$ref": "#/components/schemas/InferRequest"}
    text = json.dumps(document)
    for name in ("InferRequest", "InputTensor", "Parameters", "Labels", "InferResponse"):
        assert name in document["components"]["schemas"]
        assert f'"#/components/schemas/{name}"' in text
    assert '"422"' not in text


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_probabilities_are_those_of_the_calibrator(server, scaled, draw, dtype):
    z = draw(50)[0].astype(dtype)
    status, answer = server.infer(z, "plain", id="seven")
    found = arrays(answer)
    assert (status, answer["id"], answer["model_name"]) == (200, "seven", "plain")
    np.testing.assert_allclose(found["probabilities"], scaled.predict_proba(z), atol=1e-7)
    np.testing.assert_allclose(found["confidence"], scaled.confidence(z), atol=1e-7)
    np.testing.assert_array_equal(found["label"], scaled.predict(z))
    kinds = {o["name"]: o["datatype"] for o in answer["outputs"]}
    assert kinds["probabilities"] == ("FP64" if dtype == "float64" else "FP32")


def test_bfloat16_is_the_upper_half_of_a_float32(server, scaled, draw):
    bits = np.ascontiguousarray(draw(5)[0], "<f4").view("<u4") >> 16
    entry = {"name": "logits", "datatype": "BF16", "shape": [5, 10]}
    entry["parameters"] = {"binary_data_size": 100}
    head = json.dumps({"inputs": [entry]}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    body = head + bits.astype("<u2").tobytes()
    status, _, answer = server.request("/v2/models/plain/infer", body, headers)
    z = (bits << 16).view("<f4")
    assert status == 200
    np.testing.assert_allclose(
        arrays(json.loads(answer))["probabilities"], scaled.predict_proba(z), atol=1e-7
    )


def test_each_stream_has_a_monitor(server, window, draw):
    ours = {"a": Monitor(window), "b/<b>": Monitor(window)}
    outputs = [{"name": name} for name in ("confidence", *STATUS)]
    for start in range(0, 800, 100):
        for name, scale in (("a", 1.0), ("b/<b>", 0.4)):
            z = draw(800, scale)[0][start : start + 100].astype(np.float64)
            found = arrays(server.infer(z, "window", stream=name, outputs=outputs)[1])
            expected = ours[name].update(z)
            np.testing.assert_allclose(found["confidence"], expected.confidence)
            status = ours[name].status()
            for each in STATUS:
                assert found[each] == pytest.approx(getattr(status, each), rel=1e-6)
    assert found["drift_alert"].tolist() == [True]


def test_only_the_outputs_that_are_requested(server, draw):
    wanted = [{"name": "label"}, {"name": "drift_alert"}]
    _, answer = server.infer(draw(3)[0], "plain", stream="few", outputs=wanted)
    assert list(arrays(answer)) == ["label", "drift_alert"]
    status, answer = server.infer(draw(3)[0], "window", outputs=[{"name": "temperature"}])
    assert status == 400
    assert "has no output 'temperature'" in answer["error"]


def tensor(**changes):
    entry = {"name": "logits", "datatype": "FP32", "shape": [1, 10], "data": list(range(10))}
    return json.dumps({"inputs": [{**entry, **changes}]}).encode()


BAD = {
    "no JSON": (b"nonsense", "Invalid JSON"),
    "deep": (b"[" * 50_000, "Invalid JSON"),
    "no object": (b"[]", "object"),
    "no inputs": (b"{}", "inputs: Field required"),
    "no name": (b'{"inputs": [3]}', "inputs.0"),
    "NaN": (tensor(data=[float("nan")] * 10), "logits must be finite, got nan at index 0"),
    "inf": (tensor(data=[1e39] * 10), "logits must be finite"),
    "K": (tensor(shape=[1, 9], data=[1] * 9), "logits must have shape (n_samples, 10), got (1, 9)"),
    "dtype": (tensor(datatype="INT64"), "inputs.0.datatype"),
    "text": (tensor(data=["1"] * 10), "data of 'logits' must be a list of numbers"),
    "ragged": (tensor(data=[[1], [1, 2]]), "data of 'logits' must be a list of numbers"),
    "count": (tensor(data=[1, 2]), "must have 10 numbers for shape (1, 10), got (2,)"),
    "shape": (tensor(shape=[-1, 10]), "inputs.0.shape.0"),
    "1-D": (tensor(shape=[10]), "logits must have shape"),
    "no samples": (tensor(shape=[0, 10], data=[]), "logits must have"),
    "other name": (tensor(name="images"), "inputs of window must be logits, got 'images'"),
    "samples": (tensor(shape=[1001, 10], data=[1] * 10010), "at most 1,000 samples, got 1,001"),
    "stream": (b'{"parameters": {"stream": 3}, "inputs": [1]}', "parameters.stream"),
    "newline": (b'{"parameters": {"stream": "a\\n"}, "inputs": [1]}', "parameters.stream"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_requests_change_nothing(server, draw, case):
    body, message = BAD[case]
    stream = f"bad {case}"
    server.infer(draw(5)[0], "window", stream=stream)
    before = server.streams("window")[stream]
    marked = body.replace(
        b'{"inputs"', b'{"parameters": {"stream": "%s"}, "inputs"' % stream.encode()
    )
    status, _, answer = server.request("/v2/models/window/infer", marked)
    error = json.loads(answer)["error"]
    assert status == 400
    assert message in error
    assert "\n" not in error
    assert server.streams("window")[stream] == before


def binary(raw, shape=(1, 10), size=None, **more):
    parameters = {"binary_data_size": len(raw) if size is None else size}
    entry = {"name": "logits", "datatype": "FP32", "shape": shape, "parameters": parameters}
    head = json.dumps({"inputs": [{**entry, **more}]}).encode()
    return head + raw, {"Inference-Header-Content-Length": str(len(head))}


SAMPLE = struct.pack("<10f", *range(10))


@pytest.mark.parametrize(
    ("request_", "status", "message"),
    [
        (binary(SAMPLE), 200, ""),
        (binary(SAMPLE[:-1]), 400, "must have 40 bytes, got binary_data_size 39 and 39 bytes"),
        (binary(SAMPLE + b"1", size=40), 400, "1 bytes follow the last input"),
        (binary(SAMPLE, size=41), 400, "must have 40 bytes, got binary_data_size 41 and 40 bytes"),
        (binary(SAMPLE, size=-1), 400, "binary_data_size"),
        (binary(SAMPLE, data=[1]), 400, "must have data or binary_data_size, got both"),
        (binary(SAMPLE, shape=[1 << 39, 1 << 39]), 400, "must have"),
        ((binary(SAMPLE)[0], {"Inference-Header-Content-Length": "99999"}), 400, "must be 0 to"),
        ((binary(SAMPLE)[0], {"Inference-Header-Content-Length": "x"}), 400, "must be 0 to"),
        ((binary(SAMPLE)[0], {"Inference-Header-Content-Length": "9" * 5000}), 400, "must be 0"),
        ((gzip.compress(tensor()), {"Content-Encoding": "gzip"}), 200, ""),
        ((gzip.compress(tensor())[:-9], {"Content-Encoding": "gzip"}), 400, "must be whole gzip"),
        ((tensor(), {"Content-Encoding": "gzip"}), 400, "the body must be gzip"),
        ((gzip.compress(b"0" * 10**6), {"Content-Encoding": "gzip"}), 413, "at most 200,000"),
        ((tensor(), {"Content-Encoding": "br"}), 415, "must be gzip or deflate"),
        ((b"0" * 200_001, {}), 413, "at most 200,000 bytes"),
        ((tensor(), {"Origin": "http://elsewhere.example"}), 403, "other web pages"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bodies_of_bytes(server, request_, status, message):
    found, _, body = server.request("/v2/models/window/infer", *request_)
    assert found == status
    assert message in json.loads(body).get("error", "")


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/v2/models/nothing", "GET", 404),
        ("/v2/models/plain/versions/2", "GET", 404),
        ("/v2/models/plain/infer", "GET", 405),
        ("/v2/models/..%2F..%2Fetc%2Fpasswd/infer", "POST", 404),
        ("/nothing", "GET", 404),
        ("/docs", "GET", 404),
    ],
)
def test_unknown_paths(server, path, method, status):
    found, _, body = server.request(path, method=method)
    assert found == status
    assert "error" in json.loads(body)


def test_tokens(start, files):
    (files / "tokens").write_text("# ours\nfirst-secret-of-many\nsecond-secret-of-many\n")
    server = start("ts.json", "--token-file", "tokens")
    assert server.request("/v2/health/live")[0] == 200
    assert server.request("/v2/models/ts")[0] == 401
    for token, status in [("second-secret-of-many", 200), ("second-secret-of-manY", 401)]:
        headers = {"Authorization": f"Bearer {token}", "Host": "any.example"}
        for path in ("/v2/models/ts", "/metrics", "/live"):
            assert server.request(path, headers=headers)[0] == status
    assert server.stop() == 0
    assert server.lines[-1] == "Stopped."


def test_a_slow_body_is_refused(scaled):
    import asyncio

    from wildcal.serve.app import make_app
    from wildcal.serve.settings import Settings

    app, sent = make_app(scaled, Settings(max_seconds=0.05)), []
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v2/models/calibrator/infer",
        "headers": [(b"host", b"localhost")],
        "query_string": b"",
    }

    async def receive():
        if not sent:
            sent.append({"status": None})
            return {"type": "http.request", "body": b"{", "more_body": True}
        await asyncio.sleep(60)

    async def send(message):
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    assert sent[1]["status"] == 408


def test_mounted_in_another_application(scaled, draw):
    import asyncio

    from fastapi import FastAPI

    from wildcal.serve import make_app

    app, sent = FastAPI(), []
    app.mount("/calibration", make_app({"m": scaled}))
    z = draw(1)[0]
    entry = {"name": "logits", "datatype": "FP32", "shape": [1, 10], "data": z.ravel().tolist()}
    body = json.dumps({"inputs": [entry]}).encode()
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/calibration/v2/models/m/infer",
        "root_path": "",
        "headers": [(b"host", b"localhost")],
        "query_string": b"",
    }

    async def receive():
        return {"type": "http.request", "body": body}

    async def send(message):
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    assert sent[0]["status"] == 200
    found = arrays(json.loads(sent[1]["body"]))["probabilities"]
    np.testing.assert_allclose(found, scaled.predict_proba(z), atol=1e-6)
