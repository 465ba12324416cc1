"""How accurate is the network on these rows without labels? Estimators and their registry."""

from wildcal.accuracy.agreement import Agreement
from wildcal.accuracy.artifact import load, load_with_about, save
from wildcal.accuracy.cbpe import CalibratedPerformance
from wildcal.accuracy.compare import compare_estimators, summarize
from wildcal.accuracy.confidence import (
    AverageConfidence,
    DifferenceOfConfidence,
)
from wildcal.accuracy.context import ContextConfidence
from wildcal.accuracy.cot import ConfidenceTransport, ThresholdedTransport
from wildcal.accuracy.estimate import AccuracyEstimate
from wildcal.accuracy.estimator import AccuracyEstimator
from wildcal.accuracy.registry import ESTIMATORS, make_estimator
from wildcal.accuracy.state import WindowState
from wildcal.accuracy.threshold import ThresholdedConfidence, ThresholdedEntropy
from wildcal.accuracy.transport import Transport, transport

__all__ = [
    "ESTIMATORS",
    "AccuracyEstimate",
    "AccuracyEstimator",
    "Agreement",
    "AverageConfidence",
    "CalibratedPerformance",
    "ConfidenceTransport",
    "ContextConfidence",
    "DifferenceOfConfidence",
    "ThresholdedConfidence",
    "ThresholdedEntropy",
    "ThresholdedTransport",
    "Transport",
    "WindowState",
    "compare_estimators",
    "load",
    "load_with_about",
    "make_estimator",
    "save",
    "summarize",
    "transport",
]
