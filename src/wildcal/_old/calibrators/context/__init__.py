"""Context scaling in its two forms, and the context of a window of rows."""

from wildcal._old.calibrators.context.rolling import WindowMap
from wildcal._old.calibrators.context.scaling import ContextScaling
from wildcal._old.calibrators.context.window import Context, RowStatistics

__all__ = ["Context", "ContextScaling", "RowStatistics", "WindowMap"]
