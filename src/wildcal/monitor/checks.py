"""Checks of the arguments of a monitor."""

from collections.abc import Sequence
from typing import Any

from wildcal.accuracy.base import AccuracyEstimator
from wildcal.core.calibrator import Calibrator
from wildcal.core.exceptions import InputError


def check_estimator(estimator: AccuracyEstimator, calibrator: Calibrator) -> None:
    """Raise unless an estimator has statistics that are sums and the inputs of a calibrator."""
    if not isinstance(estimator, AccuracyEstimator):
        raise InputError(
            f"estimator must be an AccuracyEstimator, got {type(estimator).__name__}.", "estimator"
        )
    estimator.check_is_fitted()
    if not estimator.summable or estimator.requires_second_logits:
        raise InputError(
            f"estimator must have statistics that are sums, got {type(estimator).__name__}. Try"
            " ATC, AC, DoC or CBPE.",
            "estimator",
        )
    ours = calibrator.input_, calibrator.n_classes_
    if (estimator.input_, estimator.n_classes_) != ours:
        raise InputError(
            f"estimator must be fitted on {ours[0]} of {ours[1]} classes as the calibrator, got"
            f" {estimator.input_} of {estimator.n_classes_}.",
            "estimator",
        )


def check_ids(ids: str | Sequence[Any] | None, n: int | None) -> list[str | None] | None:
    """Return ids as texts, None where a sample has none."""
    if ids is None or isinstance(ids, str):
        return None if ids is None else [ids]
    keys = [None if key is None else str(key) for key in ids]
    if n is not None and len(keys) != n:
        raise InputError(f"ids must have one id per sample, got {len(keys)} for {n}.", "ids")
    known = [key for key in keys if key is not None]
    if len(set(known)) < len(known):
        raise InputError("ids must be unique.", "ids")
    return keys
