"""Commands that need more than the plain install."""

from collections.abc import Iterator
from contextlib import contextmanager

from wildcal._old.core.errors import MissingExtraError


@contextmanager
def needs_extra() -> Iterator[None]:
    """Turn a failed import inside a `with` block into an error that carries the pip line."""
    try:
        yield
    except ImportError as error:
        raise MissingExtraError(str(error)) from error
