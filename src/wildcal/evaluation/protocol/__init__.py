"""The paper's protocol: many methods, fitted once per suite, on every split of many suites.

Everything that tables, figures and reports show is read off the one tidy table made here.
"""

from wildcal.evaluation.methods import Method, choose_methods
from wildcal.evaluation.protocol.fitted import FittedMethod
from wildcal.evaluation.protocol.results import Average, Record, Results
from wildcal.evaluation.protocol.run import SPLIT_METRICS, run_protocol

__all__ = [
    "SPLIT_METRICS",
    "Average",
    "FittedMethod",
    "Method",
    "Record",
    "Results",
    "choose_methods",
    "run_protocol",
]
