"""The estimators by their short names."""

from difflib import get_close_matches

from wildcal._old.accuracy.agreement import Agreement
from wildcal._old.accuracy.cbpe import CalibratedPerformance
from wildcal._old.accuracy.confidence import (
    AverageConfidence,
    DifferenceOfConfidence,
)
from wildcal._old.accuracy.context import ContextConfidence
from wildcal._old.accuracy.cot import ConfidenceTransport, ThresholdedTransport
from wildcal._old.accuracy.estimator import AccuracyEstimator
from wildcal._old.accuracy.threshold import ThresholdedConfidence, ThresholdedEntropy

ESTIMATORS: dict[str, type[AccuracyEstimator]] = {
    kind.name: kind
    for kind in (
        AverageConfidence,
        DifferenceOfConfidence,
        ThresholdedConfidence,
        ThresholdedEntropy,
        ConfidenceTransport,
        ThresholdedTransport,
        Agreement,
        CalibratedPerformance,
        ContextConfidence,
    )
}
"""All of them; those with `needs_second` compare two networks."""


def make_estimator(name: str) -> AccuracyEstimator:
    """Return an unfitted estimator by its short name.

    >>> make_estimator("atc-ne").title
    'average thresholded confidence, by negative entropy'
    """
    if name not in ESTIMATORS:
        near = get_close_matches(name, ESTIMATORS, 1)
        guess = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(ESTIMATORS)}."
        raise ValueError(f"there is no estimator {name!r}; {guess}")
    return ESTIMATORS[name]()
