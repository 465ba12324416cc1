"""20,000 requests that are wrong in some way: no 5xx, no traceback, no hang.

    python benchmarks/serve_fuzz.py                  all of it
    python benchmarks/serve_fuzz.py schemathesis     one part: fuzz, schemathesis

Half are a good request with bytes changed, cut out or put in, in its JSON part, its tensor or its
headers; half have values that are off. schemathesis, which must be installed, then makes requests
of the OpenAPI document. What they find goes to benchmarks/serve_campaign.json.
"""

import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from serving import SUITE, Server, keep, save_calibrators, serve

import wildcal

REQUESTS = 20_000
# Of each kind of request, by schemathesis.
EXAMPLES = 30
ODD = (
    None, True, -1, 0, 1e308, 10**400, "", "x", "\u0000", "\ud800", [], {}, [[]], [None], "FP32",
    float("nan"), float("inf"), -0.5, 2**63, "<script>", [1] * 50, {"a": {"a": {"a": 1}}}, "BF16",
)  # fmt: skip


def good(rng: np.random.Generator, z: np.ndarray) -> tuple[dict, bytes]:
    """Return the JSON part and the bytes of a good request."""
    rows = z[rng.integers(0, len(z), rng.integers(1, 4))]
    kind, code = (("FP16", "<f2"), ("FP32", "<f4"), ("FP64", "<f8"))[rng.integers(3)]
    entry = {"name": "logits", "datatype": kind, "shape": list(rows.shape)}
    document = {
        "id": "a", "parameters": {"stream": f"s{rng.integers(5)}"}, "inputs": [entry],
        "outputs": [{"name": "confidence", "parameters": {"binary_data": bool(rng.integers(2))}}],
    }  # fmt: skip
    if rng.integers(2):
        entry["data"] = rows.ravel().astype(float).tolist()
        return document, b""
    raw = rows.astype(code).tobytes()
    entry["parameters"] = {"binary_data_size": len(raw)}
    return document, raw


def places(value, path=()):
    """Yield the paths to everything in a document."""
    yield path
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, item in items:
        yield from places(item, (*path, key))


def odd_document(rng: np.random.Generator, document: dict) -> bytes:
    """Return a document with a value replaced, or a key left out or added."""
    found = [path for path in places(document) if path]
    for _ in range(rng.integers(1, 4)):
        path, at = found[rng.integers(len(found))], document
        try:
            for key in path[:-1]:
                at = at[key]
            if rng.integers(3) == 0 and isinstance(at, dict):
                at.pop(path[-1])
            else:
                at[path[-1]] = ODD[rng.integers(len(ODD))]
        except (KeyError, IndexError, TypeError):
            continue  # it went with an earlier change
    return json.dumps(document).encode("utf-8", "surrogatepass")


def odd_bytes(rng: np.random.Generator, body: bytes) -> bytes:
    """Return a body with bytes changed, cut out or put in."""
    text = bytearray(body)
    for _ in range(rng.integers(1, 6)):
        at = int(rng.integers(0, len(text) + 1))
        match rng.integers(3):
            case 0:
                text[at : at + 1] = rng.bytes(1)
            case 1:
                del text[at : at + int(rng.integers(1, 20))]
            case _:
                text[at:at] = rng.bytes(int(rng.integers(1, 9)))
    return bytes(text)


def fuzz(server: Server) -> dict[str, int]:
    """Send good requests with something changed."""
    z = wildcal.suites.load(SUITE).split("test").logits
    rng, seen = np.random.default_rng(0), Counter()
    client = http.client.HTTPConnection(server.host, server.port, timeout=30)
    for i in range(REQUESTS):
        document, raw = good(rng, z)
        head = json.dumps(document).encode() if i % 2 else odd_document(rng, document)
        headers = {"Inference-Header-Content-Length": str(len(head))} if raw else {}
        body = odd_bytes(rng, head + raw) if i % 2 else head + raw
        if rng.integers(20) == 0:
            headers["Inference-Header-Content-Length"] = str(rng.integers(-5, 10**6))
        model = ("context", "ts")[rng.integers(2)]
        path = ("infer", "infer", "infer", "feedback")[rng.integers(4)]
        client.request("POST", f"/v2/models/{model}/{path}", body, headers)
        answer = client.getresponse()
        text = answer.read()
        seen[answer.status] += 1
        assert answer.status < 500, (answer.status, body, headers, text)
        assert answer.status == 200 or "\n" not in json.loads(text)["error"]
    print(f"{REQUESTS:,} requests: {dict(sorted(seen.items()))}")
    return {"requests": REQUESTS, "right": seen[200], "refused": REQUESTS - seen[200]}


def schemathesis(server: Server) -> dict[str, int]:
    """Let schemathesis make requests of the OpenAPI document, to its end."""
    tool = str(Path(sys.executable).parent / "schemathesis")
    words = [tool, "run", f"{server.url}/openapi.json", "-n", str(EXAMPLES), "--seed", "0"]
    words += ["--checks", "not_a_server_error"]
    done = subprocess.run(words, capture_output=True, text=True)
    print("\n".join(done.stdout.splitlines()[-30:]))
    assert done.returncode == 0
    return {"requests": int(re.search(r"([\d,]+) generated", done.stdout)[1].replace(",", ""))}


PARTS = {"fuzz": fuzz, "schemathesis": schemathesis}


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_calibrators(folder)
        for part in sys.argv[1:] or PARTS:
            server = serve(folder)
            found = PARTS[part](server)
            assert server.stop() == 0
            said = "\n".join(server.said)
            assert "Traceback" not in said, said
            keep(part, found)


if __name__ == "__main__":
    main()
