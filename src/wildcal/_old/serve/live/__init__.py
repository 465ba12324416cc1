"""The live page: one document that asks nobody but its own server, and the events that feed it."""

from wildcal._old.serve.live.events import Events
from wildcal._old.serve.live.page import PAGE, POLICY

__all__ = ["PAGE", "POLICY", "Events"]
