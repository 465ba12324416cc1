"""Estimate the accuracy on samples without labels."""

from wildcal.accuracy.agreement import GDE
from wildcal.accuracy.base import (
    AccuracyEstimate,
    AccuracyEstimator,
    AccuracyStatistics,
    get_estimator,
)
from wildcal.accuracy.benchmark import EstimatedWindow, benchmark_estimators, summarize
from wildcal.accuracy.cbpe import CBPE
from wildcal.accuracy.confidence import AC, DoC
from wildcal.accuracy.cot import COT, COTT
from wildcal.accuracy.threshold import ATC
from wildcal.core.registry import ESTIMATORS

__all__ = [
    "AC",
    "ATC",
    "CBPE",
    "COT",
    "COTT",
    "ESTIMATORS",
    "GDE",
    "AccuracyEstimate",
    "AccuracyEstimator",
    "AccuracyStatistics",
    "DoC",
    "EstimatedWindow",
    "benchmark_estimators",
    "get_estimator",
    "summarize",
]
