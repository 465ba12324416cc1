"""The errors and warnings that wildcal raises on purpose."""


class WildcalError(Exception):
    """Base of the errors that are not plain ValueErrors."""


class NotFittedError(WildcalError, ValueError, AttributeError):
    """A calibrator was used before `fit`; also what scikit-learn's own error is."""


class MissingExtraError(WildcalError, ImportError):
    """An optional dependency is not installed; the message has the pip line."""


class FileFormatError(WildcalError, ValueError):
    """A file could not be read: wrong kind, damaged, or made by an unknown version."""


class CalibrationWarning(UserWarning):
    """The fit is usable, but something about it deserves a look."""


class ConvergenceWarning(CalibrationWarning):
    """The solver stopped before it reached its tolerance."""


class EngineError(WildcalError, RuntimeError):
    """A cluster cannot do the work: it is gone, empty, or of another version."""


class TooLargeError(WildcalError, ValueError):
    """Rows that a method has to hold have no room in memory; the message says what to do."""
