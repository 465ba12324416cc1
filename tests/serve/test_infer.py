"""`wildcal serve` as a process: the numbers of Python, windows of streams, and bad requests."""

import gzip
import json
import signal
import struct

import numpy as np
import pytest

import wildcal

WINDOW = "estimated_accuracy estimated_accuracy_low estimated_accuracy_high drift alarm".split()


def arrays(document):
    return {o["name"]: np.array(o["data"]).reshape(o["shape"]) for o in document["outputs"]}


@pytest.fixture(scope="module")
def server(start):
    return start("context.json", "plain=ts.json", "--max-rows", "1000", "--max-bytes", "200000")


def test_metadata(server):
    assert server.request("/v2/health/live")[0] == 200
    assert server.request("/v2/models/plain/versions/1/ready")[0] == 200
    found = json.loads(server.get("/v2/models/context"))
    assert found["inputs"] == [{"name": "logits", "datatype": "FP32", "shape": [-1, 10]}]
    names = ["probabilities", "confidence", "label", "temperature"]
    assert [o["name"] for o in found["outputs"]] == names + WINDOW
    plain = json.loads(server.get("/v2/models/plain/versions/1"))
    assert [o["name"] for o in plain["outputs"]] == names
    assert json.loads(server.get("/v2"))["version"] == wildcal.__version__
    paths = json.loads(server.get("/openapi.json"))["paths"]
    for path, operations in paths.items():
        for operation in operations.values():
            known = [p["schema"]["enum"] for p in operation["parameters"] if p["name"] == "model"]
            assert known == ([["context", "plain"]] if "{model}" in path else [])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_numbers_of_a_row_alone(server, scaled, clean, dtype):
    z = clean.logits[:50].astype(dtype)
    status, answer = server.infer(z, "plain", id="seven")
    found = arrays(answer)
    assert (status, answer["id"], answer["model_name"]) == (200, "seven", "plain")
    np.testing.assert_allclose(found["probabilities"], scaled.predict_proba(z), atol=1e-7)
    np.testing.assert_allclose(found["confidence"], scaled.confidence(z), atol=1e-7)
    np.testing.assert_array_equal(found["label"], scaled.predict(z))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_row_alone_has_the_bits_it_has_among_others(server, clean, dtype):
    z = clean.logits[:50].astype(dtype)
    together = arrays(server.infer(z, "plain")[1])
    wanted = [{"name": "label"}, {"name": "confidence"}]
    for i in (0, 7, 49):
        alone = arrays(server.infer(z[i : i + 1], "plain", outputs=wanted)[1])
        assert list(alone) == ["label", "confidence"]
        for name, values in alone.items():
            np.testing.assert_array_equal(values, together[name][i : i + 1])


def test_bfloat16_is_the_upper_half_of_a_float32(server, scaled, clean):
    bits = np.ascontiguousarray(clean.logits[:5], "<f4").view("<u4") >> 16
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


def test_streams_have_windows_of_their_own(server, context, clean, foggy):
    ours = {
        "a": wildcal.Stream(context, alarm="sequential"),
        "b/<b>": wildcal.Stream(context, alarm="sequential"),
    }
    for start in range(0, 400, 100):
        for name, split in (("a", clean), ("b/<b>", foggy)):
            z = split.logits[start : start + 100].astype(np.float64)
            found = arrays(server.infer(z, stream=name)[1])
            rows = ours[name].read(z)
            np.testing.assert_array_equal(found["confidence"], rows.confidence)
            np.testing.assert_array_equal(found["estimated_accuracy_low"], rows.accuracy_low)
            np.testing.assert_array_equal(found["alarm"], rows.alarm)
    assert found["alarm"][-1]


def test_only_the_outputs_that_are_asked_for(server, clean):
    wanted = [{"name": "label"}, {"name": "drift"}]
    _, answer = server.infer(clean.logits[:3], stream="few", outputs=wanted)
    assert list(arrays(answer)) == ["label", "drift"]
    status, answer = server.infer(clean.logits[:3], "plain", outputs=[{"name": "drift"}])
    assert status == 400
    assert "has no output 'drift'" in answer["error"]


def tensor(**changes):
    entry = {"name": "logits", "datatype": "FP32", "shape": [1, 10], "data": list(range(10))}
    return json.dumps({"inputs": [{**entry, **changes}]}).encode()


BAD = {
    "no JSON": (b"nonsense", "the body must be JSON"),
    "deep": (b"[" * 50_000, "the body must be JSON"),
    "no object": (b"[]", "the body must be a JSON object"),
    "no inputs": (b"{}", "inputs must be a list"),
    "no name": (b'{"inputs": [3]}', "must be an object with a name"),
    "NaN": (tensor(data=[float("nan")] * 10), "logits must be finite, but row 0 holds NaN"),
    "inf": (tensor(data=[1e39] * 10), "logits must be finite, but row 0 holds +inf"),
    "K": (tensor(shape=[1, 9], data=[1] * 9), "logits must have 10 columns, as in fit, got 9"),
    "dtype": (tensor(datatype="INT64"), "logits must be of FP32, FP64, FP16, BF16"),
    "text": (tensor(data=["1"] * 10), "logits must have data, a list of numbers"),
    "ragged": (tensor(data=[[1], [1, 2]]), "logits must have data, a list of numbers"),
    "count": (tensor(data=[1, 2]), "must have 10 numbers, got (2,)"),
    "shape": (tensor(shape=[-1, 10]), "logits must have a shape"),
    "1-D": (tensor(shape=[10]), "logits must have shape (n_samples, n_classes >= 2), got (10,)"),
    "no rows": (tensor(shape=[0, 10], data=[]), "logits must have"),
    "other name": (tensor(name="images"), "inputs of context must be logits, got 'images'"),
    "rows": (tensor(shape=[1001, 10], data=[1] * 10010), "at most 1,000 rows, got 1,001"),
    "proba": (tensor(shape=[20, 10], data=[0.1] * 200), "logits must be raw scores"),
    "stream": (b'{"parameters": {"stream": 3}, "inputs": []}', "stream must be 1 to 200"),
    "newline": (b'{"parameters": {"stream": "a\\n"}, "inputs": []}', "stream must be 1 to 200"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_requests_say_why_and_change_nothing(server, context, clean, case):
    body, message = BAD[case]
    stream = f"bad {case}"
    ours = wildcal.Stream(context, alarm="sequential")
    before = arrays(server.infer(clean.logits[:5], stream=stream)[1])
    ours.read(clean.logits[:5])
    marked = body.replace(
        b'{"inputs"', b'{"parameters": {"stream": "%s"}, "inputs"' % stream.encode()
    )
    status, _, answer = server.request("/v2/models/context/infer", marked)
    error = json.loads(answer)["error"]
    assert status == 400
    assert message in error
    assert "\n" not in error
    after = arrays(server.infer(clean.logits[5:9].astype(np.float64), stream=stream)[1])
    expected = ours.read(clean.logits[5:9].astype(np.float64))
    np.testing.assert_array_equal(after["drift"], expected.drift)
    assert before["alarm"].shape == (5,)


def binary(raw, shape=(1, 10), size=None, **more):
    parameters = {"binary_data_size": len(raw) if size is None else size}
    entry = {"name": "logits", "datatype": "FP32", "shape": shape, "parameters": parameters}
    head = json.dumps({"inputs": [{**entry, **more}]}).encode()
    return head + raw, {"Inference-Header-Content-Length": str(len(head))}


ROW = struct.pack("<10f", *range(10))


@pytest.mark.parametrize(
    ("request_", "status", "message"),
    [
        (binary(ROW), 200, ""),
        (binary(ROW[:-1]), 400, "must have 40 bytes, got 39"),
        (binary(ROW + b"1", size=40), 400, "1 bytes follow the last input"),
        (binary(ROW, size=41), 400, "must be at most the 40 bytes"),
        (binary(ROW, size=-1), 400, "must be at most the 40 bytes"),
        (binary(ROW, data=[1]), 400, "has both data and binary_data_size"),
        (binary(ROW, shape=[1 << 39, 1 << 39]), 400, "must have"),
        ((binary(ROW)[0], {"Inference-Header-Content-Length": "99999"}), 400, "must be 0 to"),
        ((binary(ROW)[0], {"Inference-Header-Content-Length": "x"}), 400, "must be a whole"),
        ((gzip.compress(tensor()), {"Content-Encoding": "gzip"}), 200, ""),
        ((gzip.compress(tensor())[:-9], {"Content-Encoding": "gzip"}), 400, "not whole gzip"),
        ((tensor(), {"Content-Encoding": "gzip"}), 400, "the body is not gzip"),
        ((gzip.compress(b"0" * 10**6), {"Content-Encoding": "gzip"}), 413, "at most 200,000"),
        ((tensor(), {"Content-Encoding": "br"}), 415, "must be gzip or deflate"),
        ((b"0" * 200_001, {}), 413, "at most 200,000 bytes"),
        ((tensor(), {"Origin": "http://elsewhere.example"}), 403, "other web pages"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bodies_of_bytes(server, request_, status, message):
    found, _, body = server.request("/v2/models/context/infer", *request_)
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
    ],
)
def test_what_is_not_there(server, path, method, status):
    found, _, body = server.request(path, method=method)
    assert found == status
    assert "error" in json.loads(body)


def test_tokens(start, files):
    (files / "tokens").write_text("# ours\nfirst-secret-of-many\nsecond-secret-of-many\n")
    server = start("ts.json", "--token-file", "tokens")
    assert server.request("/v2/health/live")[0] == 200
    assert server.request("/v2/models/ts")[0] == 401
    for token, status in [("second-secret-of-many", 200), ("second-secret-of-manY", 401)]:
        found = server.request("/v2/models/ts", headers={"Authorization": f"Bearer {token}"})
        assert found[0] == status
    assert server.stop(signal.SIGTERM) == 0
    assert server.said[-1] == "Stopped."
