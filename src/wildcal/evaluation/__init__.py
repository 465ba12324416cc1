"""Evaluation: metrics with intervals, comparisons, gates, benchmarks on suites."""

from wildcal.evaluation.abstention import AbstentionThreshold, abstention_threshold
from wildcal.evaluation.compare import compare
from wildcal.evaluation.compare_models import compare_models
from wildcal.evaluation.evaluate import evaluate
from wildcal.evaluation.gates import Gate, check_gates, parse_gate
from wildcal.evaluation.information import InformationUsed
from wildcal.evaluation.results import Comparison, Evaluation, MethodResult, ModelComparison

__all__ = [
    "AbstentionThreshold",
    "Comparison",
    "Evaluation",
    "Gate",
    "InformationUsed",
    "MethodResult",
    "ModelComparison",
    "abstention_threshold",
    "check_gates",
    "compare",
    "compare_models",
    "evaluate",
    "parse_gate",
]
