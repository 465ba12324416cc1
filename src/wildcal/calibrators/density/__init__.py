"""Density-aware calibration: a temperature from the distances to training rows."""

from wildcal.calibrators.density.calibrator import DensityAware, Neighbor

__all__ = ["DensityAware", "Neighbor"]
