"""Decomposition of proper scores into miscalibration, discrimination and uncertainty."""

from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from wildcal.core.arrays import FloatArray
from wildcal.core.exceptions import InputError
from wildcal.core.validation import check_choice
from wildcal.metrics._scores import Scores, check_scores
from wildcal.metrics.reliability import isotonic_fit


@dataclass(frozen=True)
class Decomposition:
    """score = miscalibration - discrimination + uncertainty."""

    score: float
    miscalibration: float
    """What recalibration would gain; 0 for calibrated probabilities."""
    discrimination: float
    """What recalibrated probabilities gain over the class frequencies; higher is better."""
    uncertainty: float
    """The score of the class frequencies, which no model changes."""

    def to_dict(self) -> dict[str, float]:
        """Return the parts by name."""
        return asdict(self)


def decompose(
    y: ArrayLike,
    proba: ArrayLike,
    *,
    score: Literal["nll", "brier_score"] = "nll",
    sample_weight: ArrayLike | None = None,
) -> Decomposition:
    """Return the parts of the NLL or the Brier score by isotonic recalibration.

    With S the score, p the probabilities, q the recalibrated ones and f the class frequencies:
    miscalibration = S(p) - S(q), discrimination = S(f) - S(q), uncertainty = S(f).

    q is the isotonic regression of y = k on the probability of class k. With one event (two
    classes, or confidences) both parts are at least 0. So they are for the Brier score of any
    number of classes, which is a sum over classes. For the NLL of more than two classes, q is
    divided by its sum over classes, and the miscalibration of well calibrated probabilities may be
    slightly negative. q is fitted on the same samples: with few samples both parts are too large.

    Parameters
    ----------
    y, proba
        Labels (n,) and probabilities (n, K), or booleans (n,), whether the prediction was right,
        and confidences (n,). OOD samples (y = -1) are left out.
    score
        "nll" or "brier_score". With confidences, the Brier score is (confidence - correct)^2.
    sample_weight
        Counts (n,): a weight of 2 is equivalent to repeating the sample.

    References
    ----------
    Dimitriadis, Gneiting, Jordan (2021), "Stable reliability diagrams for probabilistic
    classifiers", PNAS.

    Examples
    --------
    >>> parts = decompose(np.array([True, False, True, False]), [0.9, 0.9, 0.6, 0.1],
    ...                   score="brier_score")
    >>> parts.uncertainty
    0.25
    >>> bool(np.isclose(parts.score, parts.miscalibration - parts.discrimination + 0.25))
    True
    """
    check_choice("score", score, ("nll", "brier_score"))
    scores = check_scores(y, proba, sample_weight)
    scores = scores.subset(~scores.is_ood & (scores.weight > 0))
    if not len(scores):
        raise InputError("y must contain in-distribution samples, got none.", "y")
    p, t = _events(scores)
    w = scores.weight
    q = np.column_stack([isotonic_fit(p[:, k], t[:, k], w) for k in range(p.shape[1])])
    f = np.broadcast_to(w @ t / w.sum(), t.shape)
    if score == "nll" and p.shape[1] > 2:
        q = q / q.sum(axis=1, keepdims=True)
    function = _nll if score == "nll" else _brier
    scale = 0.5 if score == "brier_score" and scores.y is None else 1.0
    of_p, of_q, of_f = (scale * float(w @ function(x, t) / w.sum()) for x in (p, q, f))
    return Decomposition(of_p, of_p - of_q, of_f - of_q, of_f)


def _events(scores: Scores) -> tuple[FloatArray, FloatArray]:
    """Return probabilities and one-hot labels; of confidences, those of wrong and right."""
    if scores.y is None:
        p = np.column_stack([1 - scores.confidence, scores.confidence])
        return p, np.column_stack([~scores.correct, scores.correct]).astype(np.float64)
    p = np.concatenate(scores.blocks())
    return p, (scores.y[:, None] == np.arange(p.shape[1])).astype(np.float64)


def _nll(p: FloatArray, t: FloatArray) -> FloatArray:
    return np.asarray(-np.log(np.clip((p * t).sum(axis=1), 1e-34, 1)))


def _brier(p: FloatArray, t: FloatArray) -> FloatArray:
    return np.asarray(((p - t) ** 2).sum(axis=1))
