"""Calibration that adapts to an unlabelled window of samples."""
