"""The body of a request: read whole, within its limits of size and time."""

import asyncio
import zlib
from typing import Final

from starlette.types import Receive, Scope

from wildcal._old.serve.limits import Limits
from wildcal._old.serve.refusal import Refusal, bad

_UNPACK: Final = {b"gzip": 16 + zlib.MAX_WBITS, b"deflate": zlib.MAX_WBITS}


class Gone(Exception):
    """The client has left; there is nobody to answer."""


def header(scope: Scope, name: bytes) -> bytes | None:
    """Return the value of a header, its last one if there are several."""
    found = None
    for key, value in scope["headers"]:
        if key == name:
            found = value
    return found


def whole_number(scope: Scope, name: bytes) -> int | None:
    """Return a header that is a whole number, or None if it is not there."""
    value = header(scope, name)
    if value is None:
        return None
    if not value.isdigit() or len(value) > 18:
        raise bad(f"{name.decode()} must be a whole number, got {value[:40]!r}.")
    return int(value)


async def read_body(scope: Scope, receive: Receive, limits: Limits) -> bytes:
    """Return the body, unpacked; raise a Refusal beyond a limit, or Gone."""
    length = whole_number(scope, b"content-length")
    if length is not None and length > limits.body_bytes:
        raise _too_large(limits)
    message = await _next(receive, limits.request_seconds)
    body: bytes = message.get("body", b"")
    if message.get("more_body"):
        body = await _rest(body, receive, limits)
    packing = header(scope, b"content-encoding")
    return body if packing in (None, b"identity") else _unpacked(body, packing, limits)


async def _rest(first: bytes, receive: Receive, limits: Limits) -> bytes:
    parts, size = [first], len(first)
    clock = asyncio.get_running_loop()
    end = clock.time() + limits.request_seconds
    while True:
        message = await _next(receive, end - clock.time())
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limits.body_bytes:
            raise _too_large(limits)
        if not message.get("more_body"):
            return b"".join(parts)


async def _next(receive: Receive, seconds: float) -> dict[str, bytes]:
    try:
        async with asyncio.timeout(seconds):
            message = await receive()
    except TimeoutError:
        raise Refusal(408, "the body took too long to arrive.") from None
    if message["type"] == "http.disconnect":
        raise Gone
    return message  # type: ignore[return-value]


def _unpacked(body: bytes, packing: bytes | None, limits: Limits) -> bytes:
    if packing not in _UNPACK:
        raise Refusal(415, f"content-encoding must be gzip or deflate, got {packing!r:.40}.")
    unpack = zlib.decompressobj(_UNPACK[packing])
    try:
        found = unpack.decompress(body, limits.body_bytes + 1)
    except zlib.error:
        raise bad(f"the body is not {packing.decode()}.") from None
    if len(found) > limits.body_bytes:
        raise _too_large(limits)
    if not unpack.eof:
        raise bad(f"the body is not whole {packing.decode()}.")
    return found


def _too_large(limits: Limits) -> Refusal:
    return Refusal(413, f"a body must have at most {limits.body_bytes:,} bytes.")
