"""Calibrators that read a window of unlabeled rows: the published ones, by their short names."""

from wildcal.window.label_shift import LabelShift
from wildcal.window.match import MATCHABLE, MatchedConfidence
from wildcal.window.matching import matched_temperature, mean_confidence_at
from wildcal.window.reading import WindowReading

__all__ = [
    "MATCHABLE",
    "LabelShift",
    "MatchedConfidence",
    "WindowReading",
    "matched_temperature",
    "mean_confidence_at",
]
