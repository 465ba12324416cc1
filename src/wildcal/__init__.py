"""Calibrated confidence for classifiers, on in-distribution data and under shift."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from wildcal.version import __version__

if TYPE_CHECKING:  # names are imported when they are used: `import wildcal` is fast
    from wildcal import accuracy, evaluation, metrics, plots, suites, window
    from wildcal.calibrators.auto import AutoCalibrator
    from wildcal.calibrators.bbq import BBQ
    from wildcal.calibrators.density import DensityAwareCalibration
    from wildcal.calibrators.dirichlet import DirichletCalibration
    from wildcal.calibrators.energy import EnergyScaling
    from wildcal.calibrators.energy_linear import EnergyLinear
    from wildcal.calibrators.ensemble_temperature import EnsembleTemperatureScaling
    from wildcal.calibrators.entropy_temperature import EntropyTemperatureScaling
    from wildcal.calibrators.histogram import HistogramBinning
    from wildcal.calibrators.identity import Identity
    from wildcal.calibrators.irm import IsotonicMulticlass
    from wildcal.calibrators.isotonic import TopLabelIsotonic
    from wildcal.calibrators.isotonic_one_vs_rest import IsotonicOneVsRest
    from wildcal.calibrators.matrix import MatrixScaling
    from wildcal.calibrators.one_vs_rest import BetaCalibration, PlattScaling
    from wildcal.calibrators.parameterized_temperature import ParameterizedTemperatureScaling
    from wildcal.calibrators.spline import SplineCalibration
    from wildcal.calibrators.structured import StructuredMatrixScaling, StructuredVectorScaling
    from wildcal.calibrators.temperature import TemperatureScaling
    from wildcal.calibrators.temperature_mix import TemperatureMix
    from wildcal.calibrators.vector import VectorScaling
    from wildcal.core.calibrator import (
        Calibrator,
        FitInfo,
        TemperatureCalibrator,
        TopLabelCalibrator,
    )
    from wildcal.core.conversion import logits_from_logprobs, logits_from_proba, logits_from_score
    from wildcal.core.labels import ClassNames
    from wildcal.core.registry import CALIBRATORS, get_calibrator
    from wildcal.evaluation import (
        abstention_threshold,
        compare,
        compare_models,
        evaluate,
        get_methods,
        run_benchmark,
    )
    from wildcal.io.artifact import load, save
    from wildcal.io.samples import SampleSet, read_samples
    from wildcal.io.schema import Columns
    from wildcal.io.suite import Suite
    from wildcal.io.suite_writer import SuiteWriter
    from wildcal.monitor.monitor import Monitor
    from wildcal.report.page import make_report
    from wildcal.window.base import WindowCalibrator
    from wildcal.window.label_shift import LabelShiftEM, with_prior
    from wildcal.window.matching import ConfidenceMatching
    from wildcal.window.window_scaling import WindowScaling

_PACKAGES: Final = (
    *("accuracy", "calibrators", "core", "evaluation", "io", "metrics", "monitor", "plots"),
    *("report", "suites", "testing", "window"),
)
_PLACES: Final = {
    name: module
    for module, names in {
        "wildcal.core.calibrator": "Calibrator FitInfo TemperatureCalibrator TopLabelCalibrator",
        "wildcal.core.conversion": "logits_from_logprobs logits_from_proba logits_from_score",
        "wildcal.core.labels": "ClassNames",
        "wildcal.core.registry": "CALIBRATORS get_calibrator",
        "wildcal.evaluation": "abstention_threshold compare compare_models evaluate get_methods"
        " run_benchmark",
        "wildcal.io.artifact": "load save",
        "wildcal.monitor.monitor": "Monitor",
        "wildcal.io.samples": "SampleSet read_samples",
        "wildcal.io.schema": "Columns",
        "wildcal.io.suite": "Suite",
        "wildcal.io.suite_writer": "SuiteWriter",
        "wildcal.report.page": "make_report",
        "wildcal.window.base": "WindowCalibrator",
        "wildcal.window.label_shift": "with_prior",
    }.items()
    for name in names.split()
}
"""The module of each public name; the registry has those of the methods."""
_RENAMED: Final = {
    "make_calibrator": "get_calibrator",
    "BayesianBinning": "BBQ",
    "IsotonicOneVsAll": "IsotonicOneVsRest",
    "ScaledIsotonicOneVsAll": "IsotonicOneVsRest(temperature=True)",
    "IsotonicMultiClass": "IsotonicMulticlass",
    "DensityAware": "DensityAwareCalibration",
    "ContextScaling": "WindowScaling",
    "TemperatureMap": "TemperatureCalibrator",
    "FitSummary": "FitInfo",
    "evaluate_calibrator": "evaluate(y, logits=, calibrator=)",
    "Stream": "Monitor",
    "choose_methods": "get_methods",
    "run_protocol": "run_benchmark",
    "make_page": "make_report",
    "read_rows": "read_samples",
    "as_rows": "read_samples",
    "InputRows": "SampleSet",
}
"""Names of version 0.1."""

__all__ = [
    "BBQ",
    "CALIBRATORS",
    "AutoCalibrator",
    "BetaCalibration",
    "Calibrator",
    "ClassNames",
    "Columns",
    "ConfidenceMatching",
    "DensityAwareCalibration",
    "DirichletCalibration",
    "EnergyLinear",
    "EnergyScaling",
    "EnsembleTemperatureScaling",
    "EntropyTemperatureScaling",
    "FitInfo",
    "HistogramBinning",
    "Identity",
    "IsotonicMulticlass",
    "IsotonicOneVsRest",
    "LabelShiftEM",
    "MatrixScaling",
    "Monitor",
    "ParameterizedTemperatureScaling",
    "PlattScaling",
    "SampleSet",
    "SplineCalibration",
    "StructuredMatrixScaling",
    "StructuredVectorScaling",
    "Suite",
    "SuiteWriter",
    "TemperatureCalibrator",
    "TemperatureMix",
    "TemperatureScaling",
    "TopLabelCalibrator",
    "TopLabelIsotonic",
    "VectorScaling",
    "WindowCalibrator",
    "WindowScaling",
    "__version__",
    "abstention_threshold",
    "accuracy",
    "compare",
    "compare_models",
    "evaluate",
    "evaluation",
    "get_calibrator",
    "get_methods",
    "load",
    "logits_from_logprobs",
    "logits_from_proba",
    "logits_from_score",
    "make_report",
    "metrics",
    "plots",
    "read_samples",
    "run_benchmark",
    "save",
    "suites",
    "window",
    "with_prior",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name in _PACKAGES:
        return import_module(f"wildcal.{name}")
    if name in _RENAMED:
        raise AttributeError(f"`wildcal.{name}` was renamed `{_RENAMED[name]}` in 0.2.")
    if name not in __all__:
        raise AttributeError(f"module 'wildcal' has no attribute {name!r}")
    if name in _PLACES:
        found = getattr(import_module(_PLACES[name]), name)
    else:
        found = import_module("wildcal.core.registry").registered_class(name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
