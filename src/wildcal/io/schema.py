"""Which column of a table is what: declared once, else by name."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from wildcal.core.conversion import INPUT_KINDS
from wildcal.core.exceptions import InputError
from wildcal.core.labels import ClassNames, few

INPUTS: Final = (*INPUT_KINDS, "lm-eval")
# Columns that need no declaration: a prefix before the class, or one array of all classes.
_PREFIXES: Final = {"logits": "logit_", "proba": "proba_", "log_proba": "log_proba_"}
_ROLES: Final = {
    "sample_weight": "weight_column",
    "domain": "domain_column",
    "group": "group_column",
    "id": "id_column",
}
_LABELS: Final = ("label", "y")
_KNN: Final = ("knn_distances", "knn_*")
_TRUE: Final = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The declaration of columns; saved with a calibrator and the default of later reads.

    Parameters
    ----------
    input
        What the scores are: "logits", "proba", "log_proba", "score", "confidence", or "lm-eval"
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
        if self.input is not None and self.input not in INPUTS:
            raise InputError(
                f"input must be one of {', '.join(INPUTS)}, got {self.input!r}.", "input"
            )
        if self.class_names is not None:
            ClassNames(self.class_names)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return the declaration that a calibrator file holds."""
        known = {f.name for f in fields(cls)}
        return cls(**{key: value for key, value in document.items() if key in known})

    def to_dict(self) -> dict[str, Any]:
        """Return what is declared, as JSON."""
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

    input: str
    scores: tuple[str, ...]
    class_names: tuple[str, ...] | None
    roles: Mapping[str, str]
    """Columns of the label, sample_weight, domain, group and id, as far as there are any."""
    knn: tuple[str, ...]
    columns: Columns

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
        What is declared.
    labels
        Whether label, weight, domain and group are read; without, only scores and ids are.
    """
    kind = columns.input or _kind_by_name(names, columns)
    scores, class_names = _scores(names, columns, kind)
    if columns.class_names is not None and class_names is not None:
        scores = _in_class_order(scores, class_names, columns)
    found: dict[str, str | None] = {}
    if labels:
        found["label"] = _label(names, columns, kind)
        for role, param in _ROLES.items():
            found[role] = _named(names, getattr(columns, param), param)
    elif columns.id_column in names:
        found["id"] = columns.id_column
    return Resolved(
        input=kind,
        scores=scores,
        class_names=columns.class_names or class_names,
        roles={role: name for role, name in found.items() if name is not None},
        knn=_knn(names, columns),
        columns=columns,
    )


def scores_of(table: Mapping[str, NDArray[Any]], resolved: Resolved) -> NDArray[Any]:
    """Return the scores of a table, shape (n_samples, n_classes) or (n_samples,)."""
    parts = [as_numbers(table[name], name) for name in resolved.scores]
    x = parts[0] if len(parts) == 1 else np.array(parts).T  # Fortran order, as formulas want it
    if resolved.columns.percent:
        x = x / 100
    elif resolved.input in ("proba", "confidence") and len(x) and 1 + 1e-6 < x.max() <= 100:
        raise InputError(
            f"{resolved.scores[0]} must lie in [0, 1], got {x.max():.4g}. Try percent=True for"
            " scores from 0 to 100.",
            "percent",
        )
    if resolved.input == "proba" and x.ndim == 1:
        x = np.stack([1 - x, x]).T
    return x


def labels_of(
    values: NDArray[Any], resolved: Resolved, n_classes: int
) -> tuple[NDArray[Any], tuple[str, ...] | None]:
    """Return labels as class indices, and the class names."""
    names, positive = resolved.class_names, resolved.columns.positive_class
    name = resolved.roles["label"]
    if values.ndim != 1:
        raise InputError(f"{name} must be one column, got shape {values.shape}.", "label_column")
    if resolved.input == "confidence":
        return _correct(values, name), None
    missing = [i for i, v in enumerate(values.tolist()) if v is None or v != v or v == ""]
    if missing:
        raise InputError(
            f"{name} must not be empty, got no label in sample {missing[0]}. Try dropping it.",
            "label_column",
        )
    if values.dtype.kind == "O" and isinstance(values[0], bytes):
        values = np.array([v.decode("utf-8", "replace") for v in values])
    if positive is not None:
        names = _binary_names(values, names, positive, n_classes)
    numbers = _whole_numbers(values)
    by_name = names is not None and (
        numbers is None or set(map(str, np.unique(numbers))) <= {*names, "-1"}
    )
    if names is not None and by_name:
        texts = values if numbers is None else numbers.astype(str)
        return ClassNames(names).encode(texts), names
    if numbers is None:
        raise InputError(
            f"{name} has names ({few(sorted(map(str, np.unique(values.astype(str)))))}), so the"
            " classes must have names. Try class_names=.",
            "class_names",
        )
    return numbers, names


def as_numbers(values: NDArray[Any], name: str) -> NDArray[Any]:
    """Return floating-point numbers; text is parsed."""
    if values.dtype.kind == "f":
        return values
    if values.dtype.kind == "c":
        raise InputError(f"{name} must be real numbers, got dtype {values.dtype}.", "X")
    if values.dtype.name == "bfloat16":
        return values.astype(np.float32)
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError):
        for i, value in enumerate(values.tolist()):
            try:
                float(value)
            except (TypeError, ValueError):
                shown = "nothing" if value in (None, "") else repr(value)
                raise InputError(
                    f"{name} must be numbers, got {shown:.60} in sample {i}.", "score_columns"
                ) from None
        raise


def _kind_by_name(names: Sequence[str], columns: Columns) -> str:
    if columns.correct_column is not None:
        return "confidence"
    if columns.score_columns is not None:
        first = columns.score_columns[0]
        # The longest prefix first: log_proba_ before others.
        for kind, prefix in sorted(_PREFIXES.items(), key=lambda item: -len(item[1])):
            if first.startswith(prefix) or first == kind:
                return kind
        return "logits"
    found = [kind for kind in _PREFIXES if _by_name(names, kind)]
    if len(found) > 1:
        raise InputError(
            f"input must be given: the columns have {' and '.join(found)}. Try input={found[0]!r}.",
            "input",
        )
    return found[0] if found else "logits"


def _by_name(names: Sequence[str], kind: str) -> list[str]:
    prefix = _PREFIXES.get(kind, f"{kind}_")
    with_prefix = [name for name in names if name.startswith(prefix) and name != kind]
    if len(with_prefix) > 1:
        return _in_order(with_prefix, prefix)
    single = (kind, "top_logprobs") if kind == "log_proba" else (kind,)
    return [name for name in single if name in names][:1]


def _in_order(names: Sequence[str], prefix: str) -> list[str]:
    """Return columns in class order: that of their numbers 0 to K - 1, else as they stand."""
    ends = [name.removeprefix(prefix) for name in names]
    if sorted(ends) == sorted(map(str, range(len(ends)))):
        return [f"{prefix}{k}" for k in range(len(ends))]
    return list(names)


def _scores(
    names: Sequence[str], columns: Columns, kind: str
) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Return the columns of the scores and the class names that they give."""
    declared = columns.score_columns
    if declared is None:
        found = _by_name(names, kind)
        if not found:
            prefix = _PREFIXES.get(kind)
            wanted = (
                "logit_* or proba_*" if columns.input is None else f"{prefix}*" if prefix else kind
            )
            raise InputError(
                f"score_columns must be given: no column is named {wanted}; there are"
                f" {few(names)}.",
                "score_columns",
            )
        prefix = _PREFIXES.get(kind, f"{kind}_")
    elif len(declared) == 1 and declared[0].endswith("*"):
        prefix = declared[0].removesuffix("*")
        found = _in_order([name for name in names if name.startswith(prefix)], prefix)
        if not found:
            raise InputError(
                f"score_columns must match columns, got {declared[0]}; there are {few(names)}.",
                "score_columns",
            )
    else:
        found, prefix = list(declared), _PREFIXES.get(kind, "")
        for name in found:
            _named(names, name, "score_columns")
        if not all(name.startswith(prefix) for name in found):
            prefix = ""
    if kind in ("score", "confidence") and len(found) > 1:
        raise InputError(
            f"score_columns must be one column with input={kind!r}, got {few(found)}.",
            "score_columns",
        )
    if len(found) == 1:
        return tuple(found), None
    return tuple(found), tuple(name.removeprefix(prefix) for name in found)


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
            f"score_columns must be those of the classes {few(wanted)}, got {few(found)}.",
            "score_columns",
        )
    return scores


def _label(names: Sequence[str], columns: Columns, kind: str) -> str | None:
    if kind == "confidence":
        declared = columns.correct_column or columns.label_column
        if declared is None and "correct" in names:
            return "correct"
        return _named(names, declared, "correct_column")
    if columns.label_column is not None:
        return _named(names, columns.label_column, "label_column")
    found = [name for name in _LABELS if name in names]
    if len(found) > 1:
        raise InputError("label_column must be given: there are label and y.", "label_column")
    return found[0] if found else None


def _knn(names: Sequence[str], columns: Columns) -> tuple[str, ...]:
    if columns.knn_columns is not None and not columns.knn_columns[0].endswith("*"):
        for name in columns.knn_columns:
            _named(names, name, "knn_columns")
        return columns.knn_columns
    if columns.knn_columns is None and _KNN[0] in names:
        return (_KNN[0],)
    prefix = (columns.knn_columns or _KNN[1:])[0].removesuffix("*")
    return tuple(_in_order([name for name in names if name.startswith(prefix)], prefix))


def _named(names: Sequence[str], name: str | None, param: str) -> str | None:
    if name is not None and name not in names:
        raise InputError(
            f"{param} must be a column, got {name!r}; there are {few(list(names))}.", param
        )
    return name


def _whole_numbers(values: NDArray[Any]) -> NDArray[np.int64] | None:
    """Return integers, None if some value is none."""
    if values.dtype.kind in "OUST":
        if not all(re.fullmatch(r"-?\d+(\.0*)?", str(v).strip()) for v in np.unique(values)):
            return None
        values = np.array([float(v) for v in values])
    if values.dtype.kind == "f" and (values != np.round(values)).any():
        i = int(np.argmax(values != np.round(values)))
        raise InputError(
            f"y must be whole numbers or names, got {values[i]:g} in sample {i}.", "label_column"
        )
    return values.astype(np.int64) if values.dtype.kind in "fiub" else None


def _binary_names(
    values: NDArray[Any], names: tuple[str, ...] | None, positive: str, n_classes: int
) -> tuple[str, ...]:
    """Return the names of two classes, the positive one last."""
    found = list(names or dict.fromkeys(sorted(str(v) for v in np.unique(values.astype(str)))))
    numbers = _whole_numbers(values)
    if numbers is not None and names is None:
        found = sorted(map(str, np.unique(numbers)))
    others = [name for name in found if name not in (positive, "-1")]
    if n_classes != 2 or len(others) != 1 or (names is not None and positive not in names):
        raise InputError(
            f"positive_class must be one of two labels, got {positive!r}; the labels are"
            f" {few(found)}.",
            "positive_class",
        )
    if names is not None:  # the order of the columns stands
        return names
    return (others[0], positive)


def _correct(values: NDArray[Any], name: str | None) -> NDArray[np.bool_]:
    """Return whether predictions were right."""
    texts = [str(v).strip().lower().removesuffix(".0") for v in values.tolist()]
    wrong = [i for i, text in enumerate(texts) if text not in _TRUE]
    if wrong:
        raise InputError(
            f"{name} must be true or false, got {values[wrong[0]]!r:.60} in sample {wrong[0]}.",
            "correct_column",
        )
    return np.array([_TRUE[text] for text in texts])
