"""What a server must survive: kills under load, many clients, a million rows, rude connections.

    python benchmarks/serve_campaign.py            all of it
    python benchmarks/serve_campaign.py kills      one part: kills, clients, million, rude

Each part adds what it found to benchmarks/serve_campaign.json.
"""

import http.client
import json
import os
import re
import socket
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from serving import SUITE, Server, keep, save_calibrators, serve

import wildcal
from wildcal.stream.folder import stream_files

KILLS, CLIENTS, REQUESTS, ROWS, RUDE = 30, 8, 10_000, 1_000_000, 10_000
SAVE_ROWS = 50


class Full(Exception):
    """The server counts too many connections at this moment."""


class Client:
    """One connection that is kept; rows go as bytes, in float64."""

    def __init__(self, server: Server) -> None:
        self._http = http.client.HTTPConnection(server.host, server.port, timeout=60)

    def infer(self, z: np.ndarray, stream: str, *wanted: str, model: str = "context") -> dict:
        """Return the outputs that are wanted, as arrays."""
        raw = np.ascontiguousarray(z, "<f8").tobytes()
        entry = {"name": "logits", "datatype": "FP64", "shape": list(z.shape)}
        entry["parameters"] = {"binary_data_size": len(raw)}
        outputs = [{"name": name} for name in wanted]
        document = {"parameters": {"stream": stream}, "inputs": [entry], "outputs": outputs}
        head = json.dumps(document).encode()
        headers = {"Inference-Header-Content-Length": str(len(head))}
        self._http.request("POST", f"/v2/models/{model}/infer", head + raw, headers)
        answer = self._http.getresponse()
        body = answer.read()
        if answer.status == 503:
            raise Full
        assert answer.status == 200, body
        return {o["name"]: np.array(o["data"]) for o in json.loads(body)["outputs"]}

    def get(self, path: str) -> str:
        """Return a page."""
        self._http.request("GET", path)
        return self._http.getresponse().read().decode()


def kills(folder: Path, z: np.ndarray) -> dict[str, float]:
    """Kill a server again and again; what is answered is lost to at most SAVE_ROWS - 1 rows."""
    rng = np.random.default_rng(0)
    calibrator = wildcal.load(folder / "context.json")
    options = ("--state", "killed", "--save-every", str(SAVE_ROWS), "--window", "64")
    worst, row, wrong = 0, 0, []
    # One uninterrupted stream beside it, taken back to where the server goes on from.
    for number in range(KILLS):
        server = serve(folder, *options)
        client, size = Client(server), int(rng.integers(1, 40))
        state = stream_files(folder / "killed", "context", "s")[1]
        if number:
            ours = wildcal.Stream.load(state, calibrator)  # whole, or this raises
            assert ours.seen == row_of(server, client, z)
            worst = max(worst, row - ours.seen)
            assert row - SAVE_ROWS < ours.seen <= row + 40, (row, ours.seen)
            row = ours.seen
        else:
            ours = wildcal.Stream(calibrator, 64, alarm="sequential")
        answered = [row]

        def load(client=client, size=size, ours=ours, answered=answered) -> None:
            try:
                while True:
                    rows = z[answered[0] % 8000 :][:size]
                    found = client.infer(rows, "s", "confidence", "alarm")
                    expected = ours.read(rows)
                    if (found["confidence"] != expected.confidence).any():
                        wrong.append(answered[0])
                    if (found["alarm"] != expected.alarm).any():
                        wrong.append(answered[0])
                    answered[0] += len(rows)
            except (OSError, http.client.HTTPException):
                pass

        thread = threading.Thread(target=load)
        thread.start()
        time.sleep(float(rng.uniform(0.2, 1.5)))
        server.kill()
        thread.join()
        row = answered[0]
    assert not wrong, f"other bits after rows {wrong[:5]}"
    print(f"{KILLS} kills: no broken file, the same bits, at most {worst} answered rows lost")
    return {"kills": KILLS, "save_rows": SAVE_ROWS, "lost": worst, "rows": row}


def row_of(server: Server, client: Client, z: np.ndarray) -> int:
    """Return the row that the server says it goes on from."""
    found = re.search(r'stream_rows\{model="context",stream="s"\} (\S+)', client.get("/metrics"))
    return int(float(found[1]))


def clients(folder: Path, z: np.ndarray) -> dict[str, float]:
    """Send requests from many clients at once: no row lost, mixed or doubled in any window.

    Half of them go to a window of the client's own, whose numbers must have the bits of a stream
    without a server; half go to one that all share, wide enough to hold every row. Its sums are of
    whole numbers, so they say whether each row is in it once, in whatever order rows came.
    """
    rows_shared = CLIENTS * REQUESTS  # two rows in every second request
    server = serve(folder)
    options = ("--window", str(rows_shared), "--state", "shared", "--save-every", "1000000")
    wide = serve(folder, *options)  # saved at its end alone: a file of all rows
    calibrator, wrong, done = wildcal.load(folder / "context.json"), [], []

    def rows_of(number: int, i: int) -> np.ndarray:
        return z[(number * 997 + i) % 9000 :][:2]

    def send(number: int) -> None:
        own, shared, mine = Client(server), Client(wide), f"own-{number}"
        ours = wildcal.Stream(calibrator, alarm="sequential")
        for i in range(REQUESTS):
            rows = rows_of(number, i)
            if i % 2:
                found = own.infer(rows, mine, "drift", "label")
                if found["drift"].tolist() != ours.read(rows).drift.tolist():
                    wrong.append((number, i))
            else:
                found = shared.infer(rows, "shared", "label")
            if found["label"].tolist() != rows.argmax(axis=1).tolist():
                wrong.append((number, i))
        done.append(number)

    threads = [threading.Thread(target=send, args=(i,)) for i in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == CLIENTS
    assert not wrong, wrong[:5]
    text = Client(server).get("/metrics")
    assert f'wildcal_rows_total{{model="context"}} {float(rows_shared)}' in text
    server.stop()
    wide.stop()
    found = wildcal.Stream.load(stream_files(folder / "shared", "context", "shared")[1], calibrator)
    expected = wildcal.Stream(calibrator, rows_shared)
    for number in range(CLIENTS):
        expected.read(np.concatenate([rows_of(number, i) for i in range(0, REQUESTS, 2)]))
    assert found.seen == rows_shared
    assert found.context == expected.context, "the window has other rows"
    print(f"{CLIENTS} clients x {REQUESTS:,} requests: no row lost, mixed or doubled")
    return {"clients": CLIENTS, "requests": REQUESTS, "rows": 2 * rows_shared}


def memory_of(server: Server) -> float:
    """Return the resident memory of a server, in MB."""
    text = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024


def million(folder: Path, z: np.ndarray) -> dict[str, float]:
    """Send a million rows through one stream: memory does not grow."""
    server = serve(folder)
    client = Client(server)
    for _ in range(20):
        client.infer(z[:5000], "s", "confidence")
    before = memory_of(server)
    for _ in range(ROWS // 5000):
        client.infer(z[:5000], "s", "confidence")
    after = memory_of(server)
    server.stop()
    print(f"{ROWS:,} rows: memory {before:.0f} MB before, {after:.0f} MB after")
    assert after < before + 30
    return {"rows": ROWS, "before_mb": round(before), "after_mb": round(after)}


def rude(folder: Path, z: np.ndarray) -> dict[str, float]:
    """Open and drop connections, and dawdle: the server still answers."""
    server = serve(folder)

    def answered() -> tuple[float, float]:
        """Return the ms until a new client has its answer, and those the server worked for it."""
        start, spent = time.perf_counter(), server.processor_seconds()
        while True:
            try:
                Client(server).infer(z[:1], "s", "label", model="ts")
                break
            except Full:
                time.sleep(0.01)
        return 1e3 * (time.perf_counter() - start), 1e3 * (server.processor_seconds() - spent)

    before = statistics.median(answered()[0] for _ in range(9))
    head = b"POST /v2/models/ts/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n"
    texts = (b"", b"GET", head[:30], head, head + b'{"inputs": [')
    for i in range(RUDE):
        connection = socket.create_connection((server.host, server.port))
        connection.sendall(texts[i % len(texts)])
        connection.close()
    slow = [socket.create_connection((server.host, server.port)) for _ in range(200)]
    for i, connection in enumerate(slow):
        connection.sendall(texts[1 + i % 4])
    waited, worked = answered()  # what was queued before is worked off in this time as well
    for connection in slow:
        connection.close()
    open_files = len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))
    server.stop()
    found = {"before_ms": before, "answered_ms": waited, "worked_ms": worked}
    print(f"{RUDE:,} connections dropped, 200 slow ones: {found}")
    assert open_files < 300, open_files
    return {"dropped": RUDE, "slow": len(slow), **{k: round(v, 1) for k, v in found.items()}}


PARTS = {"kills": kills, "clients": clients, "million": million, "rude": rude}


def main() -> None:
    z = wildcal.suites.load(SUITE).split("test").logits.astype(np.float64)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_calibrators(folder)
        for part in sys.argv[1:] or PARTS:
            keep(part, PARTS[part](folder, z))


if __name__ == "__main__":
    main()
