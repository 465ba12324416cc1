"""What stands before every route: tokens, and no orders from other people's web pages."""

from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from wildcal._old.serve.body import header
from wildcal._old.serve.replies import refuse
from wildcal._old.serve.tokens import Tokens

# Probes carry no token; the page holds no numbers and asks for one.
OPEN: Final = frozenset({"/", "/v2/health/live", "/v2/health/ready"})


class Guard:
    """Lets a request through if it may come in."""

    def __init__(self, app: ASGIApp, tokens: Tokens, first: Callable[[], None]) -> None:
        self._app, self._tokens = app, tokens
        self._first: Callable[[], None] | None = first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 401 or 403, or hand the request on."""
        if scope["type"] == "http":
            if self._first is not None:
                self._first()
                self._first = None
            # A browser names the page that a request comes from; our own has the same host.
            origin = header(scope, b"origin")
            if origin is not None and not _same_host(origin, header(scope, b"host")):
                await refuse(send, 403, "requests from other web pages are refused.")
                return
            path = scope["path"].removeprefix(scope.get("root_path", ""))
            if path not in OPEN and not self._tokens.accept(header(scope, b"authorization") or b""):
                challenge = (b"www-authenticate", b"Bearer")
                await refuse(send, 401, "a token is needed: Authorization: Bearer ...", challenge)
                return
        await self._app(scope, receive, send)


def _same_host(origin: bytes, host: bytes | None) -> bool:
    try:
        return urlsplit(origin.decode("ascii")).netloc == (host or b"").decode("ascii")
    except ValueError:
        return False
