"""How many threads the kernels use. NumPy releases the lock, so plain threads are enough."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Item = TypeVar("Item")

# More threads than this only fight over memory bandwidth.
_MOST = 8

_threads: ContextVar[int | None] = ContextVar("wildcal_threads", default=None)


# Set in the threads of `run_parts`, whose work must not start threads of its own.
_inside = threading.local()


def thread_count() -> int:
    """Return the number of threads in force: `use_threads`, WILDCAL_THREADS, or the cores."""
    if getattr(_inside, "busy", False):
        return 1
    chosen = _threads.get()
    if chosen is None:
        text = os.environ.get("WILDCAL_THREADS", "")
        chosen = int(text) if text.isdigit() and int(text) > 0 else None
    return chosen or min(_MOST, len(os.sched_getaffinity(0)) if _HAS_AFFINITY else _cores())


_HAS_AFFINITY = hasattr(os, "sched_getaffinity")


def _cores() -> int:
    return os.cpu_count() or 1


@contextmanager
def use_threads(n: int) -> Iterator[None]:
    """Set the number of kernel threads inside a `with` block; results do not depend on it."""
    if n < 1:
        raise ValueError(f"the number of threads must be at least 1, got {n}.")
    token = _threads.set(n)
    try:
        yield
    finally:
        _threads.reset(token)


def run_parts(work: Callable[[Sequence[Item]], None], items: Sequence[Item], threads: int) -> None:
    """Call `work` once per thread on consecutive runs of `items`, and wait for all of them."""
    threads = min(threads, len(items))
    if threads <= 1:
        work(items)
        return
    size = -(-len(items) // threads)
    parts = [items[i : i + size] for i in range(0, len(items), size)]
    with ThreadPoolExecutor(
        threads, thread_name_prefix="wildcal", initializer=lambda: setattr(_inside, "busy", True)
    ) as pool:
        for result in [pool.submit(work, part) for part in parts]:
            result.result()
