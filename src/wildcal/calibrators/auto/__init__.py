"""A mixture of calibrators that always keeps the network's own softmax: it does no harm."""

from wildcal.calibrators.auto.calibrator import AutoCalibrator

__all__ = ["AutoCalibrator"]
