"""Class names and domains as integers, and the label of out-of-distribution samples."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wildcal.core.arrays import IntArray
from wildcal.core.exceptions import InputError

OOD_LABEL: Final = -1
_N_SHOWN: Final = 6


@dataclass(frozen=True)
class ClassNames:
    """The names of the classes, in the order of the columns.

    Examples
    --------
    >>> names = ClassNames(("cat", "dog"))
    >>> names.encode(["dog", "cat", "dog"])
    array([1, 0, 1])
    >>> names.decode([0, 1])
    ['cat', 'dog']
    """

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(str(name) for name in self.names))
        if len(self.names) < 2:
            raise InputError(
                f"class_names must have at least two names, got {list(self.names)}.", "class_names"
            )
        if len(set(self.names)) < len(self.names):
            double = next(name for name in self.names if self.names.count(name) > 1)
            raise InputError(f"class_names must be unique, got {double!r} twice.", "class_names")

    def __len__(self) -> int:
        return len(self.names)

    def encode(self, labels: Iterable[Any], ood_label: str | None = None) -> IntArray:
        """Return class indices; `ood_label` and the text "-1" become -1."""
        index = {str(OOD_LABEL): OOD_LABEL, **{name: k for k, name in enumerate(self.names)}}
        if ood_label is not None:
            index[str(ood_label)] = OOD_LABEL
        try:
            return np.array([index[_as_text(label)] for label in labels], dtype=np.int64)
        except KeyError as error:
            raise InputError(
                f"y must contain class names, got {error.args[0]!r}; the classes are"
                f" {few(self.names)}. Samples of no class have the label -1.",
                "y",
            ) from None

    def decode(self, indices: ArrayLike) -> list[str]:
        """Return class names; -1 stays "-1"."""
        return [self.names[k] if k >= 0 else str(k) for k in np.asarray(indices).tolist()]


def encode_labels(labels: NDArray[Any], class_names: ClassNames | None) -> NDArray[Any]:
    """Return an array of objects or texts as class indices; numbers are indices."""
    missing = [i for i, label in enumerate(labels) if is_missing(label)]
    if missing:
        raise InputError(f"y must not be empty, got no label at index {missing[0]}.", "y")
    if all(isinstance(label, int | float | bool | np.number) for label in labels):
        return labels.astype(np.float64)
    if class_names is None:
        raise InputError(
            f"y must be class indices, got names ({few(sorted({str(label) for label in labels}))})"
            " and no class names. Try a DataFrame whose columns are the class names.",
            "y",
        )
    return class_names.encode(labels)


def is_missing(label: Any) -> bool:
    """Return whether a label is None, NaN, or NA or NaT of pandas."""
    if isinstance(label, float | np.floating):
        return bool(label != label)
    return label is None or type(label).__name__ in ("NAType", "NaTType")


def encode_domain(domain: NDArray[Any], y: IntArray, source_domain: Any) -> IntArray:
    """Return domains as 0 for the source, 1, 2, ... for the others in sorted order, -1 for OOD."""
    if domain.shape != y.shape:
        raise InputError(f"domain must have shape {y.shape}, got {domain.shape}.", "domain")
    found = set(domain[y != OOD_LABEL].tolist())
    if any(map(is_missing, found)):
        raise InputError("domain must not be empty. Try dropping samples without one.", "domain")
    names = sorted(found, key=lambda name: (str(type(name)), name))
    wanted = (0, "source") if source_domain is None else (source_domain,)
    source = [name for name in names if name in wanted]
    if not source:
        raise InputError(
            f"domain must contain the source domain {' or '.join(map(repr, wanted))}, got"
            f" {few(names)}. Try source_domain=.",
            "source_domain",
        )
    names.sort(key=lambda name: name != source[0])
    codes = {name: code for code, name in enumerate(names)}
    # Domains of OOD samples may occur nowhere else.
    encoded = [codes.get(name, OOD_LABEL) for name in domain.tolist()]
    return np.where(y == OOD_LABEL, OOD_LABEL, encoded)


def _as_text(label: Any) -> str:
    """Return a label as text; numbers without decimals as in a file of text."""
    if isinstance(label, bytes):
        return label.decode("utf-8", "replace")
    if isinstance(label, float | np.floating) and float(label).is_integer():
        return str(int(label))
    return str(label)


def few(names: Sequence[Any]) -> str:
    """Return the first names as text."""
    shown = ", ".join(str(name) for name in names[:_N_SHOWN])
    return shown if len(names) <= _N_SHOWN else f"{shown}, ... ({len(names)} in all)"
