"""The commands one after the other, from files of scores to a server."""

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import numpy as np
import onnxruntime
import pyarrow
import pytest
import uvicorn  # noqa: F401  # `wildcal serve` needs it: skip or fail where it is missing
from pyarrow import csv as arrow_csv
from pyarrow import parquet
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

pytestmark = pytest.mark.slow

CLASSES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
# How each step is written on the command line. A renamed command or option changes here only.
FIT = "fit {data} --method {method} --output {output}"
PREDICT = "predict {calibrator} {data} --output {output} --proba"
EVALUATE = "evaluate {data} --calibrator {calibrator} --json"
UNCALIBRATED = "evaluate {data} --json"
COMPARE = "compare {calibration} {test} --methods identity,ts,vector --json"
REPORT = "report {calibration} {test} --methods ts,vector --output {output}"
EXPORT = "export {calibrator} --output {output}"
SERVE = "serve digits={calibrator} --port {port}"


def command(line, **names):
    return [sys.executable, "-m", "wildcal", *(word.format(**names) for word in line.split())]


@pytest.fixture(scope="module")
def wildcal(tmp_path_factory):
    """Run a command in the folder of this file's tests and return what it prints."""
    folder = tmp_path_factory.mktemp("digits")

    def run(line, **names):
        words = command(line, **names)
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run.folder = folder
    return run


@pytest.fixture(scope="module")
def samples(wildcal):
    """Write calibration.csv, calibration.parquet and test.parquet; return logits and y of the last.

    The classifier has few training samples and hardly any penalty, so it is overconfident.
    """
    x, y = load_digits(return_X_y=True)
    model = LogisticRegression(C=1000, max_iter=1000).fit(x[:300] / 16, y[:300])
    logits = model.decision_function(x[300:] / 16).astype(np.float32)
    columns = {f"logit_{name}": logits[:, k] for k, name in enumerate(CLASSES)}
    table = pyarrow.table({**columns, "label": np.array(CLASSES)[y[300:]]})
    arrow_csv.write_csv(table[:800], wildcal.folder / "calibration.csv")
    parquet.write_table(table[:800], wildcal.folder / "calibration.parquet")
    parquet.write_table(table[800:], wildcal.folder / "test.parquet")
    return logits[800:], y[1100:]


@pytest.fixture(scope="module", params=["ts calibration.csv", "auto calibration.parquet"])
def fitted(request, wildcal, samples):
    """A saved calibrator, `ts` or `auto`, and its probabilities of the test samples."""
    method, data = request.param.split()
    wildcal(FIT, data=data, method=method, output=f"{method}.json")
    wildcal(PREDICT, calibrator=f"{method}.json", data="test.parquet", output=f"{method}.parquet")
    table = parquet.read_table(wildcal.folder / f"{method}.parquet")
    return f"{method}.json", np.column_stack([table[f"proba_{name}"] for name in CLASSES])


def test_predict(samples, fitted):
    (logits, _), (_, proba) = samples, fitted
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-5)
    assert (proba.argmax(axis=1) == logits.argmax(axis=1)).mean() > 0.9


def test_evaluate(wildcal, samples, fitted):
    (_, y), (calibrator, proba) = samples, fitted
    before = json.loads(wildcal(UNCALIBRATED, data="test.parquet"))["metrics"]
    after = json.loads(wildcal(EVALUATE, data="test.parquet", calibrator=calibrator))["metrics"]
    assert after["nll"]["value"] < before["nll"]["value"]
    assert after["ece"]["value"] < before["ece"]["value"] - 0.02
    assert after["nll"]["value"] == pytest.approx(-np.log(proba[range(len(y)), y]).mean(), abs=1e-5)


def test_compare(wildcal, samples):
    found = json.loads(wildcal(COMPARE, calibration="calibration.csv", test="test.parquet"))
    nll = {name: method["metrics"]["nll"]["value"] for name, method in found["methods"].items()}
    assert nll.keys() == {"identity", "ts", "vector"}
    assert nll["ts"] < nll["identity"]


def test_report(wildcal, samples):
    wildcal(REPORT, calibration="calibration.csv", test="test.parquet", output="report.html")
    page = (wildcal.folder / "report.html").read_text("utf-8")
    assert page.lower().startswith("<!doctype html>")
    assert "vector" in page


def test_export(wildcal, samples, fitted, needs):
    needs("ndonnx")
    (logits, _), (calibrator, proba) = samples, fitted
    wildcal(EXPORT, calibrator=calibrator, output="calibrator.onnx")
    session = onnxruntime.InferenceSession(wildcal.folder / "calibrator.onnx")
    (found,) = session.run(["probabilities"], {"logits": logits})
    np.testing.assert_allclose(found, proba, atol=1e-5)


def test_serve(wildcal, samples, fitted):
    (logits, _), (calibrator, proba) = samples, fitted
    port = free_port()
    words = command(SERVE, calibrator=calibrator, port=port)
    server = subprocess.Popen(words, cwd=wildcal.folder, stderr=subprocess.DEVNULL)
    try:
        wait_until_ready(server, f"http://127.0.0.1:{port}/v2/health/ready")
        data = {"shape": logits.shape, "data": logits.ravel().tolist()}
        body = json.dumps({"inputs": [{"name": "logits", "datatype": "FP32", **data}]})
        url = f"http://127.0.0.1:{port}/v2/models/digits/infer"
        with urllib.request.urlopen(url, body.encode(), timeout=60) as answer:
            outputs = {out["name"]: out for out in json.load(answer)["outputs"]}
    finally:
        server.send_signal(signal.SIGTERM)
        code = server.wait(timeout=60)
    found = np.reshape(outputs["probabilities"]["data"], logits.shape)
    np.testing.assert_allclose(found, proba, atol=1e-5)
    assert code == 0


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def wait_until_ready(server, url):
    deadline = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(url, timeout=60).close()
            return
        except OSError:
            assert server.poll() is None, f"the server ended with {server.returncode}"
            assert time.monotonic() < deadline, "the server is not ready after 60 s"
            time.sleep(0.05)
