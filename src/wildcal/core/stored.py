"""How the fields of a calibrator stand in a file: each field says it itself, beside its type.

Type hints are for people and type checkers; what they are at run time changes with Python and
NumPy. What a file may hold is data instead, kept in the metadata of a dataclass field.
"""

from collections.abc import Callable
from dataclasses import Field, dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Plain:
    """A value that JSON knows: a finite number, an integer, text, true or false, or null."""

    name: str


@dataclass(frozen=True, slots=True)
class Array:
    """An array of finite numbers."""


@dataclass(frozen=True, slots=True)
class Nested:
    """A calibrator: of any method, or of the one with this short name."""

    method: str | None = None


@dataclass(frozen=True, slots=True)
class Either:
    """The first of these that the value can be."""

    kinds: "tuple[Stored, ...]"


@dataclass(frozen=True, slots=True)
class Row:
    """A tuple with a kind for each place."""

    kinds: "tuple[Stored, ...]"


@dataclass(frozen=True, slots=True)
class Many:
    """Any number of values of one kind, in a `list` or a `tuple`."""

    kind: "Stored"
    container: type[list[Any]] | type[tuple[Any, ...]] = list


@dataclass(frozen=True, slots=True)
class Written:
    """Something with files of its own: to plain JSON values and back, a ValueError if it cannot."""

    write: Callable[[Any], dict[str, Any]]
    read: Callable[[dict[str, Any]], Any]


Stored: TypeAlias = Plain | Array | Nested | Either | Row | Many | Written

REAL = Plain("real")
INTEGER = Plain("integer")
TEXT = Plain("text")
FLAG = Plain("flag")
NOTHING = Plain("nothing")
ARRAY = Array()

_KEY = "wildcal.stored"


def stored(kind: Stored) -> dict[str, Stored]:
    """Return the metadata of a field that is stored this way.

    Examples
    --------
    >>> from dataclasses import dataclass, field
    >>> @dataclass
    ... class Shrink:
    ...     ridge: float = field(default=0.1, metadata=stored(REAL))
    ...     scale_: float = field(init=False, repr=False, metadata=stored(REAL))
    """
    return {_KEY: kind}


def optional(kind: Stored) -> Either:
    """Return the kind of a value that may be None."""
    return Either((NOTHING, kind))


def kind_of(field: "Field[Any]", owner: str) -> Stored:
    """Return how a field is stored."""
    kind = field.metadata.get(_KEY)
    if kind is None:
        raise TypeError(
            f"{owner}.{field.name} does not say how it stands in a file; declare it as"
            " field(..., metadata=stored(KIND)) with a kind of wildcal.core.stored."
        )
    found: Stored = kind
    return found
