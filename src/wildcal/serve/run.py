"""The server as a process: uvicorn, with our limits."""

import socket
from collections.abc import Callable
from contextlib import suppress

import uvicorn

from wildcal.serve.app import Service


def listen(host: str, port: int, backlog: int) -> socket.socket:
    """Return a listening socket; port 0 is a free one.

    asyncio sets TCP_NODELAY only on sockets whose protocol is TCP, and without it each answer on a
    connection that is kept open waits for the delayed acknowledgement of the one before.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(backlog)
    except OSError as error:
        listener.close()
        raise OSError(f"cannot listen on {host} port {port}: {error.strerror}.") from error
    return listener


def run(service: Service, host: str, port: int, say: Callable[[str], None]) -> bool:
    """Serve until SIGTERM or SIGINT; return whether all streams were saved then.

    Requests that are under way are answered first.
    """
    limit = service.settings.max_connections
    config = uvicorn.Config(
        service.app,
        http="httptools",
        limit_concurrency=limit,
        backlog=limit,
        timeout_graceful_shutdown=10,
        server_header=False,
        access_log=False,
        log_level="warning",
        lifespan="on",
    )
    listener = listen(host, port, limit)
    shown = f"[{host}]" if ":" in host else host
    names = ", ".join(service.models)
    say(f"Serving {names} on http://{shown}:{listener.getsockname()[1]}")
    with suppress(KeyboardInterrupt):  # uvicorn raises the signal again after the shutdown
        uvicorn.Server(config).run(sockets=[listener])
    return service.saved
