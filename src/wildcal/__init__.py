"""Calibrated confidence for classifiers, on in-distribution data and under shift."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from wildcal.version import __version__ as __version__

if TYPE_CHECKING:  # names are imported when they are used: `import wildcal` is fast
    from wildcal import accuracy as accuracy
    from wildcal import evaluation as evaluation
    from wildcal import metrics as metrics
    from wildcal import plots as plots
    from wildcal import suites as suites
    from wildcal import window as window
    from wildcal.calibrators.auto import AutoCalibrator as AutoCalibrator
    from wildcal.calibrators.bbq import BBQ as BBQ
    from wildcal.calibrators.density import DensityAwareCalibration as DensityAwareCalibration
    from wildcal.calibrators.dirichlet import DirichletCalibration as DirichletCalibration
    from wildcal.calibrators.energy import EnergyScaling as EnergyScaling
    from wildcal.calibrators.energy_linear import EnergyLinear as EnergyLinear
    from wildcal.calibrators.ensemble_temperature import (
        EnsembleTemperatureScaling as EnsembleTemperatureScaling,
    )
    from wildcal.calibrators.entropy_temperature import (
        EntropyTemperatureScaling as EntropyTemperatureScaling,
    )
    from wildcal.calibrators.histogram import HistogramBinning as HistogramBinning
    from wildcal.calibrators.identity import Identity as Identity
    from wildcal.calibrators.irm import IsotonicMulticlass as IsotonicMulticlass
    from wildcal.calibrators.isotonic import TopLabelIsotonic as TopLabelIsotonic
    from wildcal.calibrators.isotonic_one_vs_rest import IsotonicOneVsRest as IsotonicOneVsRest
    from wildcal.calibrators.matrix import MatrixScaling as MatrixScaling
    from wildcal.calibrators.one_vs_rest import BetaCalibration as BetaCalibration
    from wildcal.calibrators.one_vs_rest import PlattScaling as PlattScaling
    from wildcal.calibrators.parameterized_temperature import (
        ParameterizedTemperatureScaling as ParameterizedTemperatureScaling,
    )
    from wildcal.calibrators.spline import SplineCalibration as SplineCalibration
    from wildcal.calibrators.structured import StructuredMatrixScaling as StructuredMatrixScaling
    from wildcal.calibrators.structured import StructuredVectorScaling as StructuredVectorScaling
    from wildcal.calibrators.temperature import TemperatureScaling as TemperatureScaling
    from wildcal.calibrators.temperature_mix import TemperatureMix as TemperatureMix
    from wildcal.calibrators.vector import VectorScaling as VectorScaling
    from wildcal.core.calibrator import Calibrator as Calibrator
    from wildcal.core.calibrator import FitInfo as FitInfo
    from wildcal.core.calibrator import TemperatureCalibrator as TemperatureCalibrator
    from wildcal.core.calibrator import TopLabelCalibrator as TopLabelCalibrator
    from wildcal.core.conversion import logits_from_logprobs as logits_from_logprobs
    from wildcal.core.conversion import logits_from_proba as logits_from_proba
    from wildcal.core.conversion import logits_from_score as logits_from_score
    from wildcal.core.labels import ClassNames as ClassNames
    from wildcal.core.registry import CALIBRATORS as CALIBRATORS
    from wildcal.core.registry import get_calibrator as get_calibrator
    from wildcal.evaluation import abstention_threshold as abstention_threshold
    from wildcal.evaluation import compare as compare
    from wildcal.evaluation import compare_models as compare_models
    from wildcal.evaluation import evaluate as evaluate
    from wildcal.evaluation import get_methods as get_methods
    from wildcal.evaluation import run_benchmark as run_benchmark
    from wildcal.io.artifact import load as load
    from wildcal.io.artifact import save as save
    from wildcal.io.samples import SampleSet as SampleSet
    from wildcal.io.samples import read_samples as read_samples
    from wildcal.io.schema import Columns as Columns
    from wildcal.io.suite import Suite as Suite
    from wildcal.io.suite_writer import SuiteWriter as SuiteWriter
    from wildcal.monitor.monitor import Monitor as Monitor
    from wildcal.report.page import make_report as make_report
    from wildcal.window.base import WindowCalibrator as WindowCalibrator
    from wildcal.window.label_shift import LabelShiftEM as LabelShiftEM
    from wildcal.window.label_shift import with_prior as with_prior
    from wildcal.window.matching import ConfidenceMatching as ConfidenceMatching
    from wildcal.window.window_scaling import WindowScaling as WindowScaling

_PACKAGES: Final = ("accuracy", "evaluation", "metrics", "plots", "suites", "window")
_OTHER_PACKAGES: Final = ("calibrators", "core", "io", "monitor", "report", "testing")
"""Attributes too, but not imported by a star."""
_MODULES: Final = {
    "calibrators.auto": ("AutoCalibrator",),
    "calibrators.bbq": ("BBQ",),
    "calibrators.density": ("DensityAwareCalibration",),
    "calibrators.dirichlet": ("DirichletCalibration",),
    "calibrators.energy": ("EnergyScaling",),
    "calibrators.energy_linear": ("EnergyLinear",),
    "calibrators.ensemble_temperature": ("EnsembleTemperatureScaling",),
    "calibrators.entropy_temperature": ("EntropyTemperatureScaling",),
    "calibrators.histogram": ("HistogramBinning",),
    "calibrators.identity": ("Identity",),
    "calibrators.irm": ("IsotonicMulticlass",),
    "calibrators.isotonic": ("TopLabelIsotonic",),
    "calibrators.isotonic_one_vs_rest": ("IsotonicOneVsRest",),
    "calibrators.matrix": ("MatrixScaling",),
    "calibrators.one_vs_rest": ("BetaCalibration", "PlattScaling"),
    "calibrators.parameterized_temperature": ("ParameterizedTemperatureScaling",),
    "calibrators.spline": ("SplineCalibration",),
    "calibrators.structured": ("StructuredMatrixScaling", "StructuredVectorScaling"),
    "calibrators.temperature": ("TemperatureScaling",),
    "calibrators.temperature_mix": ("TemperatureMix",),
    "calibrators.vector": ("VectorScaling",),
    "core.calibrator": ("Calibrator", "FitInfo", "TemperatureCalibrator", "TopLabelCalibrator"),
    "core.conversion": ("logits_from_logprobs", "logits_from_proba", "logits_from_score"),
    "core.labels": ("ClassNames",),
    "core.registry": ("CALIBRATORS", "get_calibrator"),
    "evaluation": (
        "abstention_threshold",
        "compare",
        "compare_models",
        "evaluate",
        "get_methods",
        "run_benchmark",
    ),
    "io.artifact": ("load", "save"),
    "io.samples": ("SampleSet", "read_samples"),
    "io.schema": ("Columns",),
    "io.suite": ("Suite",),
    "io.suite_writer": ("SuiteWriter",),
    "monitor.monitor": ("Monitor",),
    "report.page": ("make_report",),
    "window.base": ("WindowCalibrator",),
    "window.label_shift": ("LabelShiftEM", "with_prior"),
    "window.matching": ("ConfidenceMatching",),
    "window.window_scaling": ("WindowScaling",),
}
"""The public names of each module."""
_PLACES: Final = {name: module for module, names in _MODULES.items() for name in names}
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

__all__ = sorted(["__version__", *_PACKAGES, *_PLACES])


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name in (*_PACKAGES, *_OTHER_PACKAGES):
        return import_module(f"wildcal.{name}")
    if name in _RENAMED:
        raise AttributeError(f"`wildcal.{name}` was renamed `{_RENAMED[name]}` in 0.2.")
    if name not in _PLACES:
        raise AttributeError(f"module 'wildcal' has no attribute {name!r}")
    found = getattr(import_module(f"wildcal.{_PLACES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
