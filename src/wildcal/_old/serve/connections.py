"""Connections that dawdle: the head of a request has limits of size and time."""

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from wildcal._old.serve.limits import Limits


def guarded(limits: Limits) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol, which closes a connection whose head does not come to an end."""

    class Guarded(AutoHTTPProtocol):  # type: ignore[misc,valid-type]
        """A connection that is watched until its head is whole."""

        _head: asyncio.TimerHandle | None = None
        _bytes = 0

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._watch()

        def data_received(self, data: bytes) -> None:
            cycle = self.cycle
            if self._head is None and (cycle is None or cycle.response_complete):
                self._watch()  # the next request on a connection that was kept
            super().data_received(data)
            if self.cycle is not cycle:
                self._forget()
            elif self._head is not None:
                self._bytes += len(data)
                if self._bytes > limits.header_bytes:
                    self.transport.close()

        def connection_lost(self, exc: Exception | None) -> None:
            self._forget()
            super().connection_lost(exc)

        def _watch(self) -> None:
            self._bytes = 0
            loop = asyncio.get_running_loop()
            self._head = loop.call_later(limits.header_seconds, self.transport.close)

        def _forget(self) -> None:
            if self._head is not None:
                self._head.cancel()
                self._head = None

    return Guarded
