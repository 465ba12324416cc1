"""Which columns are the scores of the classes, and which only look like them."""

from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal._old.io.tables.naming import (
    PREDICTED,
    PREFIXES,
    RESULT_NAMES,
    SCORE_NAMES,
    SCORE_ROLES,
)
from wildcal._old.io.tables.source import Source, few

# Columns that count or name rows, whatever numbers they hold.
_ID_NAMES = ("", "id", "ids", "idx", "index", "row", "rowid", "uid", "unnamed: 0")
_TELL = "name the classes with columns=, or say what it is with label_column= or id_column="


def choose_scores(
    source: Source,
    kind: str,
    columns: Sequence[str | int] | str | None,
    roles: Mapping[str, str | int],
    taken: list[str],
    classes: Collection[str] = (),
) -> tuple[NDArray[Any], tuple[str, ...] | None, tuple[str, ...]]:
    """Return the array of scores, the names of its columns if they have some, and notes."""
    whole = next((roles[role] for role in SCORE_ROLES if role in roles), None)
    if columns is not None and source.columnar:
        if whole is not None:
            raise ValueError("give columns=, or the array of scores in arrays=, not both.")
        names = _expand(source, columns, taken)
        return (*_stack(source, names, kind), ())
    if source.bare and not source.columnar:
        return source.load(source.names)[source.names[0]], None, ()
    free = [name for name in source.names if name not in taken]
    if whole is None:
        usual = [name for name in free if name.lower() in SCORE_NAMES[kind]]
        whole = usual[0] if usual else None
    if whole is not None:
        name = source.need(str(whole), "column" if source.columnar else "array")
        array = source.load([name])[name]
        if source.columnar and array.ndim == 1 and array.dtype != object and kind == "logits":
            whole = None  # a class that happens to be called z
        else:
            return _numbered_columns(array, columns, name), None, ()
    if not source.columnar:
        raise ValueError(_no_scores(source, kind, free))
    names, notes = _rest(source, kind, free, classes)
    return (*_stack(source, names, kind), notes)


def _numbered_columns(
    array: NDArray[Any], columns: Sequence[str | int] | str | None, name: str
) -> NDArray[Any]:
    """Return the columns of a matrix by their numbers, all of them if none are asked for."""
    if columns is None:
        return array
    wanted = [columns] if isinstance(columns, str) else [str(k) for k in columns]
    count = array.shape[1] if array.ndim == 2 else 0
    wrong = [k for k in wanted if not (k.isascii() and k.isdigit() and int(k) < count)]
    if wrong or not wanted:
        raise ValueError(
            f"array {name} has columns 0 to {count - 1} and no names for them, got"
            f" columns={wrong[0] if wrong else '[]'!r}. Number them."
        )
    return array[:, [int(k) for k in wanted]]


def _expand(source: Source, columns: Sequence[str | int] | str, taken: Sequence[str]) -> list[str]:
    names: list[str] = []
    for wanted in [columns] if isinstance(columns, str) else list(columns):
        name = str(wanted)
        if name not in source.names and any(mark in name for mark in "*?["):
            matched = [n for n in source.names if fnmatchcase(n, name) and n not in taken]
            names += matched or [source.need(name, "column like")]
        else:
            names.append(source.need(name, "column"))
    twice = [name for k, name in enumerate(names) if name in names[:k]]
    if twice:
        raise ValueError(f"columns= names {twice[0]!r} twice.")
    if not names:
        raise ValueError("columns= must name at least one column.")
    return names


def _rest(
    source: Source, kind: str, free: list[str], classes: Collection[str]
) -> tuple[list[str], tuple[str, ...]]:
    """Return the columns that are left for scores, sure that none is something else by its name."""
    for prefix in PREFIXES[kind]:
        called = [name for name in free if name.lower().startswith(prefix)]
        if len(called) > 1 or (called and kind == "proba"):
            # Beside probabilities the predicted class has a reader, and a note, of its own.
            known = (*called, PREDICTED) if kind == "proba" else called
            left = [name for name in free if name not in known]
            notes = (f"columns left out: {few(left)}",) if left else ()
            return called, notes
    for name in free:
        if name in classes:
            continue
        if name.lower() in RESULT_NAMES or name.lower().startswith("proba_"):
            word = (
                "Pass kind='proba'"
                if name.lower().startswith("proba")
                else f"Leave it out, or {_TELL}"
            )
            raise ValueError(f"column {name} is a result of a calibrator, not a score. {word}.")
        if name.lower() in _ID_NAMES or name.lower().endswith("_id"):
            what = f"column {name!r} names rows" if name else "a column has no name, as an index"
            raise ValueError(
                f"{what}: no class. Pass id_column={name!r} to keep it as id, leave it out"
                " (index=False), or name the classes with columns=."
            )
    if not free:
        raise ValueError(f"{source.title} has no columns of scores beside {few(source.names)}.")
    return free, ()


def _stack(
    source: Source, names: list[str], kind: str
) -> tuple[NDArray[Any], tuple[str, ...] | None]:
    """Return columns side by side, with the names of their classes."""
    arrays = source.load(names)
    if len(names) == 1 and arrays[names[0]].ndim != 1:
        return arrays[names[0]], None
    for name, array in arrays.items():
        if array.ndim != 1:
            raise ValueError(f"column {name!r} is a matrix {array.shape}: choose it alone.")
        if array.dtype.kind not in "iuf" and array.dtype.name != "bfloat16":
            if len(names) == 1 and kind == "logprobs":
                return array, None
            raise ValueError(f"column {name!r} holds {_content(array)}, not scores: {_TELL}.")
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"columns must be equally long, got {lengths}.")
    return np.column_stack(list(arrays.values())), _class_names(names, kind)


def _class_names(names: list[str], kind: str) -> tuple[str, ...] | None:
    if len(names) < 2:
        return None
    for prefix in PREFIXES[kind]:
        if all(name.lower().startswith(prefix) and len(name) > len(prefix) for name in names):
            return tuple(name[len(prefix) :] for name in names)
    return tuple(names)


def _content(array: NDArray[Any]) -> str:
    if array.dtype.kind == "b":
        return "true and false"
    if array.dtype.kind in "mM":
        return "dates"
    if array.dtype.kind not in "OUST":
        return f"dtype {array.dtype}"
    first = next((v for v in array.tolist() if v is not None), "nothing")
    return (
        "lists of several lengths" if isinstance(first, list | dict) else f"words ({first!s:.30})"
    )


def _no_scores(source: Source, kind: str, free: list[str]) -> str:
    expected = " or ".join(SCORE_NAMES[kind])
    example = free[0] if len(free) == 1 else "NAME"
    advice = f"Say which it is: arrays={{{kind!r}: {example!r}}}"
    named = {name.lower() for name in free}
    other = next((other for other, names in SCORE_NAMES.items() if named & set(names)), None)
    if other is not None:
        advice = f"Say what the numbers are: kind={other!r}"
    return (
        f"{source.title} has no {kind}: expected an array named {expected}, found"
        f" {few(sorted(source.names))}. {advice}."
    )
