"""Which columns are scores, and which are labels, weights, environments, distances or ids."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from wildcal._old.io.tables.naming import DISTANCE_COLUMNS, ROLE_NAMES, ROLES, SCORE_ROLES
from wildcal._old.io.tables.scores import choose_scores
from wildcal._old.io.tables.source import Source, arrays_source


@dataclass(frozen=True, slots=True)
class Chosen:
    """The arrays of a source by what they mean, not yet looked at."""

    scores: NDArray[Any]
    names: tuple[str, ...] | None
    """The names of the columns of scores, if they have some."""
    roles: Mapping[str, NDArray[Any]]
    notes: tuple[str, ...] = ()
    taken: Mapping[str, str] = field(default_factory=dict)
    """Columns that were taken for something else than a class because of their names, by role."""

    def without(self, role: str) -> Self:
        """Return the same without the array of one role."""
        return replace(self, roles={r: a for r, a in self.roles.items() if r != role})


def choose(
    source: Source,
    kind: str,
    columns: Sequence[str | int] | str | None,
    roles: Mapping[str, str | int],
    classes: Sequence[str] = (),
) -> Chosen:
    """Return the scores and their company.

    Parameters
    ----------
    columns
        The columns of scores in class order, by name (`*` stands for anything) or by number.
    roles
        Names by role: "logits" (or another kind) for a whole array of scores, "y", "weight",
        "environment", "distances", "ids".
    classes
        The names of the classes, where they are known: a column of each of these names is a class.
    """
    wrong = set(roles) - {*ROLES, *SCORE_ROLES}
    if wrong:
        raise ValueError(
            f"arrays must say what is what with {', '.join((*SCORE_ROLES, *ROLES))}, got"
            f" {sorted(wrong)[0]!r}."
        )
    if source.bare and (columns is not None or roles):
        source = _numbered(source)
    known = _known_classes(source, columns, classes)
    names = {role: _named(source, role, roles.get(role), known) for role in ROLES}
    taken = [name for group in names.values() for name in group]
    scores, class_names, notes = choose_scores(source, kind, columns, roles, taken, known)
    loaded = source.load(taken)
    found = {role: _join([loaded[n] for n in group]) for role, group in names.items() if group}
    guessed = {name: role for role, group in names.items() if role not in roles for name in group}
    return Chosen(scores, None if source.bare else class_names, found, notes, guessed)


def _known_classes(
    source: Source, columns: Sequence[str | int] | str | None, classes: Sequence[str]
) -> frozenset[str]:
    """Return the columns that are classes, whatever they are called: as told, or all by name."""
    if not source.columnar:
        return frozenset()
    if columns is not None:
        return frozenset([columns] if isinstance(columns, str) else map(str, columns))
    # One name alone may be that of a label: logit_dog, logit_target, target.
    return frozenset(classes if set(classes) <= set(source.names) else ())


def _numbered(source: Source) -> Source:
    """Return a bare matrix as columns that are called by their numbers."""
    (matrix,) = source.load(source.names).values()
    if matrix.ndim != 2:
        raise ValueError(
            f"{source.title} has no columns to choose from: its shape is {matrix.shape}."
        )
    columns = {str(k): matrix[:, k] for k in range(matrix.shape[1])}
    return replace(arrays_source(source.title, columns, columnar=True), bare=True)


def _named(
    source: Source, role: str, given: str | int | None, classes: Collection[str]
) -> list[str]:
    """Return the names of the arrays of one role: as told, or by their usual names."""
    if given is not None:
        return [source.need(str(given), "column" if source.columnar else "array")]
    if source.bare:
        return []
    free = [name for name in source.names if name not in classes]
    found = [name for name in free if name.lower() in ROLE_NAMES[role]]
    if len(found) > 1:
        remedy = "label_column=" if role == "y" else f"arrays={{{role!r}: ...}}"
        word = "label" if role == "y" else role
        raise ValueError(f"several {word} columns: {', '.join(found)}. Choose with {remedy}.")
    if role == "distances" and source.columnar and not found:
        return distance_columns(free)
    return found


def distance_columns(names: Sequence[str]) -> list[str]:
    """Return distance_1, distance_2, ... in the order of their numbers; or density_1, ..."""
    named = {name.lower(): name for name in names if name.lower().startswith(DISTANCE_COLUMNS)}
    for prefix in DISTANCE_COLUMNS:
        wanted = [f"{prefix}{i + 1}" for i in range(len(named))]
        if sorted(named) == sorted(wanted):
            return [named[name] for name in wanted]
    raise ValueError(
        f"columns of distances must be distance_1 to distance_{len(named)}, each once."
    )


def _join(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    return arrays[0] if len(arrays) == 1 and arrays[0].ndim != 1 else _squeeze(arrays)


def _squeeze(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    return arrays[0] if len(arrays) == 1 else np.column_stack(arrays)
