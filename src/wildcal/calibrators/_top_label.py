"""Shared functions of the fits of top-label methods."""

import array_api_compat.numpy as np_compat
import numpy as np
from numpy.typing import NDArray

from wildcal.core.arrays import FloatArray, in_blocks, is_top_class
from wildcal.core.calibrator import FitInfo, TopLabelCalibrator
from wildcal.core.validation import Samples


def top_label_scores(data: Samples) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return rest = 1 - confidence of each sample, and whether its predicted class is right."""
    rest = in_blocks(_rest, data.logits)[:, 0]
    return rest, data.logits.argmax(axis=1) == data.y


def top_label_info(
    calibrator: TopLabelCalibrator, rest: FloatArray, correct: NDArray[np.bool_], weight: FloatArray
) -> FitInfo:
    """Return the squared error of the confidence before and after calibration."""
    q = calibrator._top_probability(np_compat, rest[:, None])[:, 0]
    before, after = (
        float(np.average(np.square(confidence - correct), weights=weight))
        for confidence in (1 - rest, np.clip(q, 0, 1))
    )
    return FitInfo("mse", before, after)


def _rest(z: FloatArray) -> FloatArray:
    others = np.exp(z - z.max(axis=1, keepdims=True)) * (1 - is_top_class(np_compat, z))
    total = others.sum(axis=1, keepdims=True)
    return np.asarray(total / (total + 1))
