"""Calibration methods, one per file."""
