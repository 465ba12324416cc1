"""Class names, and the label of out-of-distribution samples."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

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
                f" {few(self.names)}. Try ood_label= for samples of no class.",
                "y",
            ) from None

    def decode(self, indices: ArrayLike) -> list[str]:
        """Return class names; -1 stays "-1"."""
        return [self.names[k] if k >= 0 else str(k) for k in np.asarray(indices).tolist()]


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
