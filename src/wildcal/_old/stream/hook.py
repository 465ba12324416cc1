"""Who is told when the alarm rises: a command, or an address."""

import json
import shlex
import subprocess
import urllib.request
from collections.abc import Mapping
from typing import Any, Final

_SECONDS: Final = 10.0


class Hook:
    """Tells a command (on its standard input) or an address (by POST) of an event, as JSON.

    The command is what the operator wrote, split into words; nothing of the event becomes part of
    it, and no shell reads it.
    """

    def __init__(self, target: str) -> None:
        self.is_address = target.startswith(("http://", "https://"))
        self.target = target
        self._words = [] if self.is_address else shlex.split(target)
        if not self.is_address and not self._words:
            raise ValueError("a command or an http:// address must be given, got nothing.")

    def tell(self, event: Mapping[str, Any]) -> None:
        """Tell of one event and wait for it; raise an OSError that says what went wrong."""
        text = json.dumps(dict(event)).encode()
        if self.is_address:
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(self.target, text, headers)
            with urllib.request.urlopen(request, timeout=_SECONDS):
                return
        try:
            done = subprocess.run(
                self._words, input=text, timeout=_SECONDS, stdout=subprocess.DEVNULL
            )
        except subprocess.TimeoutExpired:
            raise OSError(f"it ran for more than {_SECONDS:g} s") from None
        if done.returncode:
            raise OSError(f"it ended with exit code {done.returncode}")
