"""Calibrated confidence for classifiers, on clean data and when the world has shifted."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from wildcal.version import __version__

if TYPE_CHECKING:  # everything is imported when it is asked for: `import wildcal` costs nothing
    from wildcal import metrics, plots, suites, window
    from wildcal.calibrators import (
        CALIBRATORS,
        AutoCalibrator,
        BayesianBinning,
        BetaCalibration,
        Context,
        ContextScaling,
        DensityAware,
        DirichletCalibration,
        EnergyLinear,
        EnergyScaling,
        EnsembleTemperatureScaling,
        EntropyTemperatureScaling,
        HistogramBinning,
        Identity,
        IsotonicMultiClass,
        IsotonicOneVsAll,
        MatrixScaling,
        ParameterizedTemperatureScaling,
        ScaledIsotonicOneVsAll,
        SplineCalibration,
        StructuredMatrixScaling,
        StructuredVectorScaling,
        TemperatureMix,
        TemperatureScaling,
        TopLabelIsotonic,
        VectorScaling,
        make_calibrator,
    )
    from wildcal.core.calibrator import Calibrator, FitSummary, TemperatureMap
    from wildcal.core.convert import logits_from_proba, logits_from_score, proba_floor, softmax
    from wildcal.core.labels import ClassNames
    from wildcal.core.logprobs import logits_from_logprobs
    from wildcal.evaluation import choose_methods, compare, evaluate, evaluate_calibrator
    from wildcal.evaluation.protocol import run_protocol
    from wildcal.io.artifact import load, save
    from wildcal.io.suite import Suite, SuiteWriter
    from wildcal.io.tables import InputRows, as_rows, read_rows
    from wildcal.report import make_page
    from wildcal.stream import Stream

_MODULES = ("accuracy", "metrics", "plots", "suites", "window")
_ROOMS: Final = ("calibrators", "core", "engine", "evaluation", "io", "report", "stream", "testing")
_HOME: Final = {
    name: module
    for module, names in {
        "wildcal.calibrators": (
            "AutoCalibrator BayesianBinning BetaCalibration CALIBRATORS Context "
            "ContextScaling DensityAware DirichletCalibration EnergyLinear EnergyScaling "
            "EnsembleTemperatureScaling EntropyTemperatureScaling HistogramBinning "
            "Identity IsotonicMultiClass IsotonicOneVsAll MatrixScaling "
            "ParameterizedTemperatureScaling ScaledIsotonicOneVsAll SplineCalibration "
            "StructuredMatrixScaling StructuredVectorScaling TemperatureMix "
            "TemperatureScaling TopLabelIsotonic VectorScaling make_calibrator"
        ),
        "wildcal.core.calibrator": "Calibrator FitSummary TemperatureMap",
        "wildcal.core.convert": "logits_from_proba logits_from_score proba_floor softmax",
        "wildcal.core.labels": "ClassNames",
        "wildcal.core.logprobs": "logits_from_logprobs",
        "wildcal.evaluation": "choose_methods compare evaluate evaluate_calibrator",
        "wildcal.evaluation.protocol": "run_protocol",
        "wildcal.io.artifact": "load save",
        "wildcal.io.suite": "Suite SuiteWriter",
        "wildcal.io.tables": "InputRows as_rows read_rows",
        "wildcal.report": "make_page",
        "wildcal.stream": "Stream",
    }.items()
    for name in names.split()
}
"""Where each public name lives."""

__all__ = [
    "CALIBRATORS",
    "AutoCalibrator",
    "BayesianBinning",
    "BetaCalibration",
    "Calibrator",
    "ClassNames",
    "Context",
    "ContextScaling",
    "DensityAware",
    "DirichletCalibration",
    "EnergyLinear",
    "EnergyScaling",
    "EnsembleTemperatureScaling",
    "EntropyTemperatureScaling",
    "FitSummary",
    "HistogramBinning",
    "Identity",
    "InputRows",
    "IsotonicMultiClass",
    "IsotonicOneVsAll",
    "MatrixScaling",
    "ParameterizedTemperatureScaling",
    "ScaledIsotonicOneVsAll",
    "SplineCalibration",
    "Stream",
    "StructuredMatrixScaling",
    "StructuredVectorScaling",
    "Suite",
    "SuiteWriter",
    "TemperatureMap",
    "TemperatureMix",
    "TemperatureScaling",
    "TopLabelIsotonic",
    "VectorScaling",
    "__version__",
    "accuracy",
    "as_rows",
    "choose_methods",
    "compare",
    "evaluate",
    "evaluate_calibrator",
    "load",
    "logits_from_logprobs",
    "logits_from_proba",
    "logits_from_score",
    "make_calibrator",
    "make_page",
    "metrics",
    "plots",
    "proba_floor",
    "read_rows",
    "run_protocol",
    "save",
    "softmax",
    "suites",
    "window",
]


def __getattr__(name: str) -> Any:
    """Import what is asked for."""
    if name in _MODULES or name in _ROOMS:
        return import_module(f"wildcal.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'wildcal' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOME[name]), name)
    return found


def __dir__() -> list[str]:
    """Return the public names, those that are not imported yet among them."""
    return sorted(__all__)
