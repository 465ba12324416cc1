"""A live stream of rows: rolling context, estimated accuracy, drift from the clean rows."""

from wildcal.stream.accuracy import AccuracyEstimate
from wildcal.stream.drift import Drift
from wildcal.stream.merge import merged
from wildcal.stream.stream import Stream, StreamRows

__all__ = ["AccuracyEstimate", "Drift", "Stream", "StreamRows", "merged"]
