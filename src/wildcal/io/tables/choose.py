"""Which columns are scores, and which are labels, weights, environments, distances or ids."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal.io.tables.naming import (
    DENSITY_COLUMN,
    PREFIXES,
    RESULT_NAMES,
    ROLE_NAMES,
    ROLES,
    SCORE_NAMES,
    SCORE_ROLES,
)
from wildcal.io.tables.source import Source, arrays_source, few

# Columns that count or name rows, whatever numbers they hold.
_ID_NAMES = ("", "id", "ids", "idx", "index", "row", "rowid", "uid", "unnamed: 0")
_TELL = "name the classes with columns=, or say what it is with label_column= or id_column="


@dataclass(frozen=True, slots=True)
class Chosen:
    """The arrays of a source by what they mean, not yet looked at."""

    scores: NDArray[Any]
    names: tuple[str, ...] | None
    """The names of the columns of scores, if they have some."""
    roles: Mapping[str, NDArray[Any]]
    notes: tuple[str, ...] = ()


def choose(
    source: Source,
    kind: str,
    columns: Sequence[str | int] | str | None,
    roles: Mapping[str, str | int],
) -> Chosen:
    """Return the scores and their company.

    Parameters
    ----------
    columns
        The columns of scores in class order, by name (`*` stands for anything) or by number.
    roles
        Names by role: "logits" (or another kind) for a whole array of scores, "y", "weight",
        "environment", "distances", "ids".
    """
    wrong = set(roles) - {*ROLES, *SCORE_ROLES}
    if wrong:
        raise ValueError(
            f"arrays must say what is what with {', '.join((*SCORE_ROLES, *ROLES))}, got"
            f" {sorted(wrong)[0]!r}."
        )
    if source.bare and (columns is not None or roles):
        source = _numbered(source)
    names = {role: _named(source, role, roles.get(role)) for role in ROLES}
    taken = [name for group in names.values() for name in group]
    scores, class_names, notes = _scores(source, kind, columns, roles, taken)
    loaded = source.load(taken)
    found = {role: _join([loaded[n] for n in group]) for role, group in names.items() if group}
    return Chosen(scores, None if source.bare else class_names, found, notes)


def _numbered(source: Source) -> Source:
    """Return a bare matrix as columns that are called by their numbers."""
    (matrix,) = source.load(source.names).values()
    if matrix.ndim != 2:
        raise ValueError(
            f"{source.title} has no columns to choose from: its shape is {matrix.shape}."
        )
    columns = {str(k): matrix[:, k] for k in range(matrix.shape[1])}
    return replace(arrays_source(source.title, columns, columnar=True), bare=True)


def _named(source: Source, role: str, given: str | int | None) -> list[str]:
    """Return the names of the arrays of one role: as told, or by their usual names."""
    if given is not None:
        return [source.need(str(given), "column" if source.columnar else "array")]
    if source.bare:
        return []
    found = [name for name in source.names if name.lower() in ROLE_NAMES[role]]
    if len(found) > 1:
        remedy = "label_column=" if role == "y" else f"arrays={{{role!r}: ...}}"
        word = "label" if role == "y" else role
        raise ValueError(f"several {word} columns: {', '.join(found)}. Choose with {remedy}.")
    if role == "distances" and source.columnar and not found:
        return density_columns(source.names)
    return found


def density_columns(names: Sequence[str]) -> list[str]:
    """Return density_1, density_2, ... in the order of their numbers."""
    found = [name for name in names if name.lower().startswith(DENSITY_COLUMN)]
    named = {name.lower(): name for name in found}
    wanted = [f"{DENSITY_COLUMN}{i + 1}" for i in range(len(found))]
    if sorted(named) != sorted(wanted):
        raise ValueError(
            f"columns of distances must be density_1 to density_{len(found)}, each once."
        )
    return [named[name] for name in wanted]


def _join(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    return arrays[0] if len(arrays) == 1 and arrays[0].ndim != 1 else _squeeze(arrays)


def _squeeze(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    return arrays[0] if len(arrays) == 1 else np.column_stack(arrays)


def _scores(
    source: Source,
    kind: str,
    columns: Sequence[str | int] | str | None,
    roles: Mapping[str, str | int],
    taken: list[str],
) -> tuple[NDArray[Any], tuple[str, ...] | None, tuple[str, ...]]:
    whole = next((roles[role] for role in SCORE_ROLES if role in roles), None)
    if columns is not None:
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
            return array, None, ()
    if not source.columnar:
        raise ValueError(_no_scores(source, kind, free))
    names, notes = _rest(source, kind, free)
    return (*_stack(source, names, kind), notes)


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


def _rest(source: Source, kind: str, free: list[str]) -> tuple[list[str], tuple[str, ...]]:
    """Return the columns that are left for scores, sure that none is something else by its name."""
    for prefix in PREFIXES[kind]:
        called = [name for name in free if name.lower().startswith(prefix)]
        if len(called) > 1 or (called and kind == "proba"):
            left = [name for name in free if name not in called]
            notes = (f"columns left out: {few(left)}",) if left else ()
            return called, notes
    for name in free:
        if name.lower() in RESULT_NAMES or name.lower().startswith("proba_"):
            word = (
                "Pass kind='proba'"
                if name.lower().startswith("proba")
                else f"Leave it out, or {_TELL}"
            )
            raise ValueError(f"column {name} is a result of `wildcal apply`, not a score. {word}.")
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
    return (
        f"{source.title} has no {kind}: expected an array named {expected}, found"
        f" {few(sorted(source.names))}. Say which it is: arrays={{{kind!r}: {example!r}}}."
    )
