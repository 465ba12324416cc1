"""Registry of metrics for `evaluate`, `compare`, benchmarks, reports and gates."""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from wildcal.core.arrays import FloatArray
from wildcal.core.exceptions import InputError
from wildcal.metrics import binary, detection, proper
from wildcal.metrics import calibration_error as error
from wildcal.metrics._scores import Compute, Scores
from wildcal.metrics.detection import area, average_precision, detector, false_positive_rate


@dataclass(frozen=True)
class Metric:
    """Description of a metric, an entry of `METRICS`.

    Examples
    --------
    >>> METRICS["nll"].title
    'NLL'
    """

    name: str
    title: str
    """Its name in tables."""
    better: Literal["lower", "higher"] | None
    needs: Literal["top", "proba", "ood", "binary"]
    """The confidence and whether it was right; all probabilities; OOD samples; two classes."""
    kind: Literal["share", "error", "number"]
    """A fraction, shown in per cent; a calibration error, which is also biased upward on few
    samples; another number."""
    compute: Compute
    """``compute(scores, weights, *, n_bins=15)``: weights (n,) give a number, (n, B) give (B,)."""

    @property
    def is_percent(self) -> bool:
        """Whether tables show it in per cent."""
        return self.kind != "number"

    def applies_to(self, scores: Scores) -> bool:
        """Return whether the metric is defined for these samples."""
        if self.needs == "ood":
            weight_of_ood = scores.weight[scores.is_ood]
            return bool(weight_of_ood.any() and scores.in_distribution.weight.any())
        if self.needs == "binary":
            return scores.n_classes == 2
        return self.needs == "top" or scores.n_classes > 0

    def of(self, scores: Scores, weights: NDArray[Any], n_bins: int = 15) -> FloatArray:
        """Return the metric: of in-distribution samples, or of all if it needs OOD samples."""
        if self.needs != "ood" and scores.is_ood.any():
            scores, weights = scores.in_distribution, weights[~scores.is_ood]
        return np.asarray(self.compute(scores, weights, n_bins=n_bins), dtype=np.float64)


_ENTRIES: Final = (
    Metric("accuracy", "accuracy", "higher", "top", "share", proper.compute_accuracy),
    Metric("mean_confidence", "mean confidence", None, "top", "share",
           proper.compute_mean_confidence),
    Metric("nll", "NLL", "lower", "proba", "number", proper.compute_nll),
    Metric("brier_score", "Brier score", "lower", "proba", "number", proper.compute_brier_score),
    Metric("top_label_brier", "top-label Brier", "lower", "top", "number",
           proper.compute_top_label_brier),
    Metric("ece", "ECE", "lower", "top", "error", error.compute_ece),
    Metric("excess_ece", "excess ECE", "lower", "top", "error", error.compute_excess_ece),
    Metric("mce", "MCE", "lower", "top", "error", error.compute_mce),
    Metric("adaptive_ece", "adaptive ECE", "lower", "top", "error", error.compute_adaptive_ece),
    Metric("classwise_ece", "class-wise ECE", "lower", "proba", "error",
           error.compute_classwise_ece),
    Metric("kde_ece", "KDE-ECE", "lower", "top", "error", error.compute_kde_ece),
    Metric("ks_error", "KS error", "lower", "top", "error", error.compute_ks_error),
    Metric("debiased_l2_ce", "debiased L2 error", "lower", "top", "error",
           error.compute_debiased_l2_ce),
    Metric("binary_ece", "binary ECE", "lower", "binary", "error", binary.compute_binary_ece),
    Metric("calibration_slope", "calibration slope (ideal 1)", None, "binary", "number",
           binary.compute_calibration_slope),
    Metric("calibration_intercept", "calibration intercept (ideal 0)", None, "binary", "number",
           binary.compute_calibration_intercept),
    Metric("spiegelhalter_z", "Spiegelhalter's z", None, "binary", "number",
           binary.compute_spiegelhalter_z),
    Metric("aurc", "AURC", "lower", "top", "share", detection.compute_aurc),
    Metric("misclassification_auroc", "AUROC right/wrong", "higher", "top", "share",
           detector(area, "right")),
    Metric("misclassification_aupr_in", "AUPR right", "higher", "top", "share",
           detector(average_precision, "right")),
    Metric("misclassification_aupr_out", "AUPR wrong", "higher", "top", "share",
           detector(average_precision, "wrong")),
    Metric("misclassification_fpr95", "FPR95 right/wrong", "lower", "top", "share",
           detector(false_positive_rate, "right")),
    Metric("ood_mean_confidence", "OOD confidence", "lower", "ood", "share",
           detection.compute_ood_mean_confidence),
    Metric("ood_auroc", "AUROC ID/OOD", "higher", "ood", "share", detector(area, "id")),
    Metric("ood_aupr_in", "AUPR-in (ID positive)", "higher", "ood", "share",
           detector(average_precision, "id")),
    Metric("ood_aupr_out", "AUPR-out (OOD positive)", "higher", "ood", "share",
           detector(average_precision, "ood")),
    Metric("ood_fpr95", "FPR95 ID/OOD", "lower", "ood", "share",
           detector(false_positive_rate, "id")),
)  # fmt: skip

METRICS: Final[dict[str, Metric]] = {metric.name: metric for metric in _ENTRIES}
"""All metrics in the order of tables. An entry added here appears everywhere."""

WITH_FLOOR: Final = ("ece", "binary_ece")
"""Errors with a noise floor."""

DEBIASED: Final = ("debiased_l2_ce",)
"""Errors without the upward bias of the others."""

RENAMED: Final = {
    "sce": "classwise_ece",
    "equal_mass_ece": "adaptive_ece",
    "l2_ce_debiased": "debiased_l2_ce",
    "brier": "brier_score",
    "positive_ece": "binary_ece",
}
"""Names of version 0.1."""


def get_metric(name: str) -> Metric:
    """Return a metric by its name.

    Examples
    --------
    >>> get_metric("aurc").better
    'lower'
    """
    if (known := name if name in METRICS else name.lower()) in METRICS:
        return METRICS[known]
    if name in RENAMED:
        hint = f"{name!r} was renamed {RENAMED[name]!r} in 0.2."
    else:
        near = get_close_matches(name, METRICS, 1)
        hint = f"Did you mean {near[0]!r}?" if near else f"Metrics: {', '.join(METRICS)}."
    raise InputError(f"Unknown metric {name!r}. {hint}", "metrics")


def get_metrics(names: Iterable[str] | None = None) -> list[Metric]:
    """Return metrics by their names, by default all."""
    if isinstance(names, str):
        raise InputError(f"metrics must be a list of names, got {names!r}.", "metrics")
    return [get_metric(name) for name in dict.fromkeys(METRICS if names is None else names)]
