"""A log that a flood of requests does not flood."""

import logging


class Rarely(logging.Filter):
    """Lets a message that comes again and again through at its 1st, 10th, 100th, ... time.

    uvicorn says of each request beyond the limit of connections that it is. Whoever reads the log
    may be slow, and a server that waits for them answers nobody.

    Examples
    --------
    >>> rarely = Rarely("too many")
    >>> record = logging.LogRecord("uvicorn.error", logging.WARNING, "", 0, "too many", None, None)
    >>> [time for time in range(1, 1001) if rarely.filter(record)]
    [1, 10, 100, 1000]
    >>> record.getMessage()
    'too many (1,000 times)'
    """

    def __init__(self, message: str) -> None:
        super().__init__()
        self._message, self._times = message, 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a message goes into the log."""
        if not record.msg.startswith(self._message):
            return True
        self._times += 1
        if self._times > 1:
            record.msg = f"{self._message} ({self._times:,} times)"
        return str(self._times).strip("0") == "1"
