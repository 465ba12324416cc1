"""From predictions to results: every metric at once, with intervals and the noise floor."""

from wildcal.evaluation.compare import Compared, Comparison, compare
from wildcal.evaluation.evaluate import evaluate, evaluate_calibrator
from wildcal.evaluation.results import METRICS, Evaluation, Measure, MetricInfo

__all__ = [
    "METRICS",
    "Compared",
    "Comparison",
    "Evaluation",
    "Measure",
    "MetricInfo",
    "compare",
    "evaluate",
    "evaluate_calibrator",
]
