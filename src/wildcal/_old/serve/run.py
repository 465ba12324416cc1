"""The server as a process: uvicorn, with our limits."""

import logging
import socket
from collections.abc import Callable, Sequence
from types import FrameType

import uvicorn

from wildcal._old.serve.app import Service, Settings
from wildcal._old.serve.connections import guarded
from wildcal._old.serve.log import Rarely
from wildcal._old.serve.model import Model


def run(
    models: Sequence[Model], settings: Settings, host: str, port: int, say: Callable[[str], None]
) -> None:
    """Serve until a signal comes; what is on its way is answered, and windows are saved.

    Parameters
    ----------
    models, settings
        What is served, and how.
    host, port
        Where; port 0 takes one that is free.
    say
        Told the address, once it can be reached.
    """
    service = Service(models, settings)
    # So many are accepted before any of them is looked at, and some of these have left by then.
    queue = max(settings.limits.connections // 2, 1)
    config = uvicorn.Config(
        service.app(),
        http=guarded(settings.limits),
        limit_concurrency=settings.limits.connections,
        backlog=queue,
        timeout_graceful_shutdown=10,
        h11_max_incomplete_event_size=settings.limits.header_bytes,
        server_header=False,
        access_log=False,
        log_level="warning",
        lifespan="on",
    )
    logging.getLogger("uvicorn.error").addFilter(Rarely("Exceeded concurrency limit."))
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(queue)  # so that nobody is turned away from now on
    except OSError as error:
        raise OSError(f"cannot listen on {host} port {port}: {error.strerror}.") from error
    shown = f"[{host}]" if family == socket.AF_INET6 else host
    say(
        f"Serving {', '.join(m.name for m in models)} on http://{shown}:{listener.getsockname()[1]}"
    )
    _Server(config, service).run(sockets=[listener])


class _Server(uvicorn.Server):
    """uvicorn, which lets readers of the page go when a signal comes."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop."""
        self._service.events.close()
        super().handle_exit(sig, frame)
