"""Monitor a stream of predictions: drift, estimated and realized accuracy."""

from wildcal.monitor.monitor import Monitor, MonitorResult, MonitorStatus

__all__ = ["Monitor", "MonitorResult", "MonitorStatus"]
