"""Input validation, and `Samples`: the checked arrays that methods are fitted on."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from array_api_compat import is_array_api_obj
from numpy.typing import NDArray

from wildcal.core.arrays import BoolArray, FloatArray, IntArray, logsumexp, unmask
from wildcal.core.conversion import INPUT_KINDS, ONE_COLUMN, smallest_positive, to_logits
from wildcal.core.exceptions import CalibrationWarning, InputError
from wildcal.core.labels import OOD_LABEL, ClassNames, encode_domain, encode_labels, few
from wildcal.core.value_checks import (
    MAX_CHECKED,
    MIN_CHECKED,
    SUM_TOLERANCE,
    check_finite,
    check_not_probabilities,
    check_rounded_sums,
)

_MAX_PROBA: Final = 1 + 1e-6
# NumPy reduces over so few classes faster in Fortran order.
_MAX_FORTRAN: Final = 16
# Label of tokens without a label in Hugging Face data sets.
_IGNORED_LABEL: Final = -100
# Weights that sum to less than this part of n, or more than its inverse, are not counts.
_WEIGHT_SUM: Final = 0.1
# Fields of `Samples` with a value for each sample.
_COLUMNS: Final = ("logits", "y", "weight", "domain", "knn_distances")


@dataclass(frozen=True)
class Samples:
    """Checked samples of a fit.

    To add a column, add a field here, its name to `_COLUMNS` and its check to `check_samples`.
    """

    logits: FloatArray
    """Shape (n_samples, n_classes), finite."""
    y: IntArray
    """Class indices, -1 for OOD samples."""
    weight: FloatArray
    """Counts: a weight of 2 is equivalent to repeating the sample."""
    domain: IntArray | None = None
    """0 for the source domain, 1, 2, ... for the others, -1 for OOD samples."""
    knn_distances: FloatArray | None = None
    class_names: tuple[str, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    """Column names of a DataFrame."""
    eps: float = 1e-30
    """Replaces a probability of zero."""
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.y)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.logits.shape[1])

    @property
    def is_ood(self) -> BoolArray:
        """Whether a sample is out of distribution."""
        return np.asarray(self.y == OOD_LABEL)

    @property
    def is_source(self) -> BoolArray:
        """Whether a sample is in distribution and of the source domain."""
        return ~self.is_ood if self.domain is None else self.domain == 0

    @property
    def n_domains(self) -> int:
        """Number of domains, 1 without any."""
        return 1 if self.domain is None else int(self.domain.max()) + 1

    def class_name(self, k: int) -> str | int:
        """Return the name of a class, its index without names."""
        return k if self.class_names is None else self.class_names[k]

    def subset(self, mask: BoolArray) -> "Samples":
        """Return the samples where `mask` is true."""
        return self if mask.all() else self.take(mask)

    def take(self, chosen: NDArray[Any]) -> "Samples":
        """Return the samples at a mask or at indices."""
        columns = {name: getattr(self, name) for name in _COLUMNS}
        taken = {name: each[chosen] for name, each in columns.items() if each is not None}
        return replace(self, **taken)


def check_samples(
    X: Any,
    y: Any,
    *,
    input: str = "logits",
    sample_weight: Any = None,
    domain: Any = None,
    source_domain: Any = None,
    knn_distances: Any = None,
    uses_ood: bool = False,
) -> Samples:
    """Return checked samples from the arguments of `Calibrator.fit`."""
    for name, column in {"y": y, "sample_weight": sample_weight, "domain": domain}.items():
        _check_index(X, name, column)
    feature_names = column_names(X)
    values = check_input(X, input)
    eps = smallest_positive(values) if input in ("proba", "confidence") else 1e-30
    few_classes = values.ndim == 2 and values.shape[1] <= _MAX_FORTRAN
    logits = values.astype(np.float64, order="F" if few_classes else "C")
    if input not in ("logits", "log_proba"):
        logits = np.asarray(to_logits(np, logits, input, eps))
    n, n_classes = logits.shape
    class_names = feature_names if len(feature_names or ()) == n_classes else None
    y = as_numpy(y, "y")
    if input == "confidence" and y.dtype.kind not in "biuf":
        raise InputError(f"y must be right or wrong (booleans), got dtype {y.dtype}.", "y")
    labels = check_labels(y, n_classes, None if class_names is None else ClassNames(class_names))
    if len(labels) != n:
        raise InputError(
            f"y must have one label per sample, got {len(labels)} for {n} samples.", "y"
        )
    weight, notes = check_weight(sample_weight, n)
    codes = None
    if domain is not None:
        codes = encode_domain(as_numpy(domain, "domain"), labels, source_domain)
    is_ood = labels == OOD_LABEL
    is_masked = np.isneginf(logits[np.arange(n), np.maximum(labels, 0)]) & ~is_ood
    keep = (weight > 0) & ~is_masked & (~is_ood | uses_ood)
    if is_masked.any():
        notes.append(
            f"the true class is masked (logit -inf) in {is_masked.sum()} samples; they are left"
            " out of the fit."
        )
    if is_ood.any() and not uses_ood:
        notes.append(
            f"{is_ood.sum()} OOD samples (y == -1) are left out: the method does not use them."
        )
    samples = Samples(
        logits=unmask(logits),
        y=labels,
        weight=weight,
        domain=codes,
        knn_distances=None if knn_distances is None else check_distances(knn_distances, n),
        class_names=class_names,
        feature_names=feature_names,
        eps=eps,
        warnings=tuple(notes),
    ).subset(keep)
    if samples.is_ood.all():
        raise InputError(
            "y must contain in-distribution samples with a positive weight, got none.", "y"
        )
    return samples


def check_input(
    X: Any, kind: str, *, n_classes: int | None = None, name: str = "X"
) -> NDArray[Any]:
    """Return NumPy values of an input kind: float32 or float64, shape and values checked.

    `name` is the name of the argument in messages.
    """
    if kind not in INPUT_KINDS:
        raise InputError(f"input must be one of {', '.join(INPUT_KINDS)}, got {kind!r}.", "input")
    array = _as_float(X, name)
    if kind in ONE_COLUMN:
        if array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        if array.ndim != 1 or not len(array):
            raise InputError(
                f"{name} must have shape (n_samples,) with input={kind!r}, got {array.shape}.", name
            )
    else:
        _check_matrix(array, n_classes, name)
    low, high = array.min(), array.max()
    if not (np.isfinite(low) and np.isfinite(high)):
        check_finite(array, kind, name)
    if kind in ("proba", "confidence") and not (low >= 0 and high <= _MAX_PROBA):
        raise InputError(
            f"{name} must lie in [0, 1] with input={kind!r}, got {low:.4g} to {high:.4g}. Try"
            " input='logits' for raw scores, or divide percentages by 100.",
            "input" if name == "X" else name,
        )
    if kind == "proba" and (np.abs(array.sum(axis=1, dtype=float) - 1) > SUM_TOLERANCE).any():
        check_rounded_sums(array, name)
    if kind == "logits" and low >= 0 and high <= _MAX_PROBA:
        check_not_probabilities(array)
    return array


def check_raw_logits(logits: NDArray[Any], who: str) -> None:
    """Raise if all samples are normalized, as log_softmax returns them: their energy is 0."""
    if len(logits) < MIN_CHECKED:
        return
    for n in (MIN_CHECKED, MAX_CHECKED):  # the first samples are often enough
        energy = logsumexp(np, logits[:n].astype(np.float64))
        if (np.abs(energy) >= 0.1).any():
            return
    raise InputError(
        f"X must be raw logits for {who}, got normalized ones (log-softmax), whose free energy is"
        " 0. Try the scores before the log-softmax.",
        "X",
    )


def check_labels(y: Any, n_classes: int, class_names: ClassNames | None = None) -> IntArray:
    """Return labels as class indices of shape (n_samples,), -1 for OOD samples.

    Names are looked up in `class_names`. Integers, whole floats and booleans are indices.
    """
    array = np.asarray(y)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        one_hot = array.shape[1:] == (n_classes,)
        hint = " Try y.argmax(axis=1) for one-hot labels." if one_hot else ""
        raise InputError(f"y must have shape (n_samples,), got {array.shape}.{hint}", "y")
    if array.dtype.kind in "USOT":
        array = encode_labels(array, class_names)
    if array.dtype.kind == "f":
        bad = np.flatnonzero(~np.isfinite(array) | (array != np.round(array)))
        if len(bad):
            raise InputError(
                f"y must be whole numbers, got {array[bad[0]]:g} at index {bad[0]}."
                " Try dropping samples without a label.",
                "y",
            )
    elif array.dtype.kind not in "iub":
        raise InputError(f"y must be class indices or class names, got dtype {array.dtype}.", "y")
    labels = array.astype(np.int64)
    _check_range(labels, n_classes)
    return labels


def _check_range(labels: IntArray, n_classes: int) -> None:
    if not labels.size:
        return
    low, high = int(labels.min()), int(labels.max())
    if low < OOD_LABEL or high >= n_classes:
        hint = "Labels are class indices from 0, and -1 for OOD samples."
        if low == _IGNORED_LABEL:
            hint = "Try dropping samples with label -100."
        elif 0 not in labels and high == n_classes:
            hint = "Are they counted from 1? Then subtract 1, or name the classes."
        raise InputError(f"y must lie in [0, {n_classes - 1}], got [{low}, {high}]. {hint}", "y")
    if (low, high, n_classes) == (OOD_LABEL, 1, 2) and 0 not in labels:
        raise InputError(
            "y must lie in [0, 1], got labels -1 and 1. Try y == 1; -1 marks OOD samples.", "y"
        )


def check_weight(sample_weight: Any, n: int) -> tuple[FloatArray, list[str]]:
    """Return weights as counts, and a note if they were rescaled."""
    if sample_weight is None:
        return np.ones(n), []
    array = as_numpy(sample_weight, "sample_weight")
    if array.dtype.kind not in "fiub" or array.shape != (n,):
        raise InputError(
            f"sample_weight must be numbers of shape ({n},), got {array.dtype} {array.shape}.",
            "sample_weight",
        )
    weight = array.astype(np.float64)
    if not (np.isfinite(weight).all() and (weight >= 0).all() and weight.max(initial=0.0) > 0):
        raise InputError(
            "sample_weight must be finite, not negative and not all zero.", "sample_weight"
        )
    relative = weight / weight.max()  # sums of very large weights stay finite
    total = float(relative.sum()) * float(weight.max())
    n_weighted = np.count_nonzero(weight)
    if _WEIGHT_SUM * n_weighted <= total <= n_weighted / _WEIGHT_SUM:
        return weight, []
    effective = relative.sum() ** 2 / (relative @ relative)
    note = (
        f"sample_weight sums to {total:.3g} for {n_weighted} samples, so the weights are not"
        f" counts; they are rescaled to the effective number of samples, {effective:,.1f}."
    )
    return relative * (effective / relative.sum()), [note]


def absent_class_warnings(data: Samples) -> list[str]:
    """Return a warning if classes have no calibration sample."""
    absent = np.setdiff1d(np.arange(data.n_classes), data.y)
    if len(absent) in (0, data.n_classes - 1):  # every method warns about samples of one class
        return []
    return [
        f"{len(absent)} of {data.n_classes} classes have no calibration sample (class"
        f" {data.class_name(absent[0])}), so their probabilities may be far too low. Try samples of"
        " all classes, or 'ts'."
    ]


def check_distances(knn_distances: Any, n: int, n_layers: int | None = None) -> NDArray[Any]:
    """Return distances to training samples, shape (n_samples, n_layers), finite, not negative."""
    array = _as_float(knn_distances, "knn_distances")
    array = array[:, None] if array.ndim == 1 else array
    check_distances_shape(array.shape, n, n_layers)
    if not (np.isfinite(array).all() and array.min() >= 0):
        raise InputError("knn_distances must be finite and not negative.", "knn_distances")
    return array


def check_distances_shape(shape: tuple[Any, ...], n: Any, n_layers: int | None) -> None:
    """Raise unless `shape` is (n, n_layers). None is any number, NaN (of Dask arrays) too."""
    pairs = zip(shape, (n, n_layers), strict=False)
    if len(shape) != 2 or not all(w is None or g == w or np.isnan(g + w) for g, w in pairs):
        wanted = f"({n}, {n_layers or 'n_layers'})"
        raise InputError(
            f"knn_distances must have shape {wanted}, got {tuple(shape)}.", "knn_distances"
        )


def check_choice(name: str, value: Any, choices: Iterable[Any]) -> None:
    """Raise unless an option has one of the given values."""
    if (type(value), value) not in [(type(choice), choice) for choice in choices]:
        allowed = ", ".join(repr(choice) for choice in choices)
        raise InputError(f"{name} must be one of {allowed}, got {value!r:.80}.", name)


def check_number(
    name: str, value: Any, low: float, high: float = np.inf, *, whole: bool = False
) -> None:
    """Raise unless an option is a number in [low, high], an integer if `whole`."""
    kinds = (int, np.integer) if whole else (int, float, np.integer, np.floating)
    if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
        what = "an integer" if whole else "a number"
        raise InputError(f"{name} must be {what} in [{low:g}, {high:g}], got {value!r:.80}.", name)


def check_bounds(name: str, bounds: Any) -> tuple[float, float]:
    """Return a pair 0 < low <= high of numbers."""
    if isinstance(bounds, Sequence) and len(bounds) == 2:
        are_numbers = all(isinstance(b, int | float) and type(b) is not bool for b in bounds)
        if are_numbers and 1e-6 <= bounds[0] <= bounds[1] <= 1e6:
            return float(bounds[0]), float(bounds[1])
    raise InputError(
        f"{name} must be a pair (low, high) with 1e-6 <= low <= high <= 1e6, got {bounds!r:.80}.",
        name,
    )


def column_names(X: Any) -> tuple[str, ...] | None:
    """Return the column names of a DataFrame, None for other inputs."""
    if not (hasattr(X, "columns") and hasattr(X, "to_numpy")):
        return None
    return tuple(str(name) for name in X.columns)


def check_column_names(X: Any, expected: tuple[str, ...] | None) -> None:
    """Raise if a DataFrame has other columns, or another order, than the one of `fit`."""
    names = column_names(X)
    if names is None or expected is None or names == expected:
        return
    order = " in another order" if sorted(names) == sorted(expected) else ""
    raise InputError(
        f"X must have the columns of fit ({few(expected)}), got {few(names)}{order}."
        " Try X[list(calibrator.feature_names_in_)].",
        "X",
    )


def is_foreign_array(X: Any) -> bool:
    """Return whether X is an array of another library than NumPy (torch, JAX, Dask, ONNX)."""
    return not isinstance(X, np.ndarray) and (
        is_array_api_obj(X) or hasattr(X, "__array_namespace__")
    )


def check_foreign_array(X: Any, kind: str, n_classes: int) -> None:
    """Raise unless the shape of an array of another library fits; values are not checked."""
    expected = 1 if kind in ONE_COLUMN else 2
    if X.ndim != expected or (expected == 2 and X.shape[1] != n_classes):
        wanted = "(n_samples,)" if expected == 1 else f"(n_samples, {n_classes})"
        raise InputError(f"X must have shape {wanted}, got {tuple(X.shape)}.", "X")


def warn(message: str, category: type[Warning] = CalibrationWarning, *, level: int = 3) -> None:
    """Issue a warning at the line of the caller of `fit`."""
    warnings.warn(message, category, stacklevel=level)


def _as_float(X: Any, name: str) -> NDArray[Any]:
    """Return float32 or float64; half precision becomes float32, integers become float64."""
    if type(X) is np.ndarray and X.dtype in (np.float32, np.float64):
        return X
    array = as_numpy(X, name)
    if array.dtype == object:  # as pandas returns nullable columns
        array = as_numpy(array.tolist(), name)
    if array.dtype == np.float16 or array.dtype.name == "bfloat16":
        return array.astype(np.float32)
    if array.dtype.kind in "iub" or array.dtype == np.longdouble:
        return array.astype(np.float64)
    if array.dtype.kind != "f":
        raise InputError(f"{name} must be real numbers, got dtype {array.dtype}.", name)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def as_numpy(values: Any, name: str) -> NDArray[Any]:
    """Return an array, tensor, frame or list as NumPy; masked entries raise."""
    values = in_memory(values)
    if np.ma.is_masked(values):
        raise InputError(f"{name} must not have masked entries. Try dropping those samples.", name)
    if hasattr(values, "to_numpy"):  # pandas, polars
        values = values.to_numpy()
    try:
        return np.asarray(values)
    except ValueError as error:
        raise InputError(
            f"{name} must be an array, got {type(values).__name__}: {error}", name
        ) from None


def in_memory(X: Any) -> Any:
    """Return a tensor as NumPy, half precision as float32, and others as they are; Dask raises."""
    if hasattr(X, "dask"):
        raise InputError("X must be in memory, got a Dask array. Try a sample of it for fit.", "X")
    if hasattr(X, "detach"):  # torch
        X = X.detach().cpu()
        return X.float().numpy() if X.dtype.itemsize == 2 else X.numpy()
    return X


def _check_matrix(array: NDArray[Any], n_classes: int | None, name: str) -> None:
    if array.ndim == 2 and len(array) and array.shape[1] == (n_classes or max(array.shape[1], 2)):
        return
    hint = ""
    if array.ndim == 1 or array.shape[1:] == (1,):
        hint = " Try input='score' for a binary model with one score, X[None, :] for one sample."
    shape = f"(n_samples, {n_classes or 'n_classes >= 2'})"
    raise InputError(f"{name} must have shape {shape}, got {array.shape}.{hint}", name)


def _check_index(X: Any, name: str, column: Any) -> None:
    """Raise if a Series has another index than the DataFrame."""
    index: Any = getattr(X, "index", None)
    other = getattr(column, "index", None)
    if hasattr(index, "equals") and hasattr(other, "equals") and not index.equals(other):
        raise InputError(
            f"{name} must have the index of X, got another one. Try {name}.loc[X.index].", name
        )
