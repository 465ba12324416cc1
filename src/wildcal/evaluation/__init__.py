"""Evaluation: metrics with intervals, comparisons, gates, benchmarks on suites."""

from wildcal.evaluation.evaluate import evaluate
from wildcal.evaluation.gates import Gate, check_gates, parse_gate
from wildcal.evaluation.information import InformationUsed
from wildcal.evaluation.results import Comparison, Evaluation, MethodResult, ModelComparison

__all__ = [
    "Comparison",
    "Evaluation",
    "Gate",
    "InformationUsed",
    "MethodResult",
    "ModelComparison",
    "check_gates",
    "evaluate",
    "parse_gate",
]
