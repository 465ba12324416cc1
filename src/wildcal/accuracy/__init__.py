"""Estimate the accuracy on samples without labels."""

from wildcal.accuracy.agreement import GDE
from wildcal.accuracy.base import (
    AccuracyEstimate,
    AccuracyEstimator,
    AccuracyStatistics,
    get_estimator,
)
from wildcal.accuracy.cbpe import CBPE
from wildcal.accuracy.confidence import AC, DoC
from wildcal.accuracy.threshold import ATC
from wildcal.core.registry import ESTIMATORS

__all__ = [
    "AC",
    "ATC",
    "CBPE",
    "ESTIMATORS",
    "GDE",
    "AccuracyEstimate",
    "AccuracyEstimator",
    "AccuracyStatistics",
    "DoC",
    "get_estimator",
]
