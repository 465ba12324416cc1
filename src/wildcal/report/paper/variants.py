"""The baselines as the paper's authors computed them, where those of this package differ.

IRM, IROvA and IROvATS are not normalized, and the predicted class is the argmax of their output.
SPLINE gives zero to all classes but the predicted one. IRM and IROvA run in float32, IROvATS in
float64: there a confidence can exceed 1, and the authors' ECE leaves such samples out of its bins.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import array_api_compat.numpy as np_compat
import numpy as np
from numpy.typing import NDArray

from wildcal.core.arrays import softmax
from wildcal.core.piecewise import interpolate
from wildcal.core.registry import get_calibrator
from wildcal.evaluation.methods import MethodSpec, default_data
from wildcal.metrics._scores import Scores

# As published, this part of the probability is added to the isotonic function.
_TIE_BREAKER: Final = 1e-9
COUNTED: Final = "irovats-counted"
"""IROvATS with confidences above 1 counted in the last bin."""
WITHOUT_OOD: Final = "energy-no-ood"
"""The energy method fitted without OOD samples."""


def isotonic_output(calibrator: Any, logits: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """Return f(p) + 1e-9 p of a fitted irm, irova or irovats, not normalized."""
    z = logits.astype(dtype) / dtype(getattr(calibrator, "temperature_", 1.0))
    p = softmax(np_compat, z)
    wide = np.asarray(p, dtype=np.float64)
    f = interpolate(np_compat, wide, calibrator.knots_, calibrator.values_, calibrator.slopes_)
    return np.asarray(f.astype(dtype) + dtype(_TIE_BREAKER) * p)


def isotonic_scores(
    calibrator: Any, logits: Any, y: Any, *, dtype: Any = np.float32, leave_out: bool = False
) -> Scores:
    """Return the confidence and correctness of an isotonic method as published.

    `leave_out`: samples whose confidence exceeds 1 contribute nothing to the ECE.
    """
    return _scores(isotonic_output(calibrator, np.asarray(logits), dtype), y, leave_out=leave_out)


def spline_scores(calibrator: Any, logits: Any, y: Any) -> Scores:
    """Return the scores of SPLINE with zeros for the classes that are not predicted."""
    proba = calibrator.predict_proba(logits).astype(np.float64)
    is_predicted = np.arange(proba.shape[1]) == proba.argmax(axis=1)[:, None]
    return _scores(np.where(is_predicted, proba, 0.0), y)


def _scores(output: NDArray[Any], y: Any, *, leave_out: bool = False) -> Scores:
    """Return the scores of the output for all classes, with its argmax as the prediction."""
    predicted = output.argmax(axis=1)
    output = output.astype(np.float64)
    top = output[np.arange(len(output)), predicted]
    correct, confidence = predicted == y, np.minimum(top, 1.0)
    if leave_out:  # a sample with confidence 0 that is wrong has no gap
        correct, confidence = correct & (top <= 1), np.where(top <= 1, confidence, 0.0)
    labels = np.asarray(y, dtype=np.int64)
    return Scores(confidence, correct, np.ones(len(labels)), labels, output, predicted)


_AUTHORS: Final[dict[str, Callable[..., Scores]]] = {
    "irm": isotonic_scores,
    "irova": isotonic_scores,
    "irovats": partial(isotonic_scores, dtype=np.float64, leave_out=True),
    COUNTED: partial(isotonic_scores, dtype=np.float64),
    "spline": spline_scores,
}


def paper_method(name: str, *, authors: bool) -> MethodSpec:
    """Return a method as the paper used it, or as this package has it.

    Examples
    --------
    >>> paper_method("irm", authors=True).scores is None
    False
    """
    if name == WITHOUT_OOD:
        return MethodSpec(name, get_calibrator("energy"), frozenset({"source"}))
    calibrator = get_calibrator("irovats" if name == COUNTED else name)
    scores = _AUTHORS.get(name) if authors else None
    return MethodSpec(name, calibrator, default_data(calibrator), scores)
