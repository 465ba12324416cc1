"""Requests per second of the server, as a share of the same server with a constant for an answer.

    python benchmarks/serve.py --output benchmarks/serve.csv

Loopback, one process each, wrk with one thread and 8 connections. The constant reads the body of
the same request at the same path, and sends the bytes of a real answer. The two take turns, a
second each. The share is that of the server's processor time per request, of the median turns.
"""

import argparse
import csv
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from serving import SUITE, Server, save_calibrators

import wildcal

SECONDS, ROUNDS = 1, 9
FIELDS = (
    "model",
    "rows",
    "form",
    "cpu_us",
    "constant_us",
    "share",
    "per_second",
    "p50_ms",
    "p99_ms",
)
LUA = """
wrk.method = "POST"
local file = io.open("{body}", "rb")
wrk.body = file:read("*a")
{headers}
done = function(summary, latency, requests)
  io.write(string.format("RESULT %f %f %f %d %d %d\\n", summary.requests / summary.duration * 1e6,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, summary.requests,
    summary.errors.status,
    summary.errors.connect + summary.errors.read + summary.errors.timeout))
end
"""


def child(folder: Path, constant: bool) -> None:
    """Serve the calibrators, or the bytes in the file `answer` instead."""
    from wildcal._old.serve import app
    from wildcal._old.serve.body import read_body
    from wildcal._old.serve.inference import Inference
    from wildcal._old.serve.model import Model
    from wildcal._old.serve.run import run

    class Constant(Inference):
        async def __call__(self, scope, receive):
            await read_body(scope, receive, self.limits)
            return [(b"content-type", b"application/octet-stream")], ANSWER

    if constant:
        ANSWER = (folder / "answer").read_bytes()
        app.Inference = Constant
    models = [
        Model(n, *wildcal._old.io.artifact.load_with_about(folder / f"{n}.json")) for n in NAMES
    ]
    run(models, app.Settings(), "127.0.0.1", 0, lambda t: print(t, file=sys.stderr, flush=True))


NAMES = ("context", "ts")


def body_of(logits: np.ndarray, binary: bool) -> tuple[bytes, dict[str, str]]:
    """Return a request for confidence and label, as JSON or with bytes."""
    entry = {"name": "logits", "datatype": "FP32", "shape": list(logits.shape)}
    wanted = [{"name": n, "parameters": {"binary_data": binary}} for n in ("confidence", "label")]
    if not binary:
        entry["data"] = logits.ravel().tolist()
        return json.dumps({"inputs": [entry], "outputs": wanted}).encode(), {}
    raw = logits.astype("<f4").tobytes()
    entry["parameters"] = {"binary_data_size": len(raw)}
    head = json.dumps({"inputs": [entry], "outputs": wanted}).encode()
    return head + raw, {"Inference-Header-Content-Length": str(len(head))}


def load(
    server: Server, url: str, body: bytes, headers: dict[str, str], folder: Path
) -> list[float]:
    """Return µs of the server's processor time per request, requests per second, and latencies.

    These are what half and 99 % stay below, in ms.
    """
    (folder / "body").write_bytes(body)
    lines = "\n".join(f'wrk.headers["{name}"] = "{value}"' for name, value in headers.items())
    (folder / "wrk.lua").write_text(LUA.format(body=folder / "body", headers=lines))
    words = ["wrk", "-t1", "-c8", "--timeout", "30s", f"-d{SECONDS}s"]
    start = server.processor_seconds()
    done = subprocess.run(
        [*words, "-s", str(folder / "wrk.lua"), url], capture_output=True, text=True, check=True
    )
    spent = server.processor_seconds() - start
    speed, half, most, count, refused, failed = map(
        float, re.search(r"RESULT (.+)", done.stdout)[1].split()
    )
    assert refused == failed == 0, done.stdout
    return [1e6 * spent / count, speed, half, most]


def measure(folder: Path):
    """Yield a row of the table for each kind of request."""
    logits = wildcal._old.suites.load(SUITE).split("test").logits.astype(np.float32)
    for model in ("ts", "context"):
        for rows in (1, 64):
            for binary in (True, False):
                body, headers = body_of(logits[:rows], binary)
                words = [sys.executable, __file__, "--child", str(folder)]
                server = Server(words, folder)
                path = f"/v2/models/{model}/infer"
                request = urllib.request.Request(server.url + path, body, headers)
                with urllib.request.urlopen(request) as answer:
                    (folder / "answer").write_bytes(answer.read())
                other = Server([*words, "--constant"], folder)

                def run(which, path=path, body=body, headers=headers):
                    return load(which, which.url + path, body, headers, folder)

                run(other), run(server)  # to warm up
                turns = [(run(other), run(server)) for _ in range(ROUNDS)]
                server.stop(), other.stop()
                constant = statistics.median(turn[0][0] for turn in turns)
                found = [statistics.median(turn[1][i] for turn in turns) for i in range(4)]
                yield {
                    "model": model,
                    "rows": rows,
                    "form": "binary" if binary else "JSON",
                    "cpu_us": round(found[0]),
                    "constant_us": round(constant),
                    "share": round(constant / found[0], 3),
                    "per_second": round(found[1]),
                    "p50_ms": round(found[2], 2),
                    "p99_ms": round(found[3], 2),
                }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--child", type=Path)
    parser.add_argument("--constant", action="store_true")
    options = parser.parse_args()
    if options.child is not None:
        child(options.child, options.constant)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_calibrators(folder)
        found = []
        for row in measure(folder):
            found.append(row)
            print(row, flush=True)
    if options.output is not None:
        with options.output.open("w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(found)


if __name__ == "__main__":
    main()
