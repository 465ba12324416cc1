"""A live stream of rows: rolling context, estimated accuracy, drift from the clean rows."""

from wildcal._old.stream.accuracy import AccuracyEstimate
from wildcal._old.stream.drift import Drift
from wildcal._old.stream.merge import merged
from wildcal._old.stream.stream import Stream, StreamRows

__all__ = ["AccuracyEstimate", "Drift", "Stream", "StreamRows", "merged"]
