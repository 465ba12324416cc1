"""Labels as people have them, names or numbers, mapped once to the columns of the logits."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wildcal._old.core.arrays import OOD_LABEL, Labels
from wildcal._old.core.plain_labels import is_whole, plain_labels

# What Hugging Face writes for tokens that carry no label.
IGNORED_LABEL = -100
_SHOWN = 6


@dataclass(frozen=True, slots=True)
class ClassNames:
    """The names of the classes, in the order of the columns of the logits.

    Examples
    --------
    >>> classes = ClassNames(("cat", "dog"))
    >>> classes.encode(["dog", "cat", "dog"])
    array([1, 0, 1])
    >>> classes.decode([0, 1])
    ['cat', 'dog']
    """

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        """Raise unless there are two names or more, all different."""
        object.__setattr__(self, "names", tuple(str(name) for name in self.names))
        if len(self.names) < 2:
            raise ValueError(f"classes must be two names or more, got {list(self.names)}.")
        if len(set(self.names)) < len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise ValueError(f"class names must be different, but {twice!r} is there twice.")

    def __len__(self) -> int:
        return len(self.names)

    def encode(self, labels: Iterable[Any]) -> Labels:
        """Return the number of each label; -1, also as text, stays the mark of other classes."""
        index = {name: k for k, name in enumerate(self.names)}
        index.setdefault(str(OOD_LABEL), OOD_LABEL)
        try:
            return np.array([index[str(label)] for label in labels], dtype=np.int64)
        except KeyError as error:
            raise ValueError(
                f"label {error.args[0]!r} is none of the classes {_few(self.names)}. Give the"
                " classes in column order with classes=, or -1 to rows of other classes."
            ) from None

    def decode(self, numbers: ArrayLike) -> list[str]:
        """Return the names of class numbers; -1 stays "-1"."""
        return [self.names[k] if k >= 0 else str(k) for k in np.asarray(numbers).tolist()]


def read_labels(
    y: ArrayLike, n_classes: int, classes: ClassNames | None = None, pos_label: Any = None
) -> tuple[Labels, ClassNames | None]:
    """Return labels as class numbers, and the names of the classes where they have some.

    Names are found among `classes`. Whole numbers are column numbers 0..K-1, unless every class has
    a number for a name: then they are names too. -1 marks rows of other classes.

    Parameters
    ----------
    y
        Shape (n_samples,): integers, whole numbers, booleans or names.
    pos_label
        With two classes, the label of column 1; the other label is column 0.

    Examples
    --------
    >>> y, classes = read_labels(["ham", "spam", "ham"], 2, pos_label="spam")
    >>> y, classes.names
    (array([0, 1, 0]), ('ham', 'spam'))
    """
    array = plain_labels(y)
    if pos_label is not None:
        return _read_two(array, n_classes, pos_label)
    if array.dtype.kind == "O":
        if classes is None:
            raise ValueError(
                f"labels are names ({_few(np.unique(array).tolist())}), and nothing says which"
                " column is which. Pass classes=[...] in column order (scikit-learn:"
                " model.classes_)" + (", or pos_label=." if n_classes == 2 else ".")
            )
        return classes.encode(array), classes
    if classes is not None and all(is_whole(name) for name in classes.names):
        return ClassNames(tuple(str(int(n)) for n in classes.names)).encode(array), classes
    _check_range(array, n_classes)
    return array.astype(np.int64, copy=False), classes


def _read_two(array: NDArray[Any], n_classes: int, pos_label: Any) -> tuple[Labels, ClassNames]:
    if n_classes != 2:
        raise ValueError(f"pos_label goes with two classes, got {n_classes}.")
    positive = str(int(pos_label)) if isinstance(pos_label, bool | np.bool_) else str(pos_label)
    texts = np.array([str(label) for label in array], dtype=object)
    found = sorted(set(texts.tolist()))
    others = [label for label in found if label != positive]
    if len(others) > 1 and str(OOD_LABEL) in others:
        others.remove(str(OOD_LABEL))  # three labels: then -1 is the mark of other classes
    if positive not in found or len(others) > 1:
        raise ValueError(
            f"pos_label={pos_label!r} must be one of two labels, got the labels {_few(found)}."
        )
    negative = others[0] if others else f"not {positive}"
    classes = ClassNames((negative, positive))
    return classes.encode(texts), classes


def _check_range(array: NDArray[np.int64], n_classes: int) -> None:
    if not array.size:
        return
    lowest, highest = int(array.min()), int(array.max())
    must = f"labels must be 0 to {n_classes - 1} for {n_classes} columns, or -1 for other classes"
    if (array == IGNORED_LABEL).any():
        row = int(np.flatnonzero(array == IGNORED_LABEL)[0])
        raise ValueError(f"{must}, but row {row} is -100, a token to ignore. Drop those rows.")
    if n_classes == 2 and lowest == -1 and highest == 1 and not (array == 0).any():
        raise ValueError(f"{must}, got -1 and 1. If -1 is the negative class, pass pos_label=1.")
    if lowest >= 1 and highest == n_classes:
        hint = " or pass pos_label=." if n_classes == 2 else "."
        raise ValueError(f"{must}, got {lowest} to {highest}: counted from 1? Pass y - 1{hint}")
    if lowest < OOD_LABEL or highest >= n_classes:
        row = int(np.flatnonzero((array < OOD_LABEL) | (array >= n_classes))[0])
        raise ValueError(
            f"{must}, but row {row} is {int(array[row])}. Is a column missing, or is this another"
            " set of classes?"
        )


def _few(names: Sequence[Any]) -> str:
    shown = ", ".join(str(name) for name in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown}, ... ({len(names)} in all)"
