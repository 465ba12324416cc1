"""Fixtures that run `wildcal serve` as a process."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import fastapi  # noqa: F401  # skip or fail where the extra is missing
import numpy as np
import pytest

import wildcal


def draw(n, scale=1.0, seed=0, k=10):
    """Return logits that are twice too large, and labels; a smaller scale is a shift."""
    rng = np.random.default_rng(seed)
    z = 2.5 * scale * rng.normal(size=(n, k))
    y = (z + rng.gumbel(size=(n, k))).argmax(axis=1)
    return (2 * z).astype(np.float32), y


@pytest.fixture(scope="session", name="draw")
def _draw():
    return draw


@pytest.fixture(scope="session")
def scaled():
    return wildcal.TemperatureScaling().fit(*draw(3000, seed=1))


@pytest.fixture(scope="session")
def window():
    parts = [draw(1000, scale, seed=i) for i, scale in enumerate((1, 0.8, 0.6, 0.4))]
    z, y = (np.concatenate(column) for column in zip(*parts, strict=True))
    return wildcal.WindowScaling().fit(z, y, domain=np.repeat(range(4), 1000))


@pytest.fixture(scope="session")
def files(tmp_path_factory, scaled, window):
    """A folder with the saved calibrators `window.json` and `ts.json`."""
    folder = tmp_path_factory.mktemp("calibrators")
    wildcal.save(window, folder / "window.json")
    wildcal.save(scaled, folder / "ts.json")
    return folder


class Server:
    """A running `wildcal serve`."""

    def __init__(self, *options, cwd, before=None):
        words = [sys.executable, "-m", "wildcal", "serve", "--port", "0", *map(str, options)]
        env = {**os.environ, "PYTHONUTF8": "1"}
        self.lines = []
        self.process = subprocess.Popen(
            words, cwd=cwd, stderr=subprocess.PIPE, text=True, env=env, preexec_fn=before
        )
        for line in self.process.stderr:
            self.lines.append(line.rstrip())
            if found := re.search(r"on (http://\S+)$", line):
                self.url = found[1]
                break
        else:
            self.process.wait()
            raise RuntimeError("\n".join(self.lines))
        self.port = int(self.url.rsplit(":", 1)[1])

    def request(self, path, body=None, headers=None, method=None):
        """Return status, headers and body, whatever the status."""
        wanted = urllib.request.Request(self.url + path, body, headers or {}, method=method)
        try:
            with urllib.request.urlopen(wanted, timeout=20) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()

    def get(self, path):
        return self.request(path)[2]

    def metric(self, name):
        """Return the value of a series, None if there is none."""
        for line in self.get("/metrics").decode().splitlines():
            if line.startswith(name + " "):
                return float(line.rsplit(" ", 1)[1])
        return None

    def infer(self, logits, model="ts", stream=None, **more):
        """Return status and document of a request in JSON."""
        z = np.asarray(logits)
        kind = {"float16": "FP16", "float32": "FP32", "float64": "FP64"}[z.dtype.name]
        tensor = {"name": "logits", "datatype": kind, "shape": list(z.shape), "data": z.tolist()}
        document = {"inputs": [tensor], **more}
        if stream is not None:
            document["parameters"] = {"stream": stream}
        status, _, body = self.request(f"/v2/models/{model}/infer", json.dumps(document).encode())
        return status, json.loads(body)

    def feedback(self, *entries, model="ts"):
        """Post labels; return status and document."""
        body = json.dumps({"feedback": list(entries)}).encode()
        status, _, body = self.request(f"/v2/models/{model}/feedback", body)
        return status, json.loads(body)

    def streams(self, model="ts"):
        """Return the status of each stream by name."""
        found = json.loads(self.get(f"/v2/models/{model}/streams"))["streams"]
        return {each["stream"]: each for each in found}

    def stop(self, how=signal.SIGTERM):
        """Stop it and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.lines += self.process.communicate(timeout=30)[1].splitlines()
        return self.process.returncode


@pytest.fixture(scope="module")
def start(files):
    """Start servers on the saved calibrators; they end with the file of tests."""
    running = []

    def begin(*options, before=None):
        running.append(Server(*options, cwd=files, before=before))
        return running[-1]

    yield begin
    for server in running:
        server.stop(signal.SIGKILL)
