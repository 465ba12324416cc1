"""Array operations of the formulas, for arrays of the Python array API standard.

Each function takes the array namespace `xp` first. `z` has shape (n_samples, n_classes); results
for samples have shape (n_samples, 1), so that they broadcast against `z`.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import array_api_compat
import array_api_compat.numpy as np_compat
import numpy as np
from array_api_compat import array_namespace, is_numpy_array
from numpy.typing import NDArray

Array: TypeAlias = Any
"""An array of any library that follows the standard."""
FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]

LOG_TINY: Final = float(np.log(np.finfo(np.float32).tiny))
"""Logarithm of the smallest normal float32; smaller probabilities count as equal."""
# Entries of a block of samples: they stay in the cache of a core.
BLOCK_ENTRIES: Final = 1 << 16
# Below this number of classes NumPy reduces over classes faster in Fortran order.
FEW_CLASSES: Final = 128
# Bins of the confidence in a reference profile.
N_CONFIDENCE_BINS: Final = 20
# Scores of equal samples differ by rounding.
_ROUNDING: Final = 1e-9
CONFIDENCE_ROUNDING: Final = 1e-7
"""That of confidences, which are float32."""
# Logit of a masked class, relative to the largest logit of the sample.
_MASKED: Final = -1e4


def is_numpy(xp: Any) -> bool:
    """Return whether `xp` is NumPy, which allows operations in place."""
    return xp is np_compat or xp is np


def namespace(x: Array) -> Any:
    """Return the array namespace of `x`."""
    return np_compat if is_numpy_array(x) else array_namespace(x)


def device(x: Array) -> Any:
    """Return the device of `x`."""
    if hasattr(x, "detach"):  # torch.compile cannot trace the function of array-api-compat
        return x.device
    return array_api_compat.device(x)


def convert(xp: Any, value: NDArray[Any], like: Array) -> Array:
    """Return a NumPy array as an array of the library, precision and device of `like`."""
    if value.dtype.kind != "f":
        return xp.asarray(value, device=device(like))
    return xp.asarray(value, dtype=like.dtype, device=device(like))


def clip(xp: Any, x: Array, low: float | None, high: float | None = None) -> Array:
    """Return x limited to [low, high]; None is no limit."""
    if not is_numpy(xp):
        return xp.clip(x, low, high)
    # Of a single sample, `clip` of array-api-compat takes longer than a softmax.
    x = x if low is None else np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


def softmax(xp: Any, z: Array, temperature: Any = None) -> Array:
    """Return softmax(z / temperature), or softmax(z).

    The maximum is subtracted first, so that a large constant in `z` costs no digits.
    """
    if is_numpy(xp):
        e = z - z.max(axis=-1, keepdims=True)
        if temperature is not None:
            e /= temperature
        np.exp(e, out=e)
        e /= e.sum(axis=-1, keepdims=True)
        return e
    e = z - xp.max(z, axis=-1, keepdims=True)
    e = xp.exp(e if temperature is None else e / temperature)
    return e / xp.sum(e, axis=-1, keepdims=True)


def log_softmax(xp: Any, z: Array) -> Array:
    """Return log(softmax(z))."""
    z = z - xp.max(z, axis=-1, keepdims=True)
    return z - xp.log(xp.sum(xp.exp(z), axis=-1, keepdims=True))


def logsumexp(xp: Any, z: Array) -> Array:
    """Return log(sum(exp(z))) over classes, shape (n_samples, 1)."""
    top = xp.max(z, axis=-1, keepdims=True)
    return top + xp.log(xp.sum(xp.exp(z - top), axis=-1, keepdims=True))


def entropy(xp: Any, z: Array) -> Array:
    """Return the entropy of softmax(z) in nats, shape (n_samples, 1)."""
    t = z - xp.max(z, axis=-1, keepdims=True)
    e = xp.exp(t)
    total = xp.sum(e, axis=-1, keepdims=True)
    return xp.log(total) - xp.sum(e * t, axis=-1, keepdims=True) / total


def softplus(xp: Any, x: Array) -> Array:
    """Return log(1 + exp(x))."""
    return clip(xp, x, 0, None) + xp.log1p(xp.exp(-xp.abs(x)))


def is_top_class(xp: Any, z: Array) -> Array:
    """Return 1 at the largest entry of each sample, the first on ties, and 0 elsewhere."""
    if is_numpy(xp):
        top = z == z.max(axis=-1, keepdims=True)
        if np.count_nonzero(top) > len(z):
            top = np.arange(z.shape[-1]) == z.argmax(axis=-1, keepdims=True)
        return top.astype(z.dtype)
    top = xp.arange(z.shape[-1], device=device(z)) == xp.argmax(z, axis=-1, keepdims=True)
    return xp.astype(top, z.dtype)


def largest(xp: Any, z: Array, k: int) -> Array:
    """Return the `k` largest entries of each sample in descending order."""
    if is_numpy(xp):
        part = z if z.shape[-1] == k else np.partition(z, -k, axis=-1)[..., -k:]
        return np.flip(np.sort(part, axis=-1), axis=-1)
    if hasattr(xp, "topk"):  # the torch exporter to ONNX has no conversion of sort
        return xp.topk(z, k, dim=-1)[0]
    return xp.sort(z, axis=-1, descending=True)[..., :k]


def masked_apply(xp: Any, formula: Callable[..., Array], z: Array, *inputs: Array) -> Array:
    """Return `formula(xp, z, *inputs)` with probability 0 for classes whose logit is -inf.

    Their logits are replaced by a very small finite number before and their probabilities by zero
    after, the others divided by their sum.
    """
    if is_numpy(xp) and z.min() != -np.inf:
        return formula(xp, z, *inputs)
    masked = z == -xp.inf
    p = formula(xp, xp.where(masked, xp.max(z, axis=-1, keepdims=True) + _MASKED, z), *inputs)
    p = xp.where(masked, xp.zeros_like(p), p + 1e-30)  # a sum of zero would give NaN
    return p / xp.sum(p, axis=-1, keepdims=True)


def unmask(z: FloatArray) -> FloatArray:
    """Return NumPy logits with -inf replaced by a very small finite number."""
    if z.min() != -np.inf:
        return z
    return np.where(np.isneginf(z), z.max(axis=1, keepdims=True) + _MASKED, z)


def in_blocks(
    function: Callable[..., Array], z: NDArray[Any], *inputs: NDArray[Any]
) -> NDArray[Any]:
    """Return `function(z, *inputs)` of NumPy arrays, computed for blocks of samples.

    `function` must work sample by sample. Blocks of few classes are in Fortran order: NumPy then
    reduces over classes by whole columns. The result is in C order.
    """
    n = len(z)
    k = z.size // n
    fortran = z.ndim == 2 and k < FEW_CLASSES and n > 8
    if z.size <= BLOCK_ENTRIES:
        return np.ascontiguousarray(function(np.asfortranarray(z) if fortran else z, *inputs))
    size = max(1, BLOCK_ENTRIES // k)
    out: NDArray[Any] | None = None
    for start in range(0, n, size):
        part = slice(start, start + size)
        block = np.asfortranarray(z[part]) if fortran else z[part]
        result = function(block, *(values[part] for values in inputs))
        if out is None:
            out = np.empty((n, *result.shape[1:]), dtype=result.dtype)
        out[part] = result
    assert out is not None
    return out


def in_chunks(function: Callable[..., Array], x: Array, *inputs: Array) -> Array:
    """Return `function(x, *inputs)` of Dask arrays, computed for chunks of samples when needed."""
    if x.ndim == 2:
        x = x.rechunk({1: -1})
    known = not np.isnan(x.chunks[0]).any()
    inputs = tuple(a.rechunk({1: -1} | ({0: x.chunks[0]} if known else {})) for a in inputs)
    # One sample, valid as an input of any kind, for the dtype and shape of the result.
    one = [np.eye(1, *a.shape[1:], dtype=a.dtype).reshape(1, *a.shape[1:]) for a in (x, *inputs)]
    empty = function(*one)[:0]

    def apply(*chunk: NDArray[Any]) -> Array:
        return function(*chunk) if len(chunk[0]) else empty

    return x.map_blocks(
        apply,
        *inputs,
        chunks=(x.chunks[0], *((size,) for size in empty.shape[1:])),
        drop_axis=[1] if empty.ndim < x.ndim else [],
        new_axis=[1] if empty.ndim > x.ndim else None,
        meta=empty,
    )


def uncalibrated_confidence(logits: FloatArray, input: str) -> NDArray[Any]:
    """Return the largest softmax probability; with `input="confidence"` the number itself."""

    def confidence(z: NDArray[Any]) -> NDArray[Any]:
        e = np.exp(np.maximum(z - z.max(axis=1, keepdims=True), LOG_TINY).astype(np.float32))
        return np.asarray((e[:, 1] if input == "confidence" else 1) / e.sum(axis=1))

    return in_blocks(confidence, logits)


def confidence_bins(confidence: NDArray[Any]) -> IntArray:
    """Return the bin of each confidence. Numbers such as 0.6 belong to the bin above."""
    bins = (confidence * N_CONFIDENCE_BINS + 1e-5).astype(np.int64)
    return np.minimum(bins, N_CONFIDENCE_BINS - 1)


def fit_threshold(
    scores: NDArray[Any],
    accuracy: float,
    rounding: float = _ROUNDING,
    weight: FloatArray | float = 1.0,
) -> tuple[float, float]:
    """Return the threshold of `share_above`, and what a score at it counts.

    The weighted mean of `share_above` of these scores is the accuracy, also where scores are equal.
    """
    order, weight = np.argsort(scores), np.broadcast_to(weight, len(scores))
    cumulated = np.cumsum(weight[order])
    n_right = round(float(cumulated[-1]) * accuracy, 6)
    first = np.searchsorted(cumulated, cumulated[-1] - n_right, side="right")
    threshold = float(np.append(scores[order], np.inf)[first]) - rounding
    n_above = float(weight @ (scores >= threshold + 2 * rounding))
    n_tied = float(weight @ (scores >= threshold)) - n_above
    return threshold, (n_right - n_above) / (n_tied or 1.0)


def share_above(
    scores: NDArray[Any], threshold: float, tie_share: float, rounding: float = _ROUNDING
) -> Array:
    """Return 1 for scores above the threshold, `tie_share` for those at it, and 0 below."""
    share = np.where(scores >= threshold, tie_share, 0.0)
    return np.where(scores >= threshold + 2 * rounding, 1.0, share)
