"""From predictions to results: every metric at once, with intervals and the noise floor."""

from wildcal._old.evaluation.behind import Behind
from wildcal._old.evaluation.compare import compare
from wildcal._old.evaluation.environments import EnvironmentRows, environments
from wildcal._old.evaluation.estimate import Estimate
from wildcal._old.evaluation.evaluate import evaluate, evaluate_calibrator
from wildcal._old.evaluation.knew import Knew
from wildcal._old.evaluation.methods import Method, choose_methods, parse
from wildcal._old.evaluation.results import Average, Record, Results
from wildcal._old.evaluation.views import Compared, Comparison, Evaluation
from wildcal._old.metrics.registry import METRICS, Metric

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
