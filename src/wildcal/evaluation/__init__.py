"""From predictions to results: every metric at once, with intervals and the noise floor."""

from wildcal.evaluation.compare import Compared, Comparison, compare
from wildcal.evaluation.environments import EnvironmentRows, environments
from wildcal.evaluation.evaluate import evaluate, evaluate_calibrator
from wildcal.evaluation.results import METRICS, Evaluation, Measure, MetricInfo

__all__ = [
    "METRICS",
    "Compared",
    "Comparison",
    "EnvironmentRows",
    "Evaluation",
    "Measure",
    "MetricInfo",
    "compare",
    "environments",
    "evaluate",
    "evaluate_calibrator",
]
