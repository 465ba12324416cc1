"""Evaluation: metrics with intervals, comparisons, gates, benchmarks on suites."""

from wildcal.evaluation.abstention import AbstentionThreshold, abstention_threshold
from wildcal.evaluation.benchmark import run_benchmark
from wildcal.evaluation.benchmark_results import BenchmarkResults, Measurement
from wildcal.evaluation.compare import Comparison, MethodResult, compare
from wildcal.evaluation.compare_models import ModelComparison, compare_models
from wildcal.evaluation.evaluate import evaluate
from wildcal.evaluation.gates import Gate, check_gates, parse_gate
from wildcal.evaluation.information import InformationUsed
from wildcal.evaluation.methods import MethodSpec, get_methods
from wildcal.evaluation.results import Evaluation

__all__ = [
    "AbstentionThreshold",
    "BenchmarkResults",
    "Comparison",
    "Evaluation",
    "Gate",
    "InformationUsed",
    "Measurement",
    "MethodResult",
    "MethodSpec",
    "ModelComparison",
    "abstention_threshold",
    "check_gates",
    "compare",
    "compare_models",
    "evaluate",
    "get_methods",
    "parse_gate",
    "run_benchmark",
]
