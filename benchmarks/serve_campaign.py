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
        body = json.loads(answer.read())
        assert answer.status == 200, body
        return {o["name"]: np.array(o["data"]) for o in body["outputs"]}

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
    """Send requests from many clients at once: no row lost, mixed or doubled in any window."""
    server = serve(folder)
    done, counts = [], np.zeros(CLIENTS, int)

    def send(number: int) -> None:
        client, mine = Client(server), f"own-{number}"
        ours = wildcal.Stream(wildcal.load(folder / "context.json"), alarm="sequential")
        for i in range(REQUESTS):
            rows = z[(number * 997 + i) % 9000 :][:2]
            if i % 2:
                found = client.infer(rows, mine, "drift", "label")
                assert found["drift"].tolist() == ours.read(rows).drift.tolist()
            else:
                found = client.infer(rows, "shared", "label")
            assert found["label"].tolist() == rows.argmax(axis=1).tolist()
            counts[number] += 2
        done.append(number)

    threads = [threading.Thread(target=send, args=(i,)) for i in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    text = Client(server).get("/metrics")
    assert len(done) == CLIENTS
    assert (
        f'wildcal_stream_rows{{model="context",stream="shared"}} {CLIENTS * REQUESTS:.1f}' in text
    )
    assert f'wildcal_rows_total{{model="context"}} {2.0 * CLIENTS * REQUESTS}' in text
    server.stop()
    print(f"{CLIENTS} clients x {REQUESTS:,} requests: no row lost, mixed or doubled")
    return {"clients": CLIENTS, "requests": REQUESTS}


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
    head = b"POST /v2/models/ts/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n"
    texts = (b"", b"GET", head[:30], head, head + b'{"inputs": [')
    for i in range(RUDE):
        connection = socket.create_connection((server.host, server.port))
        connection.sendall(texts[i % len(texts)])
        connection.close()
    slow = [socket.create_connection((server.host, server.port)) for _ in range(200)]
    for i, connection in enumerate(slow):
        connection.sendall(texts[1 + i % 4])
    start = time.perf_counter()
    Client(server).infer(z[:1], "s", "label", model="ts")
    waited = time.perf_counter() - start
    for connection in slow:
        connection.close()
    open_files = len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))
    server.stop()
    print(f"{RUDE:,} connections dropped, 200 slow ones: answered in {1e3 * waited:.0f} ms")
    assert open_files < 300, open_files
    return {"dropped": RUDE, "slow": len(slow), "answered_ms": round(1e3 * waited)}


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
