"""Exceptions and warnings."""

from collections.abc import Iterator
from contextlib import contextmanager


class WildcalError(Exception):
    """Base class of the errors of this package."""


class InputError(WildcalError, ValueError):
    """An argument has a value that is not allowed; `param` is the name of the argument."""

    def __init__(self, message: str, param: str | None = None):
        super().__init__(message)
        self.param = param


class NotFittedError(WildcalError, ValueError, AttributeError):
    """A calibrator was used before `fit`."""


class MissingExtraError(WildcalError, ImportError):
    """An optional dependency is not installed; the message has the pip command."""


@contextmanager
def needs_extra(what: str, extra: str) -> Iterator[None]:
    """Explain which extra to install if an import in the block fails."""
    try:
        yield
    except ImportError as error:
        raise MissingExtraError(
            f'{what} needs {error.name}. Install it with: pip install "wildcal[{extra}]"'
        ) from error


class FileFormatError(WildcalError, ValueError):
    """A file cannot be read: wrong format, damaged, or written by another version."""


class CalibrationWarning(UserWarning):
    """Warning about a usable but questionable fit."""


class ConvergenceWarning(CalibrationWarning):
    """The optimizer stopped before it reached its tolerance."""
