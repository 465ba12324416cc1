"""Calibrators that read a window of unlabeled rows: the published ones, by their short names."""

from wildcal._old.window.label_shift import LabelShift
from wildcal._old.window.match import MATCHABLE, MatchedConfidence
from wildcal._old.window.matching import matched_temperature, mean_confidence_at
from wildcal._old.window.reading import WindowReading

__all__ = [
    "MATCHABLE",
    "LabelShift",
    "MatchedConfidence",
    "WindowReading",
    "matched_temperature",
    "mean_confidence_at",
]
