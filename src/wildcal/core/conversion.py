"""Convert probabilities, log-probabilities, scores and confidences to logits.

`to_logits` is array-API code: it is part of every exported formula. The public `logits_from_*`
functions check their input and work on NumPy arrays.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wildcal.core.arrays import Array, FloatArray, clip
from wildcal.core.exceptions import InputError

INPUT_KINDS: Final = ("logits", "proba", "log_proba", "score", "confidence")
ONE_COLUMN: Final = ("score", "confidence")
"""Inputs of one number per sample."""

# Zeros that were replaced by a floor weigh at most this much in a sample.
_LARGEST_FLOOR_MASS: Final = 0.1
# The log-probability from which on a token counts as not listed, and the resolution of a sum.
_NOT_LISTED: Final = -9000.0
_MASS_TOLERANCE: Final = 1e-3
_MASS_RESOLUTION: Final = 1e-6


def to_logits(xp: Any, x: Array, kind: str, eps: float) -> Array:
    """Return logits of an input of the given kind, shape (n_samples, n_classes).

    Probabilities below `eps` count as `eps`. A score is the log-odds of class 1. A confidence is
    the probability of class 1 of the problem "is the prediction right?".
    """
    if kind == "proba":
        return xp.log(clip(xp, x, eps, None))
    if kind == "score":
        x = xp.reshape(x, (-1, 1))
        return xp.concat([x / -2, x / 2], axis=1)
    if kind == "confidence":
        x = xp.reshape(x, (-1, 1))
        return xp.log(clip(xp, xp.concat([1 - x, x], axis=1), eps, None))
    return x


def smallest_positive(proba: NDArray[Any]) -> float:
    """Return the number that replaces a probability of zero, from probabilities or confidences.

    It is half of the smallest positive entry m, and at most 0.1 / K: min(m / 2, 0.1 / K). A random
    forest of 100 trees resolves hundredths, so its zeros count as half of that.
    """
    if proba.ndim == 1:
        proba = np.stack([1 - proba, proba], axis=1)
    n_classes: int = proba.shape[1]
    positive = proba[proba > 0]
    m = float(positive.min()) if positive.size else 1.0
    # At least the smallest normal number, whose logarithm float32 has.
    tiny = float(np.finfo(np.float16 if proba.dtype == np.float16 else np.float32).tiny)
    return max(min(m / 2, _LARGEST_FLOOR_MASS / n_classes), tiny)


def logits_from_proba(proba: ArrayLike, *, eps: float | None = None) -> NDArray[Any]:
    """Return log(max(proba, eps)).

    Parameters
    ----------
    proba
        Shape (n_samples, n_classes), in [0, 1].
    eps
        Replaces smaller probabilities. Default: min(m / 2, 0.1 / K), where m is the smallest
        positive entry. Pass the value of the calibration set for later samples.

    Examples
    --------
    >>> logits_from_proba([[0.5, 0.5], [0.9, 0.1]]).round(3)
    array([[-0.693, -0.693],
           [-0.105, -2.303]])
    """
    array = np.asarray(proba)
    if array.dtype.kind != "f":
        array = array.astype(np.float64)
    if array.ndim != 2 or not array.size:
        raise InputError(
            f"proba must have shape (n_samples, n_classes >= 2), got {array.shape}.", "proba"
        )
    if not (array.min() >= 0 and array.max() <= 1 + 1e-6):
        raise InputError("proba must lie in [0, 1]. Try the logits themselves.", "proba")
    if eps is None:
        eps = smallest_positive(array)
    elif not 0 < eps <= 0.1:
        raise InputError(f"eps must lie in (0, 0.1], got {eps!r}.", "eps")
    return np.asarray(np.log(np.maximum(array, array.dtype.type(eps))))


def logits_from_score(score: ArrayLike) -> NDArray[Any]:
    """Return the columns -s / 2 and s / 2 of a binary score s, the log-odds of class 1.

    Examples
    --------
    >>> logits_from_score([-1.5, 2.0])
    array([[ 0.75, -0.75],
           [-1.  ,  1.  ]])
    """
    array = np.asarray(score)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or not array.size or not np.isfinite(array).all():
        raise InputError(
            f"score must be finite numbers of shape (n_samples,), got {array.shape}.", "score"
        )
    return np.column_stack([array / -2, array / 2])


def logits_from_logprobs(
    top_logprobs: ArrayLike | Sequence[Any], classes: Sequence[str | Sequence[str]] | None = None
) -> NDArray[Any]:
    """Return log-probabilities of label tokens from lists of the most likely tokens.

    A list leaves out the mass r = 1 - sum of the listed probabilities. Each of the m labels that
    are not listed gets log(min(r / m, smallest listed probability)), with r at least 1e-6.

    Parameters
    ----------
    top_logprobs
        For each sample a dict token -> log-probability or a list of dicts with `token` and
        `logprob`; or an array (n_samples, n_classes) with -inf or NaN where a label is not listed.
    classes
        The label tokens in class order, for lists of tokens. A class may have several spellings,
        such as ["yes", " Yes"]; their probabilities are added.

    Examples
    --------
    >>> tokens = [{"yes": -0.105, "no": -2.996}, {"no": -0.0513, "maybe": -3.912}]
    >>> np.exp(logits_from_logprobs(tokens, classes=["yes", "no"])).round(2)
    array([[0.9 , 0.05],
           [0.02, 0.95]])
    """
    if classes is None:
        values = np.array(top_logprobs, dtype=np.float64, ndmin=2)
        values[np.isnan(values) | (values < _NOT_LISTED)] = -np.inf
        listed: list[NDArray[Any]] = [row[np.isfinite(row)] for row in values]
    else:
        spellings = [[names] if isinstance(names, str) else list(names) for names in classes]
        values = np.full((len(top_logprobs), len(spellings)), -np.inf)  # type: ignore[arg-type]
        listed = []
        for i, sample in enumerate(top_logprobs):  # type: ignore[arg-type]
            tokens = _token_logprobs(sample, i)
            listed.append(np.array(list(tokens.values())))
            for k, names in enumerate(spellings):
                found = [tokens[name] for name in names if name in tokens]
                values[i, k] = np.logaddexp.reduce(found) if found else -np.inf
    if values.ndim != 2 or values.shape[1] < 2 or not len(values):
        raise InputError(
            f"top_logprobs must give (n_samples, n_classes >= 2) values, got {values.shape}.",
            "top_logprobs",
        )
    for i, row in enumerate(listed):
        _fill_missing(values[i], row, i)
    return values


def _fill_missing(values: FloatArray, listed: FloatArray, sample: int) -> None:
    """Give the mass that is not listed to the classes without a value."""
    rest = 1 - float(np.exp(np.minimum(listed, 0)).sum()) if listed.size else 1.0
    if listed.size and (listed.max() > _MASS_TOLERANCE or rest < -_MASS_TOLERANCE):
        raise InputError(
            "top_logprobs must be log-probabilities whose exponentials sum to at most 1, got"
            f" {1 - rest:.4g} at index {sample}. Try input='logits' for raw scores.",
            "top_logprobs",
        )
    missing = np.isneginf(values)
    if missing.any():
        share = np.log(max(rest, _MASS_RESOLUTION) / missing.sum())
        values[missing] = min(share, float(listed.min(initial=0.0)))


def _token_logprobs(sample: Any, index: int) -> dict[str, float]:
    if isinstance(sample, Mapping):
        pairs = list(sample.items())
    elif isinstance(sample, Sequence) and all(isinstance(entry, Mapping) for entry in sample):
        pairs = [(entry.get("token"), entry.get("logprob")) for entry in sample]
    else:
        pairs = [(None, None)]
    if not all(isinstance(token, str) for token, _ in pairs):
        raise InputError(
            "top_logprobs must be dicts token -> log-probability, or lists of dicts with token and"
            f" logprob, got {sample!r:.80} at index {index}.",
            "top_logprobs",
        )
    return {t: float(v) for t, v in pairs if v is not None and float(v) >= _NOT_LISTED}
