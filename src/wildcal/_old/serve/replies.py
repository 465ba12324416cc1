"""How answers go out, and how errors are said: one line of JSON."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.types import Receive, Scope, Send

from wildcal._old.serve.body import Gone
from wildcal._old.serve.refusal import Refusal

Headers = list[tuple[bytes, bytes]]
Handler = Callable[[Scope, Receive], Awaitable[tuple[Headers, bytes]]]


async def reply(send: Send, status: int, headers: Headers, body: bytes) -> None:
    """Send a whole answer."""
    headers = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def as_json(document: Any) -> tuple[Headers, bytes]:
    """Return a document as headers and a body."""
    return [(b"content-type", b"application/json")], json.dumps(document, allow_nan=False).encode()


async def refuse(send: Send, status: int, message: str, *more: tuple[bytes, bytes]) -> None:
    """Send an error, in the form that clients of the protocol read."""
    headers, body = as_json({"error": message})
    if status in (408, 413):  # what is still on its way is not waited for
        headers.append((b"connection", b"close"))
    await reply(send, status, [*headers, *more], body)


def status_of(error: Exception) -> int:
    """Return the status that an error is answered with; input errors are the client's."""
    return error.status if isinstance(error, Refusal) else 400


class Route:
    """An ASGI application for a route, of a function that returns headers and a body."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; an input error is the client's, and says so."""
        try:
            headers, body = await self._handler(scope, receive)
        except Gone:
            return
        except (Refusal, ValueError) as error:
            await refuse(send, status_of(error), " ".join(str(error).split()))
            return
        await reply(send, 200, headers, body)
