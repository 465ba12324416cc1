"""The public names for type checkers; `__init__.py` imports each when it is first used."""

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
from wildcal.version import __version__ as __version__
from wildcal.window.base import WindowCalibrator as WindowCalibrator
from wildcal.window.label_shift import LabelShiftEM as LabelShiftEM
from wildcal.window.label_shift import with_prior as with_prior
from wildcal.window.matching import ConfidenceMatching as ConfidenceMatching
from wildcal.window.window_scaling import WindowScaling as WindowScaling
