"""The paper's protocol: many methods, fitted once per suite, on every split of many suites.

Everything that tables, figures and reports show is read off the one tidy table made here.
"""

from wildcal._old.evaluation.methods import Method, choose_methods
from wildcal._old.evaluation.protocol.fitted import FittedMethod
from wildcal._old.evaluation.protocol.run import run_protocol
from wildcal._old.evaluation.results import Average, Record, Results

__all__ = [
    "Average",
    "FittedMethod",
    "Method",
    "Record",
    "Results",
    "choose_methods",
    "run_protocol",
]
