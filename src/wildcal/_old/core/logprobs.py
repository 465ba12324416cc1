"""Log probabilities of label tokens, as language models list them: the top few, not all."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from wildcal._old.core.arrays import BoolArray, FloatArray, Logits

# Services print log probabilities to about this precision, so less mass than this cannot be told.
MASS_RESOLUTION = 1e-6
# exp of less is no float64; services write -9999 for a token that is not in the list.
LEAST_LOG_PROBA = float(np.log(np.finfo(np.float64).tiny))
# Sums of rounded probabilities; half-precision ones miss one by this much.
MASS_TOLERANCE = 5e-3

TokenRow: TypeAlias = Mapping[str, float] | Sequence[Mapping[str, Any]]
"""{token: log probability}, or [{"token": ..., "logprob": ...}, ...] as services return it."""


def logits_from_logprobs(
    top_logprobs: ArrayLike | Sequence[TokenRow],
    classes: Sequence[str | Sequence[str]] | None = None,
) -> Logits:
    """Return log probabilities of the label tokens, those outside the list with the missing mass.

    A list of the top tokens leaves out a mass r = 1 - sum of the listed probabilities. A label
    token outside the list has at most that, and no more than the least listed one, so each of the
    m missing labels is read as

        log(min(r / m, smallest listed probability)),    r at least 1e-6.

    Parameters
    ----------
    top_logprobs
        For each row the listed tokens (a dict token -> log probability, or a list of dicts with
        `token` and `logprob`), or a matrix (n_samples, n_classes) of log probabilities with -inf,
        NaN or -9999 where a label was not listed.
    classes
        The label tokens in class order, for rows of tokens. A class may be a list of spellings,
        such as ["yes", " Yes"], whose probabilities are added.

    Examples
    --------
    >>> rows = [{"yes": -0.105, "no": -2.996}, {"no": -0.0513, "maybe": -3.912}]
    >>> np.exp(logits_from_logprobs(rows, classes=["yes", "no"])).round(2)
    array([[0.9 , 0.05],
           [0.02, 0.95]])
    """
    if classes is None:
        return _fill_matrix(top_logprobs)
    spellings = [[c] if isinstance(c, str) else list(c) for c in classes]
    _check_classes(spellings)
    values = np.full((len(top_logprobs), len(spellings)), -np.inf)  # type: ignore[arg-type]
    rest, least = np.zeros(len(values)), np.zeros(len(values))
    for i, row in enumerate(top_logprobs):  # type: ignore[arg-type]
        listed = _listed(row, i)
        if listed:
            log_p = np.array(list(listed.values()))
            rest[i], least[i] = 1 - np.exp(log_p).sum(), log_p.min()
            _check_mass(i, rest[i], log_p.max())
        for k, tokens in enumerate(spellings):
            found = [listed[token] for token in tokens if token in listed]
            if found:
                values[i, k] = np.logaddexp.reduce(found)
        if not listed:
            rest[i] = 1.0
    return _give_rest(values, np.isneginf(values), rest, least)


def _fill_matrix(matrix: Any) -> Logits:
    array = np.asarray(matrix)
    if array.dtype.kind not in "fiu" or array.ndim != 2 or array.shape[1] < 2 or not len(array):
        raise ValueError(
            "logprobs must be a matrix (n_samples, n_classes >= 2) of real numbers, got"
            f" {array.dtype} {array.shape}. For rows of tokens pass classes=['yes', 'no']."
        )
    dtype = array.dtype if array.dtype.kind == "f" else np.dtype(np.float64)
    values = array.astype(np.float64)
    missing = np.isnan(values) | (values < LEAST_LOG_PROBA)
    values[missing] = -np.inf
    highest = values.max(axis=1)
    rest = 1 - np.exp(np.minimum(values, 0.0)).sum(axis=1)
    wrong = np.flatnonzero((rest < -MASS_TOLERANCE) | (highest > MASS_TOLERANCE))
    if len(wrong):
        _check_mass(int(wrong[0]), float(rest[wrong[0]]), float(highest[wrong[0]]))
    least = np.min(values, axis=1, where=~missing, initial=0.0)
    filled = _give_rest(values, missing, rest, least)
    return filled if dtype == np.float64 else filled.astype(np.float32)


def _give_rest(
    values: FloatArray, missing: BoolArray, rest: FloatArray, least: FloatArray
) -> FloatArray:
    """Write the missing mass of each row, shared equally, into its missing entries."""
    count = missing.sum(axis=1)
    share = np.log(np.maximum(rest, MASS_RESOLUTION) / np.maximum(count, 1))
    return np.asarray(np.where(missing, np.minimum(share, least)[:, None], values))


def _listed(row: Any, i: int) -> dict[str, float]:
    """Return {token: log probability} of one row, in whichever form it came."""
    if isinstance(row, Mapping):
        pairs = list(row.items())
    elif isinstance(row, Sequence) and all(isinstance(entry, Mapping) for entry in row):
        pairs = [(entry.get("token"), entry.get("logprob")) for entry in row]
    else:
        pairs = [(None, None)]
    listed: dict[str, float] = {}
    for token, value in pairs:
        number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if isinstance(token, str) and (value is None or (number and not value >= LEAST_LOG_PROBA)):
            continue  # not in the list, said in one of three ways
        if not isinstance(token, str) or not number:
            raise ValueError(
                f"row {i} of logprobs must be a dict of token -> log probability, or a list of"
                f" dicts with token and logprob, got {row!r:.80}."
            )
        listed[token] = float(value)
    return listed


def _check_mass(row: int, rest: float, highest: float) -> None:
    if highest > MASS_TOLERANCE:
        raise ValueError(
            f"log probabilities must not be above 0, but row {row} has {highest:.4g}."
            " For probabilities use kind='proba', for raw scores kind='logits'."
        )
    if rest < -MASS_TOLERANCE:
        raise ValueError(
            f"probabilities must sum to at most 1, but exp of row {row} sums to {1 - rest:.4g}."
            " Raw scores? Use kind='logits'."
        )


def _check_classes(spellings: list[list[str]]) -> None:
    tokens = [token for words in spellings for token in words]
    if len(spellings) < 2 or not all(spellings) or not all(isinstance(t, str) for t in tokens):
        raise ValueError(f"classes must be two or more label tokens, got {spellings!r:.80}.")
    if len(set(tokens)) < len(tokens):
        twice = next(t for t in tokens if tokens.count(t) > 1)
        raise ValueError(f"classes must be different tokens, but {twice!r} is there twice.")
