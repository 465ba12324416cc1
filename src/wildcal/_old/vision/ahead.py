"""Prepare the next images while the network works on these."""

from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context

from wildcal._old.vision.batches import Pixels


def ahead(images: Iterable[Pixels]) -> Iterator[Pixels]:
    """Yield the same, but let a thread prepare the next while the network works on this one."""
    iterator = iter(images)
    with ThreadPoolExecutor(1, thread_name_prefix="wildcal-images") as pool:

        def ask() -> "Future[Pixels | None]":
            # A copy of the context, because the number of threads is set in it.
            return pool.submit(copy_context().run, lambda: next(iterator, None))

        coming = ask()
        while (ready := coming.result()) is not None:
            coming = ask()
            yield ready
