"""The input errors of this layer: what must hold, what was given."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wildcal._old.shift.parameters import CORRUPTIONS, SEVERITIES
from wildcal._old.shift.tuning import TUNING_TRANSFORMS

SMALLEST = 32


def check_images(images: ArrayLike) -> NDArray[np.uint8]:
    """Return the batch as an array, or say what is wrong with it."""
    array: NDArray[Any] = np.asarray(images)
    if array.ndim != 4 or array.shape[3] != 3:
        hint = " For one image give images[None]." if array.ndim == 3 else ""
        raise ValueError(f"images must have shape (N, H, W, 3), got {array.shape}.{hint}")
    if array.dtype != np.uint8:
        raise ValueError(
            f"images must be uint8 (levels 0 to 255), got {array.dtype}."
            " Try (255 * images).round().astype('uint8') for values in [0, 1]."
        )
    if len(array) == 0:
        raise ValueError("images must hold at least one image, got an empty batch.")
    if min(array.shape[1:3]) < SMALLEST:
        raise ValueError(
            f"images must be at least {SMALLEST} x {SMALLEST} pixels,"
            f" got {array.shape[1]} x {array.shape[2]}."
        )
    return array


def check_choice(what: str, value: str, known: Sequence[str]) -> str:
    """Return the word if it is a known one."""
    if value not in known:
        raise ValueError(f"{what} must be one of {', '.join(known)}; got {value!r}.")
    return value


def check_name(name: str) -> str:
    """Return the corruption's name if there is such a one."""
    if name in tuple(TUNING_TRANSFORMS):
        raise ValueError(f"name must be a corruption; {name!r} is for tuning, try transform().")
    return check_choice("name", name, CORRUPTIONS)


def check_severity(severity: int) -> int:
    """Return the severity as an int in 1..5."""
    if not _is_integer(severity) or severity not in SEVERITIES:
        raise ValueError(f"severity must be an integer from 1 to 5, got {severity!r}.")
    return int(severity)


def check_level(name: str, level: int) -> int:
    """Return the level of a transform as an int in 1..the number of its strengths."""
    count = len(TUNING_TRANSFORMS[name])
    if not _is_integer(level) or not 1 <= level <= count:
        wanted = f"an integer from 1 to {count}" if count > 1 else "1"
        raise ValueError(f"level of {name} must be {wanted}, got {level!r}.")
    return int(level)


def check_seed(seed: int) -> int:
    """Return the seed as a non-negative int."""
    if not _is_integer(seed) or seed < 0:
        raise ValueError(f"seed must be an integer >= 0, got {seed!r}.")
    return int(seed)


def check_indices(indices: ArrayLike | None, n: int) -> NDArray[np.uint64]:
    """Return the images' own numbers, 0..n-1 by default."""
    if indices is None:
        return np.arange(n, dtype=np.uint64)
    array: NDArray[Any] = np.asarray(indices)
    if array.shape != (n,) or array.dtype.kind not in "iu" or bool((array < 0).any()):
        raise ValueError(
            f"indices must be {n} integers >= 0, one for each image,"
            f" got shape {array.shape} of {array.dtype}."
        )
    return array.astype(np.uint64)


def _is_integer(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
