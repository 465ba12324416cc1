"""Modules that are replaced step by step; not part of the public interface."""

from importlib import import_module
from pathlib import Path
from typing import Any


def __getattr__(name: str) -> Any:
    """Import a package when it is first used."""
    if not (Path(__file__).parent / name).is_dir():
        raise AttributeError(name)
    return import_module(f"wildcal._old.{name}")
