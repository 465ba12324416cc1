"""Metrics of calibration and of confidence, as plain functions and as streaming sums."""

from wildcal._old.metrics.bootstrap import (
    bootstrap,
    ece_interval,
    mean_interval,
    paired_difference,
)
from wildcal._old.metrics.classwise import ClasswiseAccumulator, sce
from wildcal._old.metrics.detection import aupr_in, aupr_out, auroc, fpr95
from wildcal._old.metrics.equal_mass import equal_mass_ece, l2_ce_debiased
from wildcal._old.metrics.interval import Interval, PairedDifference
from wildcal._old.metrics.kde import KdeAccumulator, kde_ece
from wildcal._old.metrics.ks import ks_error
from wildcal._old.metrics.noise import excess_ece, noise_floor
from wildcal._old.metrics.proper import (
    ProperAccumulator,
    brier,
    brier_per_sample,
    nll,
    nll_per_sample,
)
from wildcal._old.metrics.reliability import Reliability
from wildcal._old.metrics.selective import aurc
from wildcal._old.metrics.top_label import (
    TopLabelAccumulator,
    accuracy,
    ece,
    mce,
    mean_confidence,
    reliability,
    top_label_brier,
    top_label_brier_per_sample,
)

__all__ = [
    "ClasswiseAccumulator",
    "Interval",
    "KdeAccumulator",
    "PairedDifference",
    "ProperAccumulator",
    "Reliability",
    "TopLabelAccumulator",
    "accuracy",
    "aupr_in",
    "aupr_out",
    "aurc",
    "auroc",
    "bootstrap",
    "brier",
    "brier_per_sample",
    "ece",
    "ece_interval",
    "equal_mass_ece",
    "excess_ece",
    "fpr95",
    "kde_ece",
    "ks_error",
    "l2_ce_debiased",
    "mce",
    "mean_confidence",
    "mean_interval",
    "nll",
    "nll_per_sample",
    "noise_floor",
    "paired_difference",
    "reliability",
    "sce",
    "top_label_brier",
    "top_label_brier_per_sample",
]
