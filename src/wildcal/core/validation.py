"""Input validation, and `Samples`: the checked arrays that methods are fitted on."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from array_api_compat import is_array_api_obj
from numpy.typing import NDArray

from wildcal.core.arrays import FloatArray, IntArray, unmask
from wildcal.core.conversion import INPUT_KINDS, ONE_COLUMN, smallest_positive, to_logits
from wildcal.core.exceptions import CalibrationWarning, InputError
from wildcal.core.labels import OOD_LABEL, ClassNames, few

# Fewer samples are not judged by their values: one sample of logits may look like probabilities.
_MIN_JUDGED: Final = 8
# Rounding of probabilities: float16 with a thousand classes misses a sum of one by this much.
_SUM_TOLERANCE: Final = 1e-3
_MAX_PROBA: Final = 1 + 1e-6
# Samples that decide whether values look like probabilities.
_N_JUDGED: Final = 4096
# NumPy reduces over so few classes faster in Fortran order.
_MAX_FORTRAN: Final = 16
# Label of tokens without a label in Hugging Face data sets.
_IGNORED_LABEL: Final = -100
# Weights that sum to less than this part of n, or more than its inverse, are not counts.
_WEIGHT_SUM: Final = 0.1


@dataclass(frozen=True)
class Samples:
    """Checked samples of a fit.

    To add a column, add a field here and its check in `check_samples`.
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
    """Stands for a probability of zero."""
    warnings: tuple[str, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.y)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.logits.shape[1])

    @property
    def is_ood(self) -> NDArray[np.bool_]:
        """Whether a sample is out of distribution."""
        return np.asarray(self.y == OOD_LABEL)

    @property
    def is_source(self) -> NDArray[np.bool_]:
        """Whether a sample is in distribution and of the source domain."""
        return ~self.is_ood if self.domain is None else self.domain == 0

    @property
    def n_domains(self) -> int:
        """Number of domains, 1 without any."""
        return 1 if self.domain is None else int(self.domain.max()) + 1

    def subset(self, mask: NDArray[np.bool_]) -> "Samples":
        """Return the samples where `mask` is true."""
        if mask.all():
            return self
        return replace(
            self,
            logits=self.logits[mask],
            y=self.y[mask],
            weight=self.weight[mask],
            domain=None if self.domain is None else self.domain[mask],
            knn_distances=None if self.knn_distances is None else self.knn_distances[mask],
        )


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
    notes: list[str] = []
    feature_names = column_names(X)
    values = check_input(in_memory(X), input)
    eps = 1e-30
    if input in ("proba", "confidence"):
        eps = smallest_positive(values)
    few_classes = values.ndim == 2 and values.shape[1] <= _MAX_FORTRAN
    logits = values.astype(np.float64, order="F" if few_classes else "C")
    if input not in ("logits", "log_proba"):
        logits = np.asarray(to_logits(np, logits, input, eps))
    n, n_classes = logits.shape
    names = None
    if feature_names is not None and len(feature_names) == n_classes:
        names = ClassNames(feature_names)
    y = _plain(y, "y")
    if input == "confidence" and y.dtype.kind not in "biuf":
        raise InputError(f"y must be right or wrong (booleans), got dtype {y.dtype}.", "y")
    labels = check_labels(y, n_classes, names)
    if len(labels) != n:
        raise InputError(
            f"y must have one label per sample, got {len(labels)} for {n} samples.", "y"
        )
    weight, rescaled = check_weight(sample_weight, n)
    notes += rescaled
    keep = weight > 0
    true_class_masked = np.isneginf(logits[np.arange(n), np.maximum(labels, 0)]) & (labels >= 0)
    if true_class_masked.any():
        notes.append(
            f"the true class is masked (logit -inf) in {true_class_masked.sum()} samples; they are"
            " left out of the fit."
        )
        keep &= ~true_class_masked
    ood = labels == OOD_LABEL
    if ood.any() and not uses_ood:
        notes.append(
            f"{ood.sum()} OOD samples (y == -1) are left out: the method does not use them."
        )
        keep &= ~ood
    samples = Samples(
        logits=unmask(logits),
        y=labels,
        weight=weight,
        domain=None if domain is None else check_domain(domain, labels, source_domain),
        knn_distances=None if knn_distances is None else check_distances(knn_distances, n),
        class_names=None if names is None else names.names,
        feature_names=feature_names,
        eps=eps,
        warnings=tuple(notes),
    ).subset(keep)
    if not len(samples) or not (samples.y >= 0).any():
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
        _reject_not_finite(array, kind, name)
    if kind in ("proba", "confidence") and not (low >= 0 and high <= _MAX_PROBA):
        raise InputError(
            f"{name} must lie in [0, 1] with input={kind!r}, got {low:.4g} to {high:.4g}. Try"
            " input='logits' for raw scores, or divide percentages by 100.",
            "input" if name == "X" else name,
        )
    if kind == "proba":
        _check_sums(array, name)
    if kind == "logits" and low >= 0 and high <= _MAX_PROBA:
        _reject_probabilities(array)
    return array


def check_raw_logits(logits: NDArray[Any], who: str) -> None:
    """Raise if all samples are normalized, as log_softmax returns them: their energy is 0."""
    if len(logits) < _MIN_JUDGED or not is_normalized(logits[:_MIN_JUDGED].astype(np.float64)):
        return
    if is_normalized(logits[:_N_JUDGED].astype(np.float64)):
        raise InputError(
            f"X must be raw logits for {who}, got normalized ones (log-softmax), whose free energy"
            " is 0. Try the scores before the log-softmax.",
            "X",
        )


def is_normalized(logits: FloatArray) -> bool:
    """Return whether exp(logits) sums to about 1 in every sample."""
    top = logits.max(axis=1)
    if not (np.abs(top) < 1e3).all():
        return False
    energy = top + np.log(np.exp(logits - top[:, None]).sum(axis=1))
    return bool((np.abs(energy) < 0.1).all())


def check_labels(y: Any, n_classes: int, class_names: ClassNames | None = None) -> IntArray:
    """Return labels as class indices of shape (n_samples,), -1 for OOD samples.

    Names are looked up in `class_names`. Integers, whole floats and booleans are indices.
    """
    array = np.asarray(y)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        hint = ""
        if array.ndim == 2 and array.shape[1] == n_classes:
            hint = " Try y.argmax(axis=1) for one-hot labels."
        raise InputError(f"y must have shape (n_samples,), got {array.shape}.{hint}", "y")
    if array.dtype.kind in "USOT":
        array = _from_objects(array, class_names)
    if array.dtype.kind == "f":
        bad = np.flatnonzero(~np.isfinite(array) | (array != np.round(array)))
        if len(bad):
            raise InputError(
                f"y must be whole numbers, got {array[bad[0]]:g} in sample {bad[0]}."
                " Try dropping samples without a label.",
                "y",
            )
    elif array.dtype.kind not in "iub":
        raise InputError(f"y must be class indices or class names, got dtype {array.dtype}.", "y")
    labels = array.astype(np.int64)
    _check_range(labels, n_classes)
    return labels


def _from_objects(array: NDArray[Any], class_names: ClassNames | None) -> NDArray[Any]:
    missing = [i for i, label in enumerate(array) if label is None or label != label]
    if missing:
        raise InputError(f"y must not be empty, got no label for sample {missing[0]}.", "y")
    if all(isinstance(label, int | float | bool | np.number) for label in array):
        return array.astype(np.float64)
    if class_names is None:
        raise InputError(
            f"y must be class indices, got names ({few(sorted({str(label) for label in array}))})"
            " and no class names. Try a DataFrame whose columns are the class names.",
            "y",
        )
    return class_names.encode(array)


def _check_range(labels: IntArray, n_classes: int) -> None:
    if not labels.size:
        return
    low, high = int(labels.min()), int(labels.max())
    if low >= OOD_LABEL and high < n_classes:
        if n_classes == 2 and low == OOD_LABEL and high == 1 and not (labels == 0).any():
            raise InputError(
                "y must lie in [0, 1], got labels -1 and 1. Try y == 1; -1 marks OOD samples.", "y"
            )
        return
    hint = "Labels are class indices from 0; subtract 1, or pass class names."
    if low == _IGNORED_LABEL:
        hint = "Try dropping samples with label -100."
    elif not (low >= 1 and high == n_classes):
        hint = "Labels are class indices from 0, and -1 for OOD samples."
    raise InputError(f"y must lie in [0, {n_classes - 1}], got [{low}, {high}]. {hint}", "y")


def check_weight(sample_weight: Any, n: int) -> tuple[FloatArray, list[str]]:
    """Return weights as counts, and a note if they were rescaled."""
    if sample_weight is None:
        return np.ones(n), []
    array = _plain(sample_weight, "sample_weight")
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
        f" counts; they are rescaled to the effective number of samples, {effective:.1f}."
    )
    return relative * (effective / relative.sum()), [note]


def check_domain(domain: Any, y: IntArray, source_domain: Any) -> IntArray:
    """Return domains as 0 for the source, 1, 2, ... for the others in sorted order, -1 for OOD."""
    labels = _plain(domain, "domain")
    if labels.shape != y.shape:
        raise InputError(f"domain must have shape {y.shape}, got {labels.shape}.", "domain")
    listed: list[Any] = labels.tolist()
    known = [d for d, ood in zip(listed, y == OOD_LABEL, strict=True) if not ood]
    names = sorted(set(known), key=lambda d: (str(type(d)), d))
    if source_domain is None:
        source = [d for d in names if (d == 0 and not isinstance(d, str)) or d == "source"]
    else:
        source = [d for d in names if d == source_domain]
    if not source:
        wanted = "0 or 'source'" if source_domain is None else repr(source_domain)
        raise InputError(
            f"domain must contain the source domain {wanted}, got {few(names)}. Try"
            " source_domain=.",
            "source_domain",
        )
    codes = {
        name: code for code, name in enumerate([source[0], *(d for d in names if d != source[0])])
    }
    return np.array(
        [OOD_LABEL if ood else codes[d] for d, ood in zip(listed, y == OOD_LABEL, strict=True)]
    )


def check_distances(knn_distances: Any, n: int, n_layers: int | None = None) -> NDArray[Any]:
    """Return distances to training samples, shape (n_samples, n_layers), finite, not negative."""
    array = _as_float(in_memory(knn_distances))
    array = array[:, None] if array.ndim == 1 else array
    check_distances_shape(array.shape, n, n_layers)
    if not (np.isfinite(array).all() and array.min() >= 0):
        raise InputError("knn_distances must be finite and not negative.", "knn_distances")
    return array


def check_distances_shape(shape: tuple[Any, ...], n: Any, n_layers: int | None) -> None:
    """Raise unless `shape` is (n, n_layers). None is any number, NaN (of Dask arrays) too."""
    pairs = [(g, w) for g, w in zip(shape, (n, n_layers), strict=False) if w is not None]
    if len(shape) != 2 or any(g != w and not np.isnan(g + w) for g, w in pairs):
        wanted = f"({n}, {n_layers or 'n_layers'})"
        raise InputError(
            f"knn_distances must have shape {wanted}, got {tuple(shape)}.", "knn_distances"
        )


def check_choice(name: str, value: Any, choices: Iterable[Any]) -> None:
    """Raise unless an option has one of the given values."""
    if not any(
        value is choice or (type(value) is type(choice) and value == choice) for choice in choices
    ):
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
    if isinstance(bounds, Sequence) and not isinstance(bounds, str) and len(bounds) == 2:
        low, high = bounds
        if all(isinstance(b, int | float) and not isinstance(b, bool) for b in bounds):
            if 1e-6 <= low <= high <= 1e6:
                return float(low), float(high)
    raise InputError(
        f"{name} must be a pair (low, high) with 1e-6 <= low <= high <= 1e6, got {bounds!r:.80}.",
        name,
    )


def column_names(X: Any) -> tuple[str, ...] | None:
    """Return the column names of a DataFrame, None for other inputs."""
    columns = getattr(X, "columns", None)
    if columns is None or not hasattr(X, "to_numpy"):
        return None
    return tuple(str(name) for name in columns)


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
    """Raise unless the shape of an array of another library fits; values are not looked at."""
    expected = 1 if kind in ONE_COLUMN else 2
    if X.ndim != expected or (expected == 2 and X.shape[1] != n_classes):
        wanted = "(n_samples,)" if expected == 1 else f"(n_samples, {n_classes})"
        raise InputError(f"X must have shape {wanted}, got {tuple(X.shape)}.", "X")


def warn(message: str, category: type[Warning] = CalibrationWarning, *, level: int = 3) -> None:
    """Issue a warning at the line of the caller of `fit`."""
    warnings.warn(message, category, stacklevel=level)


def _as_float(X: Any, name: str = "X") -> NDArray[Any]:
    """Return float32 or float64; half precision becomes float32, integers become float64."""
    if type(X) is np.ndarray and X.dtype in (np.float32, np.float64):
        return X
    array = _plain(X, name)
    if array.dtype == np.float16 or array.dtype.name == "bfloat16":
        return array.astype(np.float32)
    if array.dtype.kind in "iub" or array.dtype == np.longdouble:
        return array.astype(np.float64)
    if array.dtype.kind != "f":
        raise InputError(f"{name} must be real numbers, got dtype {array.dtype}.", name)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _plain(values: Any, name: str) -> NDArray[Any]:
    """Return a NumPy array; masked entries and frames with gaps raise."""
    if isinstance(values, np.ma.MaskedArray):
        if np.ma.getmaskarray(values).any():
            raise InputError(
                f"{name} must not have masked entries. Try dropping those samples.", name
            )
        values = values.data
    if hasattr(values, "to_numpy"):  # pandas, polars
        values = values.to_numpy()
    try:
        return np.asarray(values)
    except ValueError as error:
        raise InputError(
            f"{name} must be an array, got {type(values).__name__}: {error}", name
        ) from None


def in_memory(X: Any) -> Any:
    """Return an array of another library as a NumPy array; larger than memory ones raise."""
    if hasattr(X, "dask"):
        raise InputError("X must be in memory, got a Dask array. Try a sample of it for fit.", "X")
    if hasattr(X, "detach"):  # torch
        X = X.detach().cpu()
        return X.float().numpy() if X.dtype.itemsize == 2 else X.numpy()
    return X


def _check_matrix(array: NDArray[Any], n_classes: int | None, name: str) -> None:
    shape = f"(n_samples, {n_classes or 'n_classes >= 2'})"
    if (
        array.ndim == 2
        and array.shape[0]
        and array.shape[1] == (n_classes or max(array.shape[1], 2))
    ):
        return
    hint = ""
    if array.ndim == 1 or (array.ndim == 2 and array.shape[1] == 1):
        hint = " Try input='score' for a binary model with one score, X[None, :] for one sample."
    raise InputError(f"{name} must have shape {shape}, got {array.shape}.{hint}", name)


def _reject_not_finite(array: NDArray[Any], kind: str, name: str) -> None:
    """Raise for the first sample with NaN, +inf, only -inf, or -inf where it is not allowed."""
    rows = array if array.ndim == 2 else array[:, None]
    masks_allowed = kind in ("logits", "log_proba")
    allowed = np.isfinite(rows) | (np.isneginf(rows) & masks_allowed)
    bad = np.flatnonzero(~allowed.all(axis=1) | np.isneginf(rows).all(axis=1))
    if len(bad):
        value = rows[bad[0]][~np.isfinite(rows[bad[0]])][0]
        only = "only " if array.ndim == 2 and np.isneginf(rows[bad[0]]).all() else ""
        raise InputError(
            f"{name} must be finite, got {only}{value} in sample {bad[0]}. Try dropping that"
            " sample.",
            name,
        )


def _check_sums(proba: NDArray[Any], name: str) -> None:
    sums = proba.sum(axis=1, dtype=np.float64)
    # Entries rounded to two decimals miss one by half a hundredth each.
    tolerance = max(
        _SUM_TOLERANCE, min(0.005 * proba.shape[1], 0.1) if _has_two_decimals(proba) else 0
    )
    bad = np.flatnonzero(np.abs(sums - 1) > tolerance + 1e-9)
    if len(bad):
        raise InputError(
            f"{name} must sum to 1 in each sample with input='proba', got {sums[bad[0]]:.4g} in"
            f" sample {bad[0]} ({len(bad)} of {len(sums)} samples). Try input='logits' for raw"
            " scores.",
            name,
        )


def _has_two_decimals(proba: NDArray[Any]) -> bool:
    return bool((np.abs(proba * 100 - np.round(proba * 100)) < 1e-3).all())


def _reject_probabilities(array: NDArray[Any]) -> None:
    """Raise if logits look like probabilities: all in [0, 1], with a sum of 1."""
    if len(array) < _MIN_JUDGED:
        return
    off = np.abs(array[:_N_JUDGED].sum(axis=1, dtype=np.float64) - 1)
    if (off <= _SUM_TOLERANCE).all() and not (array == array[0]).all():
        raise InputError(
            "X must be logits, got values in [0, 1] that sum to 1 in each sample. Try"
            " input='proba', or the scores before the softmax.",
            "input",
        )


def _check_index(X: Any, name: str, column: Any) -> None:
    """Raise if a Series has another index than the DataFrame."""
    index: Any = getattr(X, "index", None)
    other = getattr(column, "index", None)
    if hasattr(index, "equals") and hasattr(other, "equals") and not index.equals(other):
        raise InputError(
            f"{name} must have the index of X, got another one. Try {name}.loc[X.index].", name
        )
