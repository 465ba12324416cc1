"""What each calibrator does to logits, written once for torch and ONNX."""

from collections.abc import Callable
from typing import Any

from wildcal.calibrators import (
    AutoCalibrator,
    BayesianBinning,
    BetaCalibration,
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
)
from wildcal.core.calibrator import Calibrator
from wildcal.interop.maps.auto import Together
from wildcal.interop.maps.base import Map, run
from wildcal.interop.maps.context import InContext
from wildcal.interop.maps.density import Scaled
from wildcal.interop.maps.isotonic import MultiClass, OneVsAll
from wildcal.interop.maps.linear import LinearSoftmax
from wildcal.interop.maps.mixtures import Mixture
from wildcal.interop.maps.temperatures import Constant, Energy, Entropy, Linear, Parameterized
from wildcal.interop.maps.top_label import Beta, Histogram, Piecewise, Steps, SwappedSpline
from wildcal.interop.maps.windows import context_vector

__all__ = ["MAPS", "Map", "context_vector", "map_of", "run"]


def _scaled(calibrator: DensityAware, prefix: str = "") -> Map:
    return Scaled(calibrator, _made)


def _together(calibrator: AutoCalibrator, prefix: str = "") -> Map:
    return Together(calibrator, _made, prefix)


def _spline(calibrator: SplineCalibration, prefix: str = "") -> Map:
    swapped = calibrator.interp == "reference"
    return SwappedSpline(calibrator, prefix) if swapped else Piecewise(calibrator, prefix)


MAPS: dict[type[Calibrator], Callable[[Any, str], Map]] = {
    Identity: Constant,
    TemperatureScaling: Constant,
    EnsembleTemperatureScaling: Mixture,
    TemperatureMix: Mixture,
    EntropyTemperatureScaling: Entropy,
    ParameterizedTemperatureScaling: Parameterized,
    EnergyScaling: Energy,
    EnergyLinear: Linear,
    ContextScaling: InContext,
    AutoCalibrator: _together,
    DensityAware: _scaled,
    IsotonicMultiClass: MultiClass,
    IsotonicOneVsAll: OneVsAll,
    ScaledIsotonicOneVsAll: OneVsAll,
    SplineCalibration: _spline,
    HistogramBinning: Histogram,
    TopLabelIsotonic: Piecewise,
    BayesianBinning: Steps,
    BetaCalibration: Beta,
    VectorScaling: LinearSoftmax,
    MatrixScaling: LinearSoftmax,
    DirichletCalibration: LinearSoftmax,
    StructuredVectorScaling: LinearSoftmax,
    StructuredMatrixScaling: LinearSoftmax,
}
"""How to make the map of each method that has one."""


def map_of(calibrator: Calibrator) -> Map:
    """Return the map of a fitted calibrator; a ValueError says why there is none."""
    if not isinstance(calibrator, Calibrator):
        raise ValueError(
            f"calibrator must be a fitted wildcal calibrator, got {type(calibrator).__name__}."
            " wildcal.load reads one from a file."
        )
    calibrator.check_is_fitted()
    return _made(calibrator, "")


def _made(calibrator: Calibrator, prefix: str) -> Map:
    make = MAPS.get(type(calibrator))
    if make is None:
        raise ValueError(
            f"{calibrator.name} cannot be exported: its map is Python code that is not written for"
            " torch and ONNX. Apply it in Python, or export another method, such as energy."
        )
    return make(calibrator, prefix)
