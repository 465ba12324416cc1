"""How accurate is the network on these rows without labels? Estimators and their registry."""

from wildcal._old.accuracy.agreement import Agreement
from wildcal._old.accuracy.artifact import load, load_with_about, save
from wildcal._old.accuracy.cbpe import CalibratedPerformance
from wildcal._old.accuracy.compare import compare_estimators, summarize
from wildcal._old.accuracy.confidence import (
    AverageConfidence,
    DifferenceOfConfidence,
)
from wildcal._old.accuracy.context import ContextConfidence
from wildcal._old.accuracy.cot import ConfidenceTransport, ThresholdedTransport
from wildcal._old.accuracy.estimate import AccuracyEstimate
from wildcal._old.accuracy.estimator import AccuracyEstimator
from wildcal._old.accuracy.registry import ESTIMATORS, make_estimator
from wildcal._old.accuracy.state import WindowState
from wildcal._old.accuracy.threshold import ThresholdedConfidence, ThresholdedEntropy
from wildcal._old.accuracy.transport import Transport, transport

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
