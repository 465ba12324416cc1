"""Speed and faults of `wildcal serve`, each with its limit.

    python benchmarks/serve.py --output benchmarks/serve.csv    two minutes; --only NAME for one

Times are ratios to a FastAPI route that parses the same body and returns a constant, on the same
kind of server, with turns of both in one run. All load is on 127.0.0.1. The command
`schemathesis` must be installed.
"""

import argparse
import csv
import http.client
import json
import os
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import wildcal

N_ROUNDS, N_REQUESTS = 15, 200
N_CLASSES = 10


def logits_of(n: int, seed: int = 0) -> np.ndarray:
    return (5 * np.random.default_rng(seed).normal(size=(n, N_CLASSES))).astype(np.float32)


def request_of(logits: np.ndarray, binary: bool, **more) -> tuple[bytes, dict[str, str]]:
    """Return body and headers of a request, as JSON or with bytes."""
    entry = {"name": "logits", "datatype": "FP32", "shape": list(logits.shape)}
    document = {"inputs": [entry], **more}
    if not binary:
        entry["data"] = logits.ravel().tolist()
        return json.dumps(document).encode(), {"Content-Type": "application/json"}
    raw = logits.astype("<f4").tobytes()
    entry["parameters"] = {"binary_data_size": len(raw)}
    document["parameters"] = {"binary_data_output": True}
    head = json.dumps(document).encode()
    return head + raw, {"Inference-Header-Content-Length": str(len(head))}


class Server:
    """A process that serves; `url` is its address."""

    def __init__(self, *words: str, cwd: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *words], cwd=cwd, stderr=subprocess.PIPE, text=True
        )
        for line in self.process.stderr:
            if found := re.search(r"on http://127.0.0.1:(\d+)$", line):
                self.port = int(found[1])
                break
        else:
            raise RuntimeError("the server did not start")
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def post(self, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        try:
            request = urllib.request.Request(self.url + path, body, headers)
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def samples(self) -> dict[str, int]:
        with urllib.request.urlopen(f"{self.url}/v2/models/ts/streams", timeout=30) as answer:
            found = json.load(answer)["streams"]
        return {each["stream"]: each["n_samples"] for each in found}

    def stop(self, how: int = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(timeout=60)


def serve(folder: Path, *options: str) -> Server:
    return Server("-m", "wildcal", "serve", "ts.json", "--port", "0", *options, cwd=folder)


def constant(binary: bool) -> None:
    """Serve a route that parses the body and returns a constant."""
    import uvicorn
    from fastapi import FastAPI, Request, Response

    from wildcal.serve.protocol import InferRequest
    from wildcal.serve.run import listen

    app = FastAPI()
    answer = Path("answer").read_bytes()

    if binary:

        @app.post("/v2/models/{model}/infer")
        async def infer(model: str, request: Request) -> Response:
            body = await request.body()
            size = int(request.headers["inference-header-content-length"])
            InferRequest.model_validate_json(body[:size])
            np.frombuffer(body[size:], "<f4")
            return Response(answer, media_type="application/octet-stream")

    else:

        @app.post("/v2/models/{model}/infer")
        async def infer(model: str, request: InferRequest) -> Response:
            return Response(answer, media_type="application/json")

    listener = listen("127.0.0.1", 0, 100)
    print(f"on http://127.0.0.1:{listener.getsockname()[1]}", file=sys.stderr, flush=True)
    config = uvicorn.Config(app, http="httptools", access_log=False, log_level="warning")
    uvicorn.Server(config).run(sockets=[listener])


def times(server: Server, body: bytes, headers: dict[str, str]) -> list[float]:
    """Return the seconds of each of some requests on one connection."""
    fields = {"Host": "localhost", "Content-Length": str(len(body)), **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    message = f"POST /v2/models/ts/infer HTTP/1.1\r\n{head}\r\n".encode() + body
    found = []
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(N_REQUESTS):
            start, text = time.perf_counter(), b""
            connection.sendall(message)
            while True:
                text += connection.recv(1 << 16)
                top, end, rest = text.partition(b"\r\n\r\n")
                size = re.search(rb"content-length: (\d+)", top, re.IGNORECASE)
                if end and len(rest) >= int(size[1]):
                    break
            assert text.startswith(b"HTTP/1.1 200"), text
            found.append(time.perf_counter() - start)
    return found


def speed(folder: Path, binary: bool):
    body, headers = request_of(logits_of(1), binary)
    ours = serve(folder)
    (folder / "answer").write_bytes(ours.post("/v2/models/ts/infer", body, headers)[1])
    words = [str(Path(__file__).resolve()), "--constant", "binary" if binary else "json"]
    other = Server(*words, cwd=folder)
    times(ours, body, headers), times(other, body, headers)  # to warm up
    turns = [[times(s, body, headers) for s in (other, ours)] for _ in range(N_ROUNDS)]
    ours.stop(), other.stop()
    medians = [[statistics.median(each) for each in turn] for turn in turns]
    yield "constant, ms", 1e3 * statistics.median(m[0] for m in medians), None
    yield "wildcal, ms", 1e3 * statistics.median(m[1] for m in medians), None
    ratio = statistics.median(m[1] / m[0] for m in medians)
    yield "ratio", ratio, 1.4 if binary else 1.6


def clients(folder: Path):
    """8 clients send 10,000 samples each to four streams: every sample counts once."""
    server, per_client, refused = serve(folder), 10_000, []

    def work(client: int) -> None:
        generator, left = random.Random(client), per_client
        while left:
            n = min(left, generator.randint(1, 64))
            body, headers = request_of(
                logits_of(n, n), False, parameters={"stream": f"s{client % 4}"}
            )
            status, text = server.post("/v2/models/ts/infer", body, headers)
            if status != 200:
                refused.append(text)
            left -= n

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counted = sum(server.samples().values())
    server.stop()
    yield "samples lost or counted twice", abs(8 * per_client - counted), 0
    yield "requests refused", len(refused), 0


def mutations(folder: Path):
    """2,000 bodies with changed, dropped and doubled bytes: no answer is a 5xx."""
    server, generator, codes = serve(folder), random.Random(0), []
    seeds = [request_of(logits_of(2), binary, id="a") for binary in (False, True)]
    seeds.append((b'{"feedback": [{"id": "a", "labels": [1, null]}]}', {}))
    for i in range(2000):
        body, headers = seeds[i % 3]
        changed = bytearray(body)
        for _ in range(generator.randint(1, 8)):
            at = generator.randrange(len(changed))
            kind = generator.randrange(4)
            if kind == 0:
                changed[at] = generator.randrange(256)
            elif kind == 1:
                del changed[at : at + generator.randint(1, 10)]
                changed = changed or bytearray(b"0")
            elif kind == 2:
                changed[at:at] = changed[at : at + generator.randint(1, 30)]
            else:
                changed[at:at] = generator.choice([b"[", b"1e999", b"null", b"-", b'"\\ud800"'])
        path = "feedback" if i % 3 == 2 else "infer"
        codes.append(server.post(f"/v2/models/ts/{path}", bytes(changed), headers)[0])
    server.stop()
    yield "answers of 5xx", sum(code >= 500 for code in codes), 0
    yield "answers of 400", sum(code == 400 for code in codes), None


def schema(folder: Path):
    """Make requests from the OpenAPI document by schemathesis: no answer is a 5xx."""
    server = serve(folder)
    words = ["schemathesis", "run", f"{server.url}/openapi.json", "--checks", "not_a_server_error"]
    try:
        done = subprocess.run(
            [*words, "--max-examples", "50", "--seed", "1"], capture_output=True, text=True
        )
    finally:
        server.stop()
    print(done.stdout[-1500:])
    yield "exit code of schemathesis", done.returncode, 0


def kills(folder: Path):
    """50 kill -9 during saves: no stream is lost, and at most --save-every of its samples."""
    state, every, lost, missing = folder / "state", 50, 0, 0
    names = [f"s{i}" for i in range(8)]
    known = dict.fromkeys(names, 0)
    for round_ in range(50):
        server = serve(folder, "--state", str(state), "--save-every", str(every))
        found = server.samples()
        for name, n in known.items():
            missing += n > every and name not in found
            lost = max(lost, n - found.get(name, 0))
        known = {name: found.get(name, 0) for name in names}

        def work(name: str, server=server, known=known) -> None:
            body, headers = request_of(logits_of(7), False, parameters={"stream": name})
            while True:
                try:
                    status, _ = server.post("/v2/models/ts/infer", body, headers)
                except (OSError, http.client.HTTPException):
                    return
                if status == 200:
                    known[name] += 7

        threads = [threading.Thread(target=work, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        time.sleep(random.Random(round_).uniform(0.1, 0.4))
        server.stop(signal.SIGKILL)
        for thread in threads:
            thread.join()
    yield "streams lost", missing, 0
    yield "samples of a stream lost, at most", lost, every
    yield "samples in all", sum(known.values()), None


def many(folder: Path):
    """100,000 streams on disk: what a save costs."""
    import asyncio

    from wildcal.serve.app import Service
    from wildcal.serve.settings import Settings

    fitted, state = wildcal.load(folder / "ts.json"), folder / "many"
    service = Service({"ts": fitted}, Settings(state=state, max_streams=10), {})
    model = service.models["ts"]
    stream = asyncio.run(service.streams.open(model, "s"))
    stream.monitor.update(logits_of(300))
    stream.note(300)

    def costs() -> list[float]:
        found = []
        for _ in range(50):
            stream.n_unsaved = 1
            start = time.perf_counter()
            asyncio.run(service.streams.save(stream))
            found.append(1e3 * (time.perf_counter() - start))
        return found

    yield "save in an empty folder, ms", statistics.median(costs()), None
    text = next(state.glob("*.json")).read_text()
    for i in range(100_000):
        (state / f"{i:064d}.json").write_text(text)
    yield "save beside 100,000 streams, ms", statistics.median(costs()), 5


PARTS = {
    "one sample, JSON": lambda folder: speed(folder, False),
    "one sample, binary": lambda folder: speed(folder, True),
    "8 clients": clients,
    "2,000 mutated bodies": mutations,
    "schemathesis": schema,
    "50 kill -9": kills,
    "100,000 streams": many,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--constant", choices=["json", "binary"])
    options = parser.parse_args()
    if options.constant is not None:
        constant(options.constant == "binary")
        return
    rows = []
    for part in [options.only] if options.only else PARTS:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            z = logits_of(3000, 1)
            y = (z / 2 + np.random.default_rng(2).gumbel(size=z.shape)).argmax(axis=1)
            wildcal.save(wildcal.TemperatureScaling().fit(z, y), folder / "ts.json")
            for what, value, limit in PARTS[part](folder):
                shown = round(value, 3) if isinstance(value, float) else value
                rows.append([part, what, shown, "" if limit is None else limit])
                print(*rows[-1], sep=", ", flush=True)
    if options.output is not None:
        if options.only and options.output.exists():  # the other parts stay
            with options.output.open(newline="") as file:
                kept = list(csv.reader(file))[1:]
            kept = [row for row in kept if row[0] != options.only]
            rows = sorted([*kept, *rows], key=lambda row: list(PARTS).index(row[0]))
        with options.output.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows([["part", "what", "value", "limit"], *rows])


if __name__ == "__main__":
    main()
