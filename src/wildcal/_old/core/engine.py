"""Where a walk over rows is done: in the threads of this process, or where the rows are.

Rows that are arrays are here. A source that says ``portable = True`` can be read by other processes
too, such as the workers of a cluster; an engine then does the groups of a walk there.
"""

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from wildcal._old.core.blocks import Walk


class Engine(Protocol):
    """What does the groups of a walk."""

    def run(self, walk: "Walk", source: Any) -> Iterable[Any]:
        """Return walk.group(number) of every group, in their order."""


Watcher: TypeAlias = Callable[[int, int], None]
"""Told how many groups of a walk are done, and how many there are."""

_watcher: ContextVar[Watcher | None] = ContextVar("wildcal_watcher", default=None)
_chosen: ContextVar[Engine | None] = ContextVar("wildcal_engine", default=None)


@contextmanager
def use_engine(engine: Engine | None) -> Iterator[None]:
    """Do walks with an engine inside a `with` block; results do not depend on it."""
    token = _chosen.set(engine)
    try:
        yield
    finally:
        _chosen.reset(token)


@contextmanager
def watched_by(watcher: Watcher) -> Iterator[None]:
    """Tell a function how far each long walk is, inside a `with` block."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def watched(groups: Iterable[Any], total: int) -> Iterable[Any]:
    """Return the results of groups as they come; who watches is told of each."""
    watcher = _watcher.get()
    return groups if watcher is None else _counted(groups, total, watcher)


def _counted(groups: Iterable[Any], total: int, watcher: Watcher) -> Iterator[Any]:
    for done, group in enumerate(groups, start=1):
        watcher(done, total)
        yield group


def engine_of(source: Any) -> Engine | None:
    """Return what does walks over a source; None for the threads of this process."""
    if not getattr(source, "portable", False):
        return None
    chosen = _chosen.get()
    if chosen is None and "distributed" in sys.modules:  # then a client may be active
        found: Engine | None = importlib.import_module("wildcal._old.engine").active()
        return found
    return chosen
