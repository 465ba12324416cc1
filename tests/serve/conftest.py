"""Real servers: uvicorn as a process of its own, one for each file of tests that needs it."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import numpy as np
import pytest

import wildcal
from wildcal._old.calibrators.context import ContextScaling
from wildcal._old.evaluation import environments
from wildcal._old.io.artifact import save as save_context


@pytest.fixture(scope="session")
def suite():
    return wildcal._old.suites.load("cifar10-resnet20")


@pytest.fixture(scope="session")
def clean(suite):
    return suite.split("test")


@pytest.fixture(scope="session")
def foggy(suite):
    return suite.split("fog-5")


@pytest.fixture(scope="session")
def context(suite):
    rows = environments(suite)
    return ContextScaling().fit(rows.logits, rows.y, environment=rows.environment)


@pytest.fixture(scope="session")
def scaled(suite):
    split = suite.split("validation")
    return wildcal.TemperatureScaling().fit(split.logits, split.y)


@pytest.fixture(scope="session")
def files(tmp_path_factory, context, scaled):
    """Saved calibrators: `context.json`, `ts.json`."""
    folder = tmp_path_factory.mktemp("calibrators")
    save_context(context, folder / "context.json")
    wildcal.save(scaled, folder / "ts.json")
    return folder


class Server:
    """A running `wildcal serve`."""

    def __init__(self, *options, cwd):
        import wildcal._old.serve  # noqa: F401  # the message that names what is missing

        words = [sys.executable, "-m", "wildcal", "serve", "--port", "0", *map(str, options)]
        self.said = []
        self.process = subprocess.Popen(
            words, cwd=cwd, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUTF8": "1"}
        )
        for line in self.process.stderr:
            self.said.append(line.rstrip())
            if found := re.search(r"on (http://\S+)$", line):
                self.url = found[1]
                break
        else:
            self.stop()
            raise RuntimeError("\n".join(self.said))
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

    def infer(self, logits, model="context", stream=None, **more):
        """Return status and document of a request in JSON."""
        z = np.asarray(logits)
        kind = {"float16": "FP16", "float32": "FP32", "float64": "FP64"}[z.dtype.name]
        tensor = {"name": "logits", "datatype": kind, "shape": list(z.shape), "data": z.tolist()}
        document = {"inputs": [tensor], **more}
        if stream is not None:
            document["parameters"] = {"stream": stream}
        status, _, body = self.request(f"/v2/models/{model}/infer", json.dumps(document).encode())
        return status, json.loads(body)

    def process_lines(self):
        """What it has said so far, up to the line after which nothing is pending."""
        os.set_blocking(self.process.stderr.fileno(), False)
        while line := self.process.stderr.readline():
            self.said.append(line.rstrip())
        os.set_blocking(self.process.stderr.fileno(), True)
        return self.said

    def stop(self, how=signal.SIGTERM):
        """Stop it and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.said += self.process.communicate(timeout=30)[1].splitlines()
        return self.process.returncode


@pytest.fixture(scope="module")
def start(files):
    """Start servers on the saved calibrators; they end with the file of tests."""
    running = []

    def begin(*options):
        running.append(Server(*options, cwd=files))
        return running[-1]

    yield begin
    for server in running:
        server.stop(signal.SIGKILL)
