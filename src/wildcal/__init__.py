"""Calibrated confidence for classifiers, on in-distribution data and under shift."""

from importlib import import_module
from typing import Any, Final

from wildcal.version import __version__ as __version__

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
"""The public names of each module, imported when they are first used: `import wildcal` is fast."""
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
