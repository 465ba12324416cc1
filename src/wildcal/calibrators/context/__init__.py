"""Context scaling in its two forms, and the context of a window of rows."""

from wildcal.calibrators.context.rolling import WindowMap
from wildcal.calibrators.context.scaling import ContextScaling
from wildcal.calibrators.context.window import Context, RowStatistics

__all__ = ["Context", "ContextScaling", "RowStatistics", "WindowMap"]
