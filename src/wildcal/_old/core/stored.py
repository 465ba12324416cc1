"""How the fields of a calibrator stand in a file: each field says it itself, beside its type.

Type hints are for people and type checkers; what they are at run time changes with Python and
NumPy. What a file may hold is data instead, kept in the metadata of a dataclass field.
"""

from collections.abc import Callable
from dataclasses import Field, dataclass
from numbers import Integral, Real
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


def declared_kind(field: "Field[Any]") -> Stored | None:
    """Return how a field says it is stored, None where it does not."""
    kind: Stored | None = field.metadata.get(_KEY)
    return kind


def kind_of(field: "Field[Any]", owner: str) -> Stored:
    """Return how a field is stored."""
    kind = declared_kind(field)
    if kind is None:
        raise TypeError(
            f"{owner}.{field.name} does not say how it stands in a file; declare it as"
            " field(..., metadata=stored(KIND)) with a kind of wildcal._old.core.stored."
        )
    return kind


_WORDS = {"real": "a number", "integer": "a whole number", "flag": "true or false"}


def can_be(kind: Stored, value: object) -> bool:
    """Return whether a value could stand in a file as this kind, as far as its type tells.

    >>> can_be(REAL, 0.5), can_be(REAL, "0.5"), can_be(optional(INTEGER), None)
    (True, False, True)
    """
    match kind:
        case Plain("real"):
            return isinstance(value, Real) and not isinstance(value, bool) and _has_float(value)
        case Plain("integer"):
            return isinstance(value, Integral) and not isinstance(value, bool)
        case Plain("text"):
            return isinstance(value, str)
        case Plain("flag"):
            return isinstance(value, bool)
        case Plain():
            return value is None
        case Either(kinds):
            return any(can_be(one, value) for one in kinds)
        case Row(kinds):
            return (
                isinstance(value, list | tuple)
                and len(value) == len(kinds)
                and all(can_be(one, item) for one, item in zip(kinds, value, strict=True))
            )
        case Many(of):
            return isinstance(value, list | tuple) and all(can_be(of, item) for item in value)
    return True


def _has_float(value: Real) -> bool:
    """Whether a number is within what a float holds; an integer of Python may be beyond."""
    try:
        float(value)
    except OverflowError:
        return False
    return True


def is_simple(kind: Stored) -> bool:
    """Return whether values of a kind are single: a number, a text, nothing.

    >>> is_simple(optional(REAL)), is_simple(optional(Row((REAL, REAL))))
    (True, False)
    """
    return isinstance(kind, Plain) or (isinstance(kind, Either) and all(map(is_simple, kind.kinds)))


def in_words(kind: Stored) -> str:
    """Return what a message calls values of a kind.

    >>> in_words(optional(REAL)), in_words(Row((REAL, REAL)))
    ('nothing or a number', '2 values, each a number')
    """
    match kind:
        case Plain(name):
            return _WORDS.get(name, name)
        case Either(kinds):
            return " or ".join(in_words(one) for one in kinds)
        case Row(kinds):
            return f"{len(kinds)} values, each {in_words(kinds[0])}"
        case Many(of):
            return f"a list, each {in_words(of)}"
    return "something else"
