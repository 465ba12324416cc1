"""Figures as display objects, as in scikit-learn. Needs the extra `report`."""

from wildcal.plots.comparison import DifferencesDisplay, GroupsDisplay
from wildcal.plots.display import Display
from wildcal.plots.energy import (
    EnergyDisplay,
    HistogramDisplay,
    TemperatureDisplay,
    negative_energy,
)
from wildcal.plots.monitoring import MonitorDisplay
from wildcal.plots.reliability import ReliabilityDisplay, RiskCoverageDisplay
from wildcal.plots.shift import DotsDisplay, HeatmapDisplay, SeverityDisplay
from wildcal.plots.style import COLUMN, PAGE, STYLE, grid, save

__all__ = [
    "COLUMN",
    "PAGE",
    "STYLE",
    "DifferencesDisplay",
    "Display",
    "DotsDisplay",
    "EnergyDisplay",
    "GroupsDisplay",
    "HeatmapDisplay",
    "HistogramDisplay",
    "MonitorDisplay",
    "ReliabilityDisplay",
    "RiskCoverageDisplay",
    "SeverityDisplay",
    "TemperatureDisplay",
    "grid",
    "negative_energy",
    "save",
]
