"""Figures: each function draws on the axis it is given, or on a new one, and returns it.

They draw what reports and `wildcal reproduce` draw, in one style (`STYLE`) whose colors the
color-blind tell apart; matplotlib comes with the `report` extra.
"""

from wildcal._old.plots.differences import forest
from wildcal._old.plots.predictions import ReliabilityDisplay, confidence_histogram, reliability
from wildcal._old.plots.results import corruption_bars, ood_confidence_bars, severity_curves
from wildcal._old.plots.scores import energy_boxes, energy_histograms, temperature_curve
from wildcal._old.report.style import STYLE

__all__ = [
    "STYLE",
    "ReliabilityDisplay",
    "confidence_histogram",
    "corruption_bars",
    "energy_boxes",
    "energy_histograms",
    "forest",
    "ood_confidence_bars",
    "reliability",
    "severity_curves",
    "temperature_curve",
]
