"""Density-aware calibration: a temperature from the distances to training rows."""

from wildcal.calibrators.density.calibrator import DensityAware, Neighbour

__all__ = ["DensityAware", "Neighbour"]
