"""Metrics of calibration and of confidence."""

from wildcal.metrics.binary import (
    binary_ece,
    calibration_intercept,
    calibration_slope,
    spiegelhalter_z,
)
from wildcal.metrics.bootstrap import Difference, Estimate, bootstrap_ci, paired_difference
from wildcal.metrics.calibration_error import (
    classwise_ece,
    debiased_l2_ce,
    ece,
    excess_ece,
    ks_error,
    mce,
)
from wildcal.metrics.decompose import Decomposition, decompose
from wildcal.metrics.detection import (
    RiskCoverage,
    aupr_in,
    aupr_out,
    aurc,
    auroc,
    fpr95,
    risk_coverage,
)
from wildcal.metrics.kde import kde_ece
from wildcal.metrics.noise import noise_floor
from wildcal.metrics.proper import (
    accuracy,
    brier_per_sample,
    brier_score,
    mean_confidence,
    nll,
    nll_per_sample,
    top_label_brier,
    top_label_brier_per_sample,
)
from wildcal.metrics.registry import METRICS, Metric, get_metric
from wildcal.metrics.reliability import (
    IsotonicReliability,
    Reliability,
    isotonic_reliability,
    reliability,
)

__all__ = [
    "METRICS",
    "Decomposition",
    "Difference",
    "Estimate",
    "IsotonicReliability",
    "Metric",
    "Reliability",
    "RiskCoverage",
    "accuracy",
    "aupr_in",
    "aupr_out",
    "aurc",
    "auroc",
    "binary_ece",
    "bootstrap_ci",
    "brier_per_sample",
    "brier_score",
    "calibration_intercept",
    "calibration_slope",
    "classwise_ece",
    "debiased_l2_ce",
    "decompose",
    "ece",
    "excess_ece",
    "fpr95",
    "get_metric",
    "isotonic_reliability",
    "kde_ece",
    "ks_error",
    "mce",
    "mean_confidence",
    "nll",
    "nll_per_sample",
    "noise_floor",
    "paired_difference",
    "reliability",
    "risk_coverage",
    "spiegelhalter_z",
    "top_label_brier",
    "top_label_brier_per_sample",
]
