"""The calibrators, one method per file, and the registry of their short names."""

from typing import Final

from wildcal.calibrators.auto import AutoCalibrator
from wildcal.calibrators.bbq import BayesianBinning
from wildcal.calibrators.beta import BetaCalibration
from wildcal.calibrators.context import Context, ContextScaling
from wildcal.calibrators.density import DensityAware, Neighbor
from wildcal.calibrators.dirichlet import DirichletCalibration
from wildcal.calibrators.energy import EnergyScaling
from wildcal.calibrators.energy_linear import EnergyLinear
from wildcal.calibrators.ensemble_temperature import EnsembleTemperatureScaling
from wildcal.calibrators.entropy_temperature import EntropyTemperatureScaling
from wildcal.calibrators.histogram import HistogramBinning
from wildcal.calibrators.identity import Identity
from wildcal.calibrators.irm import IsotonicMultiClass
from wildcal.calibrators.irova import IsotonicOneVsAll
from wildcal.calibrators.irovats import ScaledIsotonicOneVsAll
from wildcal.calibrators.isotonic import TopLabelIsotonic
from wildcal.calibrators.matrix import MatrixScaling
from wildcal.calibrators.more import WINDOW_METHODS, make_window_method
from wildcal.calibrators.own import add_own
from wildcal.calibrators.parameterized_temperature import ParameterizedTemperatureScaling
from wildcal.calibrators.spline import SplineCalibration
from wildcal.calibrators.structured import StructuredMatrixScaling, StructuredVectorScaling
from wildcal.calibrators.temperature import TemperatureScaling
from wildcal.calibrators.temperature_mix import TemperatureMix
from wildcal.calibrators.vector import VectorScaling
from wildcal.core.calibrator import Calibrator

_PREFIXES: Final[dict[str, Neighbor]] = {"dac": "kth", "dac-first": "first"}

CALIBRATORS: dict[str, type[Calibrator]] = {
    method.name: method
    for method in (
        Identity,
        AutoCalibrator,
        TemperatureScaling,
        EnsembleTemperatureScaling,
        TemperatureMix,
        EntropyTemperatureScaling,
        ParameterizedTemperatureScaling,
        EnergyScaling,
        EnergyLinear,
        ContextScaling,
        IsotonicMultiClass,
        IsotonicOneVsAll,
        ScaledIsotonicOneVsAll,
        SplineCalibration,
        HistogramBinning,
        TopLabelIsotonic,
        BayesianBinning,
        BetaCalibration,
        VectorScaling,
        MatrixScaling,
        DirichletCalibration,
        StructuredVectorScaling,
        StructuredMatrixScaling,
    )
}

"""The methods that read nothing but logits, by their short names."""

DENSITY_METHODS: Final[dict[str, tuple[Neighbor, str]]] = {
    f"{prefix}+{base}" if base else prefix: (neighbor, base or Identity.name)
    for prefix, neighbor in _PREFIXES.items()
    for base in ("", *(name for name in CALIBRATORS if name != Identity.name))
}
"""Density-aware calibration alone (`dac`) or before another method (`dac+ets`), with the distance
to the k-th neighbor or to the first (`dac-first`): which neighbor, and which base."""


def make_calibrator(name: str) -> Calibrator:
    """Return an unfitted calibrator by its short name: ``energy``, ``dac+ets``, ``match+cot``.

    Also MODULE:CLASS, and the name of an entry point of the group ``wildcal.calibrators``.

    >>> make_calibrator("dac+ets").base.name
    'ets'
    """
    if name in CALIBRATORS:
        return CALIBRATORS[name]()
    if name in DENSITY_METHODS:
        neighbor, base = DENSITY_METHODS[name]
        return DensityAware(base=CALIBRATORS[base](), neighbor=neighbor)
    if name in WINDOW_METHODS:
        return make_window_method(name)
    own = add_own(name, CALIBRATORS)
    if own is not None:
        return CALIBRATORS[own]()
    raise ValueError(f"there is no method {name!r}; `wildcal.CALIBRATORS` has their names.")


PAPER_METHODS = ("identity", "ts", "ets", "irm", "irova", "irovats", "spline", "energy")
"""The columns of the energy paper's Table 1, in its order."""

__all__ = [
    "CALIBRATORS",
    "DENSITY_METHODS",
    "PAPER_METHODS",
    "WINDOW_METHODS",
    "AutoCalibrator",
    "BayesianBinning",
    "BetaCalibration",
    "Context",
    "ContextScaling",
    "DensityAware",
    "DirichletCalibration",
    "EnergyLinear",
    "EnergyScaling",
    "EnsembleTemperatureScaling",
    "EntropyTemperatureScaling",
    "HistogramBinning",
    "Identity",
    "IsotonicMultiClass",
    "IsotonicOneVsAll",
    "MatrixScaling",
    "ParameterizedTemperatureScaling",
    "ScaledIsotonicOneVsAll",
    "SplineCalibration",
    "StructuredMatrixScaling",
    "StructuredVectorScaling",
    "TemperatureMix",
    "TemperatureScaling",
    "TopLabelIsotonic",
    "VectorScaling",
    "make_calibrator",
]
