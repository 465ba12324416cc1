"""Middleware that checks tokens and the headers Host and Origin."""

import hmac
import ipaddress
from functools import lru_cache
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from wildcal.core.exceptions import FileFormatError
from wildcal.serve.settings import Settings

# Paths without a token: probes, and the page, which asks for one before it loads its data.
OPEN: Final = frozenset({"/", "/v2/health/live", "/v2/health/ready"})
_SHORTEST: Final = 16


class Security:
    """Refuse requests without a token, or with another Host or Origin header."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app, self._settings = app, settings
        self._tokens = [token.encode() for token in settings.tokens]
        self._hosts = {"localhost", *(host.lower() for host in settings.hosts)}
        self._is_known = lru_cache(100)(self._find)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 401 or 403, or pass the request on."""
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1")
        # Browsers send the origin of a page; the live page has the same host as the server.
        origin = headers.get(b"origin")
        if origin is not None and origin.decode("latin-1").partition("://")[2] != host:
            return JSONResponse({"error": "requests of other web pages are refused."}, 403)
        if self._tokens:
            path = scope["path"].removeprefix(scope.get("root_path", ""))
            if path in OPEN or self._accepts(headers.get(b"authorization", b"").decode("latin-1")):
                return None
            message = "a token is needed: Authorization: Bearer TOKEN."
            return JSONResponse({"error": message}, 401, {"www-authenticate": "Bearer"})
        # Against DNS rebinding: an attacker can point any name at this machine.
        if not self._is_known(host):
            message = "the Host header must be localhost, an IP address or of --allow-host."
            return JSONResponse({"error": message}, 403)
        return None

    def _accepts(self, authorization: str) -> bool:
        scheme, _, given = authorization.partition(" ")
        # All are compared, so the time does not depend on which one matches.
        matches = [hmac.compare_digest(given.strip().encode(), token) for token in self._tokens]
        return any(matches) and scheme.lower() == "bearer"

    def _find(self, host: str) -> bool:
        """Return whether the Host header is an IP address or a name that is accepted."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
            return name in self._hosts or bool(ipaddress.ip_address(name))
        except ValueError:
            return False


def read_tokens(path: Path) -> tuple[str, ...]:
    """Return the tokens in a file, one a line; empty lines and those with # are left out."""
    lines = [line.strip() for line in path.read_text("utf-8", errors="replace").splitlines()]
    tokens = tuple(line for line in lines if line and not line.startswith("#"))
    if not tokens or not all(len(token) >= _SHORTEST and token.isascii() for token in tokens):
        raise FileFormatError(
            f"{path} must have one token per line, each of at least {_SHORTEST} ASCII characters."
            " Try: python -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    return tokens
