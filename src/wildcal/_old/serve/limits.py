"""How much a client may ask for; what is beyond gets an answer and costs no memory."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a server; `wildcal serve` has flags for those that are often set."""

    body_bytes: int = 1 << 24
    """Of one request, also after it was unpacked."""
    rows: int = 65_536
    """Of one request."""
    streams: int = 1_000
    """Windows in memory; the least recently used go to disk."""
    saved_streams: int = 100_000
    """Windows on disk; a stream beyond is refused."""
    connections: int = 1_000
    """Open at one time; further requests are answered with 503."""
    header_bytes: int = 32_768
    header_seconds: float = 10.0
    """From the first byte of a request to the end of its head."""
    request_seconds: float = 30.0
    """From the end of the head to the end of the body."""
    feedback_rows: int = 100_000
    """Answers that are remembered until their labels come."""

    def __post_init__(self) -> None:
        """Raise a ValueError for a limit of nothing."""
        for limit in fields(self):
            if not getattr(self, limit.name) > 0:
                raise ValueError(f"{limit.name} must be above 0, got {getattr(self, limit.name)}.")
