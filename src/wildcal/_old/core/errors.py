"""The errors of 0.2, and two that go with their callers."""

from wildcal.core.exceptions import (
    CalibrationWarning,
    ConvergenceWarning,
    FileFormatError,
    MissingExtraError,
    NotFittedError,
    WildcalError,
)

__all__ = [
    "CalibrationWarning",
    "ConvergenceWarning",
    "EngineError",
    "FileFormatError",
    "MissingExtraError",
    "NotFittedError",
    "TooLargeError",
    "WildcalError",
]


class EngineError(WildcalError, RuntimeError):
    """A cluster cannot do the work: it is gone, empty, or of another version."""


class TooLargeError(WildcalError, ValueError):
    """Samples do not fit in memory; the message says what to do."""
