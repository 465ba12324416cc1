"""Send an alert to a command or a web address."""

import json
import subprocess
import urllib.request
from collections.abc import Mapping
from typing import Any, Final

_SECONDS: Final = 10.0


def notify(target: str, event: Mapping[str, Any]) -> None:
    """Send an event as JSON to the standard input of a command, or by POST to an http address.

    The command runs through the shell. Nothing of the event becomes part of it.

    Raises
    ------
    OSError
        If the command fails or takes more than ten seconds, or the address does not accept it.
    """
    text = json.dumps(dict(event)).encode()
    if target.startswith(("http://", "https://")):
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(target, text, headers)
        with urllib.request.urlopen(request, timeout=_SECONDS):
            return
    try:
        done = subprocess.run(
            target, shell=True, input=text, timeout=_SECONDS, stdout=subprocess.DEVNULL, check=False
        )
    except subprocess.TimeoutExpired:
        raise OSError(f"it ran for more than {_SECONDS:g} s") from None
    if done.returncode:
        raise OSError(f"it ended with exit code {done.returncode}")
