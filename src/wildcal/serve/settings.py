"""Settings of a server."""

from dataclasses import dataclass
from pathlib import Path

from wildcal.core.exceptions import InputError
from wildcal.monitor.monitor import DEFAULT_RATE, DEFAULT_WINDOW


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Options and limits of a server."""

    window: int = DEFAULT_WINDOW
    false_alert_rate: float = DEFAULT_RATE
    tokens: tuple[str, ...] = ()
    """Bearer tokens that are accepted; without any, no token is needed."""
    hosts: tuple[str, ...] = ()
    """Names accepted in the Host header, besides localhost and IP addresses. Only without tokens,
    against DNS rebinding."""
    state: Path | None = None
    """Folder of the streams; None keeps them in memory."""
    save_seconds: float | None = 10.0
    save_samples: int | None = None
    """A request is answered after it is saved if so many samples of its stream are not."""
    on_alert: str | None = None
    """Command or http address that gets alerts as JSON."""
    max_streams: int = 1_000
    """In memory; the least recently used ones go to disk."""
    max_saved_streams: int = 100_000
    max_samples: int = 65_536
    """Of one request."""
    max_bytes: int = 1 << 24
    """Of the body of one request, also after decompression."""
    max_seconds: float = 30.0
    """To read the body of one request."""
    max_connections: int = 1_000
    max_pending: int = 100_000
    """Samples that are kept until their labels arrive."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name.startswith("max_") and not value > 0:
                raise InputError(f"{name} must be positive, got {value}.", name)
