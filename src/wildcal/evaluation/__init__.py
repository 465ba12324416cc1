"""From predictions to results: every metric at once, with intervals and the noise floor."""

from wildcal.evaluation.evaluate import evaluate, evaluate_calibrator
from wildcal.evaluation.results import METRICS, Evaluation, Measure, MetricInfo

__all__ = ["METRICS", "Evaluation", "Measure", "MetricInfo", "evaluate", "evaluate_calibrator"]
