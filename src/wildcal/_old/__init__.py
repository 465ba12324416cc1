"""Modules that are replaced step by step; not part of the public interface."""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """Import a package when it is first used."""
    if name.startswith("_"):
        raise AttributeError(name)
    return import_module(f"wildcal._old.{name}")
