"""The one door for input: every complaint about what a user handed over is made here.

Each message says what must hold, what was given and, where there is one, what to try.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wildcal._old.core.arrays import OOD_LABEL, BoolArray, FloatArray, Labels, Logits, Proba, Source

# A stream of single rows must not fail because one row of genuine logits happens to look like
# probabilities, so `predict` judges the look of its input only when it has this many rows.
ROWS_TO_JUDGE = 8
# float16 probabilities of a thousand classes miss a sum of one by about this much.
SUM_TOLERANCE = 1e-3
# One in a million above 1 is rounding.
PROBA_MAX = 1 + 1e-6
LOG_SUM_TOLERANCE = 5e-3
# The zeros of a row of probabilities, lifted to a floor, weigh at most this much beside the others.
LIFTED_MASS = 0.1
# Any sane temperature lies far inside; outside, float32 would turn logits into 0 * inf.
TEMPERATURES = (1e-6, 1e6)
# The bits of the largest probability, read as an unsigned integer.
PROBA_BITS: dict[Any, tuple[Any, int]] = {
    np.dtype(real): (unsigned, int(np.array(PROBA_MAX, real).view(unsigned)))
    for real, unsigned in ((np.float32, np.uint32), (np.float64, np.uint64))
}
# What needs no conversion: native floats.
_PLAIN = frozenset(map(np.dtype, (np.float16, np.float32, np.float64)))
# Rows looked at together by the scans below: small enough to stay in cache.
_SCAN_ELEMENTS = 1 << 16


def _as_matrix(values: ArrayLike, name: str, shape: str) -> NDArray[np.floating[Any]]:
    array = np.asarray(values)
    if array.dtype in _PLAIN and array.ndim == 2 and array.shape[0] and array.shape[1] > 1:
        return array  # nearly always; what follows finds out what is wrong
    if array.dtype.kind in "iub" or array.dtype == np.longdouble:
        array = array.astype(np.float64)
    elif array.dtype.name == "bfloat16":  # NumPy knows it only through an extension type
        array = array.astype(np.float32)
    if array.dtype.kind != "f":
        raise ValueError(f"{name} must be real numbers, got dtype {array.dtype}.")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.ndim != 2:
        hint = f" For a single row, pass {name}[None, :]." if array.ndim == 1 and array.size else ""
        raise ValueError(f"{name} must have shape {shape}, got {array.shape}.{hint}")
    if array.shape[0] == 0:
        raise ValueError(f"{name} must have at least one row, got shape {array.shape}.")
    if array.shape[1] < 2:
        raise ValueError(
            f"{name} must have shape {shape}, got {array.shape}."
            " For a binary model with one score s, pass np.column_stack([np.zeros_like(s), s])."
        )
    return array


def row_slices(array: Source | NDArray[Any], elements: int = _SCAN_ELEMENTS) -> Iterator[slice]:
    """Yield slices that cut the rows of a matrix into pieces of about `elements` entries."""
    step = max(1, elements // array.shape[1])
    return (slice(start, start + step) for start in range(0, len(array), step))


def reject_logit_row(row: int, values: NDArray[np.floating[Any]]) -> NoReturn:
    """Raise the error for a row of logits whose largest entry is not a finite number."""
    if np.isnan(values).any():
        what = "NaN"
    elif np.isposinf(values).any():
        what = "+inf"
    else:
        what = "only -inf"
    raise ValueError(
        f"logits must be finite, but row {row} holds {what}. Drop that row or mend the network."
    )


def check_logits(
    logits: ArrayLike, *, n_classes: int | None = None, fitting: bool = False
) -> Logits:
    """Return the logits as a matrix of shape (n_samples, n_classes), not copied where possible.

    Parameters
    ----------
    logits
        Raw scores, float16 to float64. -inf is allowed for a class that is ruled out.
    n_classes
        The number of classes a fitted calibrator expects, if there is one.
    fitting
        Look at every row for NaN and infinities now. In `predict` the kernel sees them on its way
        through, which saves a pass over the matrix.
    """
    array = _as_matrix(logits, "logits", "(n_samples, n_classes >= 2)")
    if n_classes is not None and array.shape[1] != n_classes:
        raise ValueError(f"logits must have {n_classes} columns, as in fit, got {array.shape[1]}.")
    if fitting:
        for piece in row_slices(array):
            block = array[piece]
            # Extremes of a whole block are cheap and hand NaN on; rows are looked at on suspicion.
            if not (np.isfinite(block.max()) and np.isfinite(block.min())):
                bad = np.flatnonzero(~np.isfinite(block.max(axis=1)))
                if len(bad):
                    reject_logit_row(piece.start + int(bad[0]), block[bad[0]])
    if fitting or len(array) >= ROWS_TO_JUDGE:
        _refuse_probabilities(array)
    return array


def _refuse_probabilities(array: Logits) -> None:
    for piece in row_slices(array, elements=1 << 12):  # genuine logits leave in the first piece
        values = array[piece]
        if values.min() < 0 or not looks_like_proba(values.astype(np.float64)).all():
            return
    raise ValueError(
        "logits must be raw scores, but every row lies in [0, 1] and sums to 1: these are"
        " probabilities. Pass the scores before the softmax, or logits_from_proba(proba)."
    )


def looks_like_proba(values: FloatArray) -> BoolArray:
    """Return, for each row, whether it lies in [0, 1] and sums to one."""
    inside = (values >= 0).all(axis=1) & (values <= 1).all(axis=1)
    with np.errstate(over="ignore", invalid="ignore"):  # logits near the largest float
        return np.asarray(inside & (np.abs(values.sum(axis=1) - 1) <= SUM_TOLERANCE))


def refuse_log_probabilities(array: Source, who: str) -> None:
    """Raise if every row is a log-softmax: its energy is zero, so it says nothing."""
    if len(array) < ROWS_TO_JUDGE:
        return
    step = max(1, (1 << 12) // array.shape[1])
    for start in range(0, len(array), step):  # raw scores leave in the first piece
        values = array[start : start + step].astype(np.float64)
        top = values.max(axis=1)
        if not (
            np.abs(top) < 1e3
        ).all():  # no row of log probabilities; also NaN, which comes later
            return
        if not looks_like_log_proba(top + np.log(np.exp(values - top[:, None]).sum(axis=1))):
            return
    raise ValueError(
        "logits must be raw scores, but every row is normalized (its exponentials sum to 1), as"
        f" log_softmax returns it. {who} reads the energy, which normalizing removes:"
        " pass the scores before the log_softmax."
    )


def looks_like_log_proba(energy: FloatArray) -> bool:
    """Return whether all energies are those of log probabilities, some zeros lifted or not.

    Zero, up to the rounding of half-precision log_softmax, and up to what lifted zeros weigh.
    """
    return bool((np.abs(energy) < np.log1p(LIFTED_MASS) + LOG_SUM_TOLERANCE).all())


def check_labels(
    y: ArrayLike,
    n_rows: int,
    n_classes: int,
    *,
    accepts_ood: bool,
    who: str = "this method",
) -> Labels:
    """Return the labels as int64 of shape (n_rows,), in 0..K-1, or -1 where OOD is accepted."""
    array = np.asarray(y)
    if array.dtype.kind in "USO":
        raise ValueError(
            f"y must be integers 0..{n_classes - 1}, got dtype {array.dtype}."
            " Encode class names as their column index in the logits."
        )
    if array.ndim == 2 and array.shape == (n_rows, n_classes):
        raise ValueError(
            f"y must have shape ({n_rows},), got {array.shape}: one-hot rows?"
            " Pass y.argmax(axis=1)."
        )
    if array.ndim != 1:
        raise ValueError(f"y must have shape ({n_rows},), got {array.shape}.")
    if array.dtype.kind not in "iu":
        raise ValueError(f"y must be integers, got dtype {array.dtype}. Try y.astype(int).")
    if len(array) != n_rows:
        raise ValueError(f"y must have one label per row: {n_rows} rows, {len(array)} labels.")
    lowest, highest = int(array.min()), int(array.max())
    bottom = OOD_LABEL if accepts_ood else 0
    if lowest < bottom or highest >= n_classes:
        message = f"y must lie in [{bottom}, {n_classes - 1}], got [{lowest}, {highest}]."
        if lowest == OOD_LABEL and not accepts_ood:
            message += f" {who} does not use out-of-distribution rows; drop y == -1."
        raise ValueError(message)
    return array.astype(np.int64, copy=False)


def check_weight(sample_weight: ArrayLike | None, n_rows: int) -> FloatArray | None:
    """Return the row weights as float64 of shape (n_rows,), or None where all rows are equal."""
    if sample_weight is None:
        return None
    array = np.asarray(sample_weight)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"sample_weight must be real numbers, got dtype {array.dtype}.")
    if array.shape != (n_rows,):
        raise ValueError(f"sample_weight must have shape ({n_rows},), got {array.shape}.")
    weight = array.astype(np.float64)
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise ValueError("sample_weight must be finite and not negative.")
    if weight.max(initial=0.0) <= 0:
        raise ValueError("sample_weight must not be zero on every row.")
    return weight / weight.max() if weight.max() > 1e100 else weight  # so that sums are finite


def check_environment_numbers(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return environments as they are; raise unless they are integers from 0 on."""
    if numbers.dtype.kind not in "iu":
        raise ValueError(
            f"environment must be integers, got dtype {numbers.dtype}. Number your environments,"
            " the clean one 0."
        )
    if int(numbers.min()) < 0:
        raise ValueError(f"environment must not be negative, got {int(numbers.min())}.")
    return numbers


def check_clean(labeled: bool, weighed: bool) -> None:
    """Raise unless environment 0 has labeled rows, and some of them a weight."""
    if not labeled:
        raise ValueError(
            "environment 0, the clean one, must have labeled rows, got none. Give the labeled"
            " rows without shift the number 0."
        )
    if not weighed:
        raise ValueError("sample_weight must not be zero on every labeled row of environment 0.")


def check_environment(environment: ArrayLike, y: Labels, weight: FloatArray | None) -> Labels:
    """Return the environment of each row as int64, numbered anew: 0, 1, 2, ... in their order.

    0 must be there, with labels and weight, and stays 0. The others are names, and may be as large
    as uint64 goes.
    """
    array = np.asarray(environment)
    if array.shape != y.shape:
        raise ValueError(f"environment must have shape {y.shape}, got {array.shape}.")
    check_environment_numbers(array)
    clean = (array == 0) & (y != OOD_LABEL)
    check_clean(bool(clean.any()), weight is None or bool(weight[clean].any()))
    return np.unique(array, return_inverse=True)[1].astype(np.int64, copy=False)


def check_distances(distances: ArrayLike, n_rows: int) -> FloatArray:
    """Return distances to training rows as float64 of shape (n_rows, n_layers), not negative."""
    array = np.asarray(distances)
    if array.dtype.kind not in "fiu":
        raise ValueError(f"distances must be real numbers, got dtype {array.dtype}.")
    if array.ndim != 2 or len(array) != n_rows or array.shape[1] < 1:
        raise ValueError(
            f"distances must have a row for each of the {n_rows} rows of logits and a column for"
            f" each layer, got shape {array.shape}."
        )
    array = array.astype(np.float64)
    wrong = ~(np.isfinite(array) & (array >= 0)).all(axis=1)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"distances must be finite, not negative, but row {row} holds"
            f" {array[row][~(np.isfinite(array[row]) & (array[row] >= 0))][0]:g}."
        )
    return np.asarray(array)


def check_window(window: ArrayLike, n_rows: int) -> Labels:
    """Return the number of the window that each row arrived in, as int64 of shape (n_rows,)."""
    array = np.asarray(window)
    if array.dtype.kind not in "iu" or array.shape != (n_rows,):
        raise ValueError(
            f"window must have a whole number for each of the {n_rows} rows, got dtype"
            f" {array.dtype}, shape {array.shape}."
        )
    return array.astype(np.int64, copy=False)


def proba_matrix(proba: ArrayLike) -> Proba:
    """Return class probabilities as a matrix (n_samples, n_classes), values not yet looked at.

    For a caller that sees every entry anyway and can hand a bad row to `reject_proba_row`.
    """
    return _as_matrix(proba, "proba", "(n_samples, n_classes >= 2)")


def are_proba(block: Proba) -> bool:
    """Return whether every entry of a contiguous array lies in [0, 1], in one pass over it.

    As unsigned integers, floats from 0 to 1 are the smallest numbers: negative ones have the sign
    bit, and NaN and infinities lie above all that are finite. Only -0.0 asks for a second look.

    >>> are_proba(np.array([0.0, 1.0])), are_proba(np.array([0.5, np.nan])), are_proba(-np.zeros(1))
    (True, False, True)
    """
    unsigned, largest = PROBA_BITS.get(block.dtype, (None, 0))
    if unsigned is not None and block.view(unsigned).max(initial=0) <= largest:
        return True
    return bool(block.min(initial=0) >= 0 and block.max(initial=0) <= PROBA_MAX)


def reject_proba_row(start: int, block: Proba) -> NoReturn:
    """Raise the error for the first row of a block (which begins at row `start`) outside [0, 1]."""
    # Comparisons with NaN are false, so NaN is caught here too.
    wrong = ~((block >= 0) & (block <= PROBA_MAX)).all(axis=1)
    row = int(np.flatnonzero(wrong)[0])
    raise ValueError(
        f"proba must lie in [0, 1], but row {start + row} has"
        f" [{block[row].min():.4g}, {block[row].max():.4g}]."
        " Logits? Use softmax(logits) or a calibrator's predict_proba."
    )


def check_proba(proba: ArrayLike) -> Proba:
    """Return class probabilities as a matrix (n_samples, n_classes), range checked.

    Rows need not sum to one, because some published methods do not normalize theirs; a NaN, an
    infinity, or an entry outside [0, 1] is refused.
    """
    array = proba_matrix(proba)
    for piece in row_slices(array):
        block = array[piece]
        if not are_proba(block):
            reject_proba_row(piece.start, block)
    return array


def check_scores(values: ArrayLike, name: str) -> FloatArray:
    """Return a 1-D float64 array of finite scores (any range)."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must be real numbers, got dtype {array.dtype}.")
    if array.ndim != 1:
        raise ValueError(f"{name} must be 1-D, got shape {array.shape}.")
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array))[0])
        raise ValueError(f"{name} must be finite, but row {row} is {array[row]}.")
    return np.asarray(array)


def check_confidence(confidence: ArrayLike) -> FloatArray:
    """Return top-label confidences as float64 in [0, 1]; rounding just above 1 is clipped."""
    array = check_scores(confidence, "confidence")
    if array.size and (array.min() < 0 or array.max() > PROBA_MAX):
        raise ValueError(
            f"confidence must lie in [0, 1], got [{array.min():.4g}, {array.max():.4g}]."
        )
    return np.minimum(array, 1.0)


def check_correct(correct: ArrayLike, n_rows: int) -> BoolArray:
    """Return a boolean array of shape (n_rows,): whether the predicted class was right."""
    array = np.asarray(correct)
    if array.dtype != np.bool_:
        raise ValueError(
            "with 1-D confidences, the first argument must be a boolean array `correct`"
            f" (pred == y), got dtype {array.dtype}."
        )
    if array.shape != (n_rows,):
        raise ValueError(f"correct must have shape ({n_rows},), got {array.shape}.")
    return array


def check_top_label(y: ArrayLike, proba: ArrayLike, pred: ArrayLike | None) -> bool:
    """Return True for (correct, confidence) and False for (y, proba), told apart by their types.

    Only what would otherwise lead to a puzzling message is refused here; the two forms have their
    own checks.
    """
    first, second = np.asarray(y), np.asarray(proba)
    if (first.ndim == 2 and second.ndim == 1) or second.dtype.kind == "b":
        raise ValueError(
            f"got {first.dtype} {first.shape} and {second.dtype} {second.shape}: the arguments look"
            " swapped. Pass (y, proba) or (correct, confidence)."
        )
    if second.ndim == 2 and first.dtype.kind == "b":
        raise ValueError(
            "with 2-D probabilities, the first argument must be integer labels y, got dtype bool."
            " A boolean `correct` goes with 1-D confidences."
        )
    if second.ndim == 1 and pred is not None:
        raise ValueError(
            "pred goes with 2-D probabilities; a 1-D confidence is already that of the prediction."
        )
    return second.ndim == 1


def check_pred(pred: ArrayLike, n_rows: int, n_classes: int) -> Labels:
    """Return the predicted classes as int64 of shape (n_rows,), in 0..K-1."""
    array = np.asarray(pred)
    if array.dtype.kind not in "iu":
        raise ValueError(f"pred must be integer classes, got dtype {array.dtype}.")
    if array.shape != (n_rows,):
        raise ValueError(f"pred must have shape ({n_rows},), got {array.shape}.")
    lowest, highest = int(array.min()), int(array.max())
    if lowest < 0 or highest >= n_classes:
        raise ValueError(f"pred must lie in [0, {n_classes - 1}], got [{lowest}, {highest}].")
    return array.astype(np.int64, copy=False)


def check_flags(values: ArrayLike, n_rows: int, name: str) -> BoolArray:
    """Return a boolean array of shape (n_rows,), one yes or no per score."""
    array = np.asarray(values)
    if array.dtype != np.bool_:
        raise ValueError(
            f"{name} must be a boolean array, got dtype {array.dtype}. Write out the comparison,"
            " such as y >= 0."
        )
    if array.shape != (n_rows,):
        raise ValueError(f"{name} must have one flag per score, ({n_rows},), got {array.shape}.")
    return array


MOST_BINS = 100_000
"""Of a metric or a histogram: a bin for each of more rows than anyone bins."""


def check_count(name: str, value: int, *, least: int = 1, most: int | None = None) -> int:
    """Return a whole number that is at least `least`, and where there is a `most` at most that."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    if most is not None and value > most:
        raise ValueError(f"{name} must be at most {most:,}, got {value:,}.")
    return int(value)


def check_same(kind: str, mine: object, other: object) -> None:
    """Raise if two accumulators of a streamed metric were made with different settings."""
    if mine != other:
        raise ValueError(f"{kind} with {mine} cannot take in one with {other}.")


def check_lengths(who: str, *arrays: NDArray[Any]) -> int:
    """Return the number of rows that the arrays have in common."""
    lengths = [array.shape[0] if array.ndim else None for array in arrays]
    if not lengths or None in lengths or len(set(lengths)) > 1:
        shapes = ", ".join(str(array.shape) for array in arrays) or "none"
        raise ValueError(f"{who} must have arrays of equal length, got {shapes}.")
    return len(arrays[0])


def check_level(level: float) -> float:
    """Return the level of an interval, strictly between 0 and 1."""
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, such as 0.95, got {level!r}.")
    return float(level)


def check_choice(name: str, value: object, allowed: Sequence[str]) -> None:
    """Raise if an option is not one of the words it may be."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}.")


def check_some_known(y: Labels, weight: FloatArray | None = None) -> None:
    """Raise unless some in-distribution row has weight: without one there is nothing to measure."""
    known = y != OOD_LABEL
    if not known.any():
        raise ValueError("y must have some in-distribution rows, got -1 everywhere.")
    if weight is not None and not weight[known].any():
        raise ValueError("sample_weight must not be zero on every in-distribution row.")


def check_bounds(name: str, bounds: object) -> None:
    """Raise unless bounds is a pair of temperatures 0.000001 <= low < high <= 1000000."""
    good = (
        isinstance(bounds, tuple)
        and len(bounds) == 2
        and all(isinstance(b, int | float) and not isinstance(b, bool) for b in bounds)
        and TEMPERATURES[0] <= bounds[0] < bounds[1] <= TEMPERATURES[1]
    )
    if not good:
        raise ValueError(
            f"{name} must be a pair (low, high) of temperatures with"
            f" {TEMPERATURES[0]:g} <= low < high <= {TEMPERATURES[1]:g}, got {bounds!r}."
        )


def check_temperature(name: str, value: float) -> None:
    """Raise unless a temperature is one that float32 can divide by."""
    if not TEMPERATURES[0] <= value <= TEMPERATURES[1]:
        raise ValueError(
            f"{name} must be positive, from {TEMPERATURES[0]:g} to {TEMPERATURES[1]:g},"
            f" got {value}."
        )
