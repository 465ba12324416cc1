"""From predictions to results: every metric at once, with intervals and the noise floor."""

from wildcal.evaluation.behind import Behind
from wildcal.evaluation.compare import compare
from wildcal.evaluation.environments import EnvironmentRows, environments
from wildcal.evaluation.estimate import Estimate
from wildcal.evaluation.evaluate import evaluate, evaluate_calibrator
from wildcal.evaluation.knew import Knew
from wildcal.evaluation.methods import Method, choose_methods, parse
from wildcal.evaluation.results import Average, Record, Results
from wildcal.evaluation.views import Compared, Comparison, Evaluation
from wildcal.metrics.registry import METRICS, Metric

__all__ = [
    "METRICS",
    "Average",
    "Behind",
    "Compared",
    "Comparison",
    "EnvironmentRows",
    "Estimate",
    "Evaluation",
    "Knew",
    "Method",
    "Metric",
    "Record",
    "Results",
    "choose_methods",
    "compare",
    "environments",
    "evaluate",
    "evaluate_calibrator",
    "parse",
]
