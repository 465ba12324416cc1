"""Requests that are wrong in some way, to the application in this process: no 5xx, no wrong 200."""

import asyncio
import functools
import json
from typing import Any

import numpy as np
from benchmarks.campaign.attack import Attack, FindingError, Target
from benchmarks.campaign.calibrator_files import labeled
from benchmarks.campaign.mutants import broken_bytes, mutant

Rng = np.random.Generator
Headers = dict[str, str]
_HEAD = "inference-header-content-length"
_TYPES = (("FP16", "<f2"), ("FP32", "<f4"), ("FP64", "<f8"))


@functools.cache
def _app() -> Any:
    from wildcal import ContextScaling, make_calibrator
    from wildcal.interop.asgi import app

    logits, y, environment = labeled()
    window = ContextScaling().fit(logits, y, environment=environment)
    return app({"context": window, "ts": make_calibrator("ts").fit(logits, y)})


def _ask(method: str, path: str, headers: Headers, body: bytes) -> tuple[int, bytes]:
    """Return status and body of the answer, as a server would send it."""
    scope = {
        "type": "http", "http_version": "1.1", "method": method, "scheme": "http", "path": path,
        "raw_path": path.encode(), "query_string": b"", "root_path": "",
        "headers": [(k.encode(), v.encode()) for k, v in headers.items()],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2),
    }  # fmt: skip
    parts, status = [], 0
    pieces = [body[: len(body) // 2], body[len(body) // 2 :]]

    async def receive() -> dict[str, Any]:
        if not pieces:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

    async def send(message: Any) -> None:
        nonlocal status
        status = message.get("status", status)
        parts.append(message.get("body", b""))

    asyncio.run(_app()(scope, receive, send))
    return status, b"".join(parts)


def _good(rng: Rng) -> tuple[dict[str, Any], bytes]:
    """Return the JSON part and the bytes of a good request."""
    rows = labeled(60)[0][: int(rng.integers(1, 5))]
    kind, code = _TYPES[int(rng.integers(3))]
    entry: dict[str, Any] = {"name": "logits", "datatype": kind, "shape": list(rows.shape)}
    wanted = {"name": "confidence", "parameters": {"binary_data": bool(rng.integers(2))}}
    document = {"id": "a", "parameters": {"stream": "s"}, "inputs": [entry], "outputs": [wanted]}
    if rng.integers(2):
        entry["data"] = rows.ravel().tolist()
        return document, b""
    raw = rows.astype(code).tobytes()
    entry["parameters"] = {"binary_data_size": len(raw)}
    return document, raw


def _check(status: int, body: bytes) -> None:
    if not 200 <= status < 500:
        raise FindingError(f"status {status}: {body[:120]!r}")
    if status >= 400:
        said = json.loads(body)["error"]
        if "\n" in said or "Traceback" in said:
            raise FindingError(f"an error of several lines: {said[:120]!r}")
        raise ValueError(said)
    if b"NaN" in body or b"Infinity" in body:
        raise FindingError("a number that is not finite")


def _wrong(rng: Rng) -> None:
    document, raw = _good(rng)
    by_structure = bool(rng.integers(2))
    head = json.dumps(mutant(document, rng) if by_structure else document).encode()
    headers = {_HEAD: str(len(head))} if raw else {}
    if rng.integers(10) == 0:
        headers[_HEAD] = str(rng.choice(["-1", "0", "7", "1e3", "", "9" * 30, str(len(head) + 1)]))
    body = head + raw
    if not by_structure:
        body = broken_bytes(body, rng)
    model = str(rng.choice(["context", "ts", "gone", "..%2f", "%00"]))
    path = str(rng.choice(["infer", "infer", "infer", "feedback", "ready", "config"]))
    method = "POST" if path in ("infer", "feedback") else "GET"
    _check(*_ask(method, f"/v2/models/{model}/{path}", headers, body))


def _body() -> bytes:
    document, _ = _good(np.random.default_rng(4))
    return json.dumps(document).encode()


def _read(body: bytes) -> None:
    _check(*_ask("POST", "/v2/models/ts/infer", {}, body))


def _available() -> bool:
    try:
        _app()
    except ImportError:
        return False
    return True


def _attack(rng: Rng) -> None:
    if _available():
        _wrong(rng)


ATTACKS = [Attack("server/requests", _attack, (ValueError,), target=Target(_body, _read))]
