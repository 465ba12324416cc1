"""Monitor a stream of predictions: drift, estimated and realized accuracy."""

from wildcal.monitor.monitor import Monitor
from wildcal.monitor.result import MonitorResult, MonitorStatus

__all__ = ["Monitor", "MonitorResult", "MonitorStatus"]
