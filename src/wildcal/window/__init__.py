"""Calibrators that read a window of unlabeled rows: the published ones, by their short names."""

from wildcal.window.ace import AdaptiveEnsemble
from wildcal.window.label_shift import LabelShift
from wildcal.window.match import MATCHABLE, MatchedConfidence
from wildcal.window.matching import matched_temperature, mean_confidence_at
from wildcal.window.nearest import NearestEnvironment
from wildcal.window.reading import WindowReading
from wildcal.window.weighted import TransferableScaling, WeightedScaling

__all__ = [
    "MATCHABLE",
    "AdaptiveEnsemble",
    "LabelShift",
    "MatchedConfidence",
    "NearestEnvironment",
    "TransferableScaling",
    "WeightedScaling",
    "WindowReading",
    "matched_temperature",
    "mean_confidence_at",
]
