"""The roles of the columns of a table: declared once, else found by name."""

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from wildcal.core.conversion import INPUT_KINDS
from wildcal.core.exceptions import InputError
from wildcal.core.labels import OOD_LABEL, ClassNames, few, is_missing
from wildcal.core.validation import check_choice

INPUTS: Final = (*INPUT_KINDS, "lm-eval")
# Columns that need no declaration: a prefix before the class, or one array of all classes.
_PREFIXES: Final = {"logits": "logit_", "proba": "proba_", "log_proba": "log_proba_"}
_ROLES: Final = {
    "sample_weight": "weight_column",
    "domain": "domain_column",
    "group": "group_column",
    "id": "id_column",
}
_LABELS: Final[tuple[str, ...]] = ("label", "y")
_KNN: Final = ("knn_distances", "knn_*")
_TRUE: Final = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The declaration of columns; saved with a calibrator and the default of later reads.

    Parameters
    ----------
    input
        Kind of the scores: "logits", "proba", "log_proba", "score", "confidence", or "lm-eval"
        for sample logs of lm-evaluation-harness.
    score_columns
        Names of the columns in class order, or one prefix such as ``logit_*``. In files of arrays
        the name of one array of shape (n_samples, n_classes).
    label_column, group_column, domain_column, weight_column, id_column
        Names of single columns.
    knn_columns
        Distances to training samples, for `dac`: names, a prefix or an array.
    positive_class
        With two classes, the label of class 1.
    correct_column
        With ``input="confidence"``: whether the prediction was right.
    percent
        Scores are 0 to 100.
    class_names
        Names of the classes in order. Default: the columns of the scores.
    """

    input: str | None = None
    score_columns: tuple[str, ...] | None = None
    label_column: str | None = None
    group_column: str | None = None
    domain_column: str | None = None
    weight_column: str | None = None
    id_column: str | None = None
    knn_columns: tuple[str, ...] | None = None
    positive_class: str | None = None
    correct_column: str | None = None
    percent: bool = False
    class_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("score_columns", "knn_columns", "class_names"):
            value = getattr(self, name)
            if isinstance(value, str):
                value = tuple(part.strip() for part in value.split(","))
            if value is not None:
                object.__setattr__(self, name, tuple(str(part) for part in value))
        if self.input is not None:
            check_choice("input", self.input, INPUTS)
        if self.class_names is not None:
            ClassNames(self.class_names)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return the declaration that a calibrator file holds."""
        known = {f.name for f in fields(cls)}
        return cls(**{key: value for key, value in document.items() if key in known})

    def to_dict(self) -> dict[str, Any]:
        """Return the declared fields as JSON."""
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in asdict(self).items()
            if value not in (None, False)
        }

    def or_else(self, other: "Columns") -> "Columns":
        """Return this declaration, completed by another one."""
        mine = {f.name: getattr(self, f.name) for f in fields(self)}
        return Columns(**{key: value or getattr(other, key) for key, value in mine.items()})


@dataclass(frozen=True)
class Resolved:
    """The columns of one table by their roles."""

    columns: Columns
    """The declaration, with the kind of input and the class names that were found."""
    scores: tuple[str, ...]
    roles: Mapping[str, str]
    """Columns of the label, sample_weight, domain, group and id, as far as there are any."""
    knn: tuple[str, ...]

    @property
    def input(self) -> str:
        """Kind of the scores."""
        return str(self.columns.input)

    @property
    def names(self) -> list[str]:
        """The columns that are read."""
        return list(dict.fromkeys([*self.scores, *self.knn, *self.roles.values()]))


def resolve(names: Sequence[str], columns: Columns, *, labels: bool = True) -> Resolved:
    """Return which column has which role, or raise.

    Parameters
    ----------
    names
        The columns of the table.
    columns
        The declaration.
    labels
        Whether label, weight, domain and group are read; without, only scores and ids are.
    """
    kind = columns.input or _kind_by_name(names, columns)
    scores, class_names = _scores(names, columns, kind)
    if columns.class_names is not None and class_names is not None:
        scores = _in_class_order(scores, class_names, columns)
    roles: dict[str, str] = {}
    if labels:
        declared = {role: getattr(columns, param) for role, param in _ROLES.items()}
        roles = {r: _check_name(names, n, _ROLES[r]) for r, n in declared.items() if n is not None}
        if (label := _label(names, columns, kind)) is not None:
            roles["label"] = label
    elif columns.id_column in names:
        roles["id"] = str(columns.id_column)
    columns = replace(columns, input=kind, class_names=columns.class_names or class_names)
    return Resolved(columns, scores, roles, _knn(names, columns))


def scores_of(table: Mapping[str, NDArray[Any]], resolved: Resolved) -> NDArray[Any]:
    """Return the scores of a table, shape (n_samples, n_classes) or (n_samples,)."""
    x = numbers_of(table, resolved.scores)
    is_bounded = resolved.input in ("proba", "confidence") and len(x)
    if resolved.columns.percent:
        x = x / 100
    elif is_bounded and x.min() >= 0 and 1 + 1e-6 < x.max() <= 100:
        raise InputError(
            f"{resolved.scores[0]} must lie in [0, 1], got {x.max():.4g}. Try percent=True for"
            " scores from 0 to 100.",
            "percent",
        )
    if resolved.input == "proba" and x.ndim == 1:
        x = np.stack([1 - x, x]).T
    return x


def numbers_of(table: Mapping[str, NDArray[Any]], names: Sequence[str]) -> NDArray[Any]:
    """Return one array of numbers as it is, several columns side by side."""
    parts = [as_numbers(table[name], name) for name in names]
    if len(parts) == 1:
        return parts[0]
    if any(part.shape != (len(parts[0]),) for part in parts):
        raise InputError(f"{few(names)} must be columns of equal length.", "score_columns")
    return np.array(parts).T  # Fortran order, as formulas want it


def labels_of(
    values: NDArray[Any], name: str, columns: Columns, n_classes: int
) -> tuple[NDArray[Any], tuple[str, ...] | None]:
    """Return labels as class indices, and the class names; `name` is that of the column."""
    names, positive = columns.class_names, columns.positive_class
    if values.ndim != 1:
        raise InputError(f"{name} must be one column, got shape {values.shape}.", "label_column")
    if columns.input == "confidence":
        return _correct(values, name), None
    missing = [i for i, v in enumerate(values.tolist()) if is_missing(v) or v in ("", b"")]
    if missing:
        raise InputError(
            f"{name} must not be empty, got no label at index {missing[0]}. Try dropping it.",
            "label_column",
        )
    if values.dtype.kind == "O" and isinstance(values[0], bytes):
        values = np.array([v.decode("utf-8", "replace") for v in values])
    numbers = _whole_numbers(values)
    labels = values if numbers is None else numbers
    found = {str(label) for label in labels.tolist()}
    if positive is not None:
        names = _binary_names(found, names, positive, n_classes)
    unknown = sorted(found - {*(names or ()), str(OOD_LABEL)})
    if names is not None and (numbers is None or not unknown):
        return ClassNames(names).encode(labels), names
    if numbers is None:
        raise InputError(
            f"{name} has names ({few(sorted(found))}), so the classes must have names. Try"
            " class_names=, or positive_class= of two classes.",
            "class_names",
        )
    if names and all(n.isdigit() for n in names) and names != tuple(map(str, range(len(names)))):
        raise InputError(
            f"{name} must be class names ({few(names)}), got {unknown[0]}: the names of the classes"
            " are numbers, so labels are not indices. Try other names of the columns, or declare"
            " the columns of the scores and the names of their classes.",
            "label_column",
        )
    return numbers, names


def as_numbers(values: NDArray[Any], name: str) -> NDArray[Any]:
    """Return floating-point numbers: text is parsed, lists are the rows of a matrix."""
    if values.dtype.kind == "f" or values.dtype.name == "bfloat16":
        return values
    if values.dtype.kind == "c":
        raise InputError(f"{name} must be real numbers, got dtype {values.dtype}.", "X")
    if values.dtype == object and len(values) and isinstance(values[0], list | np.ndarray):
        try:
            return np.array(values.tolist(), dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(
                f"{name} must be lists of numbers of equal length.", "score_columns"
            ) from None
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError):
        given = values.tolist()
        i = next((i for i, value in enumerate(given) if not is_number(value)), 0)
        shown = "nothing" if is_missing(given[i]) or given[i] == "" else repr(given[i])
        raise InputError(
            f"{name} must be numbers, got {shown:.60} at index {i}.", "score_columns"
        ) from None


def is_number(value: Any) -> bool:
    """Return whether a value is a number or the text of one."""
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _kind_by_name(names: Sequence[str], columns: Columns) -> str:
    if columns.correct_column is not None:
        return "confidence"
    if columns.score_columns:
        first = columns.score_columns[0]
        kinds = [kind for kind, p in _PREFIXES.items() if first == kind or first.startswith(p)]
        return kinds[0] if kinds else "logits"
    found = [kind for kind in _PREFIXES if _by_name(names, kind)]
    if len(found) > 1:
        raise InputError(
            f"input must be given: the columns have {' and '.join(found)}. Try input={found[0]!r}.",
            "input",
        )
    return found[0] if found else "logits"


def _by_name(names: Sequence[str], kind: str) -> list[str]:
    """Return the columns of the scores that need no declaration."""
    found = _with_prefix(names, _PREFIXES.get(kind, f"{kind}_"))
    if len(found) > 1:
        return found
    single = (kind, "top_logprobs") if kind == "log_proba" else (kind,)
    return [name for name in single if name in names][:1]


def _with_prefix(names: Sequence[str], prefix: str) -> list[str]:
    """Return columns in class order: that of their numbers 0 to K - 1, else as in the table."""
    found = [name for name in names if name.startswith(prefix)]
    numbered = [f"{prefix}{k}" for k in range(len(found))]
    return numbered if sorted(numbered) == sorted(found) else found


def _scores(
    names: Sequence[str], columns: Columns, kind: str
) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Return the columns of the scores and the class names that they give."""
    declared, prefix = columns.score_columns, _PREFIXES.get(kind, f"{kind}_")
    if not declared:
        found = _by_name(names, kind)
    elif len(declared) == 1 and declared[0].endswith("*"):
        prefix = declared[0].removesuffix("*")
        found = _with_prefix(names, prefix)
    else:
        found = [_check_name(names, name, "score_columns") for name in declared]
        if not all(name.startswith(prefix) for name in found):
            prefix = ""
    if not found:
        wanted = f"{prefix}*" if declared or kind in _PREFIXES else kind
        if columns.input is None and not declared and kind == "logits":
            wanted = "logit_* or proba_*"
        raise InputError(
            f"score_columns must be given: no column is named {wanted}; there are {few(names)}.",
            "score_columns",
        )
    if kind in ("score", "confidence") and len(found) > 1:
        raise InputError(
            f"score_columns must be one column with input={kind!r}, got {few(found)}.",
            "score_columns",
        )
    class_names = tuple(name.removeprefix(prefix).strip() for name in found)
    return tuple(found), class_names if len(found) > 1 else None


def _in_class_order(
    scores: tuple[str, ...], found: tuple[str, ...], columns: Columns
) -> tuple[str, ...]:
    """Return the columns in the order of the declared classes."""
    wanted = columns.class_names or ()
    if sorted(wanted) == sorted(found):
        return tuple(scores[found.index(name)] for name in wanted)
    by_name = columns.score_columns is None or columns.score_columns[0].endswith("*")
    if by_name and list(found) != [str(k) for k in range(len(wanted))]:
        raise InputError(
            f"score_columns must be those of the classes {few(wanted)}, got {few(found)}"
            f"; the difference is {few(sorted({*wanted} ^ {*found}))}.",
            "score_columns",
        )
    return scores


def _label(names: Sequence[str], columns: Columns, kind: str) -> str | None:
    declared, usual, param = columns.label_column, _LABELS, "label_column"
    if kind == "confidence":
        declared, usual, param = columns.correct_column or declared, ("correct",), "correct_column"
    if declared is not None:
        return _check_name(names, declared, param)
    found = [name for name in usual if name in names]
    if len(found) > 1:
        raise InputError("label_column must be given: there are label and y.", "label_column")
    return found[0] if found else None


def _knn(names: Sequence[str], columns: Columns) -> tuple[str, ...]:
    declared = columns.knn_columns
    if declared is None:
        declared = _KNN[:1] if _KNN[0] in names else _KNN[1:]
    if declared[0].endswith("*"):
        return tuple(_with_prefix(names, declared[0].removesuffix("*")))
    return tuple(_check_name(names, name, "knn_columns") for name in declared)


def _check_name(names: Sequence[str], name: str, param: str) -> str:
    """Return the name of a column that must exist."""
    if name not in names:
        raise InputError(
            f"{param} must be a column, got {name!r}; there are {few(list(names))}.", param
        )
    return name


def _whole_numbers(values: NDArray[Any]) -> NDArray[np.int64] | None:
    """Return integers, None if some value is none."""
    if values.dtype.kind in "OUST":
        texts = {str(value).strip() for value in values.tolist()}
        if not all(re.fullmatch(r"-?\d+(\.0*)?", text) for text in texts):
            return None
        values = np.array([float(v) for v in values])
    if values.dtype.kind == "f" and len(wrong := np.flatnonzero(values != np.round(values))):
        i = wrong[0]
        raise InputError(
            f"y must be whole numbers or names, got {values[i]:g} at index {i}.", "label_column"
        )
    return values.astype(np.int64) if values.dtype.kind in "fiub" else None


def _binary_names(
    found: Set[str], names: tuple[str, ...] | None, positive: str, n_classes: int
) -> tuple[str, ...]:
    """Return the names of two classes, the positive one last unless the columns give the order."""
    others = [name for name in names or sorted(found) if name not in (positive, "-1")]
    if n_classes != 2 or len(others) != 1:
        raise InputError(
            f"positive_class must be one of two labels, got {positive!r}; the labels are"
            f" {few(list(names or sorted(found)))}.",
            "positive_class",
        )
    return names or (others[0], positive)


def _correct(values: NDArray[Any], name: str | None) -> NDArray[np.bool_]:
    """Return whether predictions were right."""
    texts = [str(v).strip().lower().removesuffix(".0") for v in values.tolist()]
    wrong = [i for i, text in enumerate(texts) if text not in _TRUE]
    if wrong:
        raise InputError(
            f"{name} must be true or false, got {str(values[wrong[0]])!r:.60} at index {wrong[0]}.",
            "correct_column",
        )
    return np.array([_TRUE[text] for text in texts])
