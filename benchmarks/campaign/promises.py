"""What any calibrator that was fitted or loaded promises, asked of a few hard rows."""

import numpy as np
from benchmarks.campaign.attack import FindingError
from numpy.typing import NDArray

from wildcal import Calibrator, DensityAware
from wildcal.testing import made_up_distances

CLASSES = 4


def hard_rows(n_classes: int = CLASSES) -> NDArray[np.float64]:
    """Return ordinary rows, and rows of ties, ruled out classes and great or small numbers."""
    rng = np.random.default_rng(5)
    ordinary = 3 * rng.normal(size=(20, n_classes))
    ruled_out = ordinary.copy()
    ruled_out[:, 0] = -np.inf
    flat = np.zeros((2, n_classes))
    return np.concatenate(
        [ordinary, ruled_out, flat, 1e4 * ordinary, 1e30 * ordinary, 1e-30 * ordinary]
    )


def check_promises(calibrator: Calibrator) -> None:
    """Raise a FindingError if a fitted calibrator breaks a promise on hard rows."""
    for dtype in (np.float64, np.float32):  # what a float64 holds may be infinite in a float32
        _check_on(calibrator, hard_rows(calibrator.n_classes_).astype(dtype))


def _check_on(calibrator: Calibrator, logits: NDArray[np.floating]) -> None:
    beside = {}
    if isinstance(calibrator, DensityAware):  # a file may have any number of layers
        two = made_up_distances(logits)
        beside = {"distances": two[:, np.arange(calibrator.n_layers) % 2]}
    contexts = [None]
    if calibrator.uses_window:
        contexts.append(calibrator.context(logits, **beside))
    for context in contexts:
        given = beside if context is None else {**beside, "context": context}
        proba = calibrator.predict_proba(logits, **given)
        confidence = calibrator.confidence(logits, **given)
        _hold(np.isfinite(proba).all() and (proba >= 0).all(), "probabilities are finite")
        _hold(np.allclose(proba.sum(axis=1), 1, atol=1e-4), "rows sum to 1")
        _hold(np.isfinite(confidence).all() and (confidence <= 1 + 1e-5).all(), "confidence <= 1")
        if calibrator.preserves_accuracy:
            winner = np.take_along_axis(proba, logits.argmax(axis=1)[:, None], axis=1)[:, 0]
            _hold((winner >= proba.max(axis=1) - 1e-6).all(), "the class is kept")
        apply = calibrator.apply(logits, **given)
        if "temperature" in apply:
            t = apply["temperature"]
            _hold(np.isfinite(t).all() and (t > 0).all(), "T > 0 and finite")


def _hold(held: object, promise: str) -> None:
    if not held:
        raise FindingError(f"broken promise: {promise}")
